//! What an edit changes, as a page shows it.

use super::text;
use crate::{diff, number};

/// The most lines of an edit that are shown.
const MOST_LINES: usize = 200;

/// A line of a comparison, ready to be shown.
pub(super) struct DiffLine {
    pub(super) class: &'static str,
    pub(super) mark: &'static str,
    pub(super) text: String,
}

/// What was changed, line by line.
pub(super) fn comparison(before: &str, after: &str) -> Vec<DiffLine> {
    let lines = diff::compare_payloads(before, after);
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let mut shown: Vec<DiffLine> = lines.into_iter().take(MOST_LINES).map(diff_line).collect();
    if left_out > 0 {
        let text = format!("{} more are not shown", number::counted(left_out as u64, "line"));
        shown.push(DiffLine { class: "skipped", mark: "", text });
    }
    shown
}

fn diff_line(line: diff::Line) -> DiffLine {
    const LONGEST: usize = 2_000;
    let (class, mark, text) = match line {
        diff::Line::Same(text) => ("same", " ", text::line(&text, LONGEST)),
        diff::Line::Gone(text) => ("gone", "−", text::line(&text, LONGEST)),
        diff::Line::New(text) => ("new", "+", text::line(&text, LONGEST)),
        diff::Line::Skipped(many) => {
            ("skipped", "", format!("{} unchanged", number::counted(many as u64, "line")))
        }
    };
    DiffLine { class, mark, text }
}
