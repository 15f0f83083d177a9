//! What an edit changes, line by line.

use crate::json;

/// One line of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// In both.
    Same(String),
    /// Only before.
    Gone(String),
    /// Only after.
    New(String),
    /// This many lines that are in both and far from any change.
    Skipped(usize),
}

/// How many lines around a change are shown.
const AROUND: usize = 3;
/// Larger parts are not compared but replaced: the table would be too large.
const MOST_CELLS: usize = 4_000_000;

/// The comparison of two payloads; empty when they are the same. JSON is compared indented, so that one long line is
/// not one change.
#[must_use]
pub fn compare_payloads(before: &str, after: &str) -> Vec<Line> {
    let laid_out = match (json::indented(before), json::indented(after)) {
        (Some(before), Some(after)) => compare(&before, &after),
        _ => Vec::new(),
    };
    // Only the blanks between values were changed, or it is no JSON.
    if laid_out.is_empty() { compare(before, after) } else { laid_out }
}

/// The comparison of two texts; empty when they are the same.
fn compare(before: &str, after: &str) -> Vec<Line> {
    if before == after {
        return Vec::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let longest = old.len().min(new.len()) - front;
    let back = old.iter().rev().zip(new.iter().rev()).take(longest).take_while(|(a, b)| a == b).count();
    let same = |line: &&str| Line::Same((*line).to_owned());
    let mut lines: Vec<Line> = old[..front].iter().map(same).collect();
    middle(&old[front..old.len() - back], &new[front..new.len() - back], &mut lines);
    lines.extend(old[old.len() - back..].iter().map(same));
    skip_far(lines)
}

fn middle(old: &[&str], new: &[&str], lines: &mut Vec<Line>) {
    if old.len().saturating_mul(new.len()) > MOST_CELLS {
        lines.extend(old.iter().map(|line| Line::Gone((*line).to_owned())));
        lines.extend(new.iter().map(|line| Line::New((*line).to_owned())));
        return;
    }
    let common = common_lengths(old, new);
    let width = new.len() + 1;
    let (mut at, mut to) = (0, 0);
    while at < old.len() || to < new.len() {
        if at < old.len() && to < new.len() && old[at] == new[to] {
            lines.push(Line::Same(old[at].to_owned()));
            (at, to) = (at + 1, to + 1);
        } else if to == new.len()
            || (at < old.len() && common[(at + 1) * width + to] >= common[at * width + to + 1])
        {
            lines.push(Line::Gone(old[at].to_owned()));
            at += 1;
        } else {
            lines.push(Line::New(new[to].to_owned()));
            to += 1;
        }
    }
}

/// For each pair of places, how long the longest common part of what follows is.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut common = vec![0; (old.len() + 1) * width];
    for at in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            common[at * width + to] = if old[at] == new[to] {
                common[(at + 1) * width + to + 1] + 1
            } else {
                common[(at + 1) * width + to].max(common[at * width + to + 1])
            };
        }
    }
    common
}

fn skip_far(lines: Vec<Line>) -> Vec<Line> {
    let changes: Vec<usize> = (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Same(_))).collect();
    let mut shown = Vec::new();
    for (at, line) in lines.into_iter().enumerate() {
        let next = changes.partition_point(|change| *change < at);
        let near = |change: Option<&usize>| change.is_some_and(|change| change.abs_diff(at) <= AROUND);
        if near(changes.get(next)) || near(next.checked_sub(1).and_then(|before| changes.get(before))) {
            shown.push(line);
        } else if let Some(Line::Skipped(many)) = shown.last_mut() {
            *many += 1;
        } else {
            shown.push(Line::Skipped(1));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn text(lines: &[Line]) -> String {
        let line = |line: &Line| match line {
            Line::Same(text) => format!(" {text}"),
            Line::Gone(text) => format!("-{text}"),
            Line::New(text) => format!("+{text}"),
            Line::Skipped(many) => format!("~{many}"),
        };
        lines.iter().map(line).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let before: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let after = before.replace("10\n", "ten\n");
        assert_eq!(text(&compare(&before, &after)), "~6| 7| 8| 9|-10|+ten| 11| 12| 13|~7");
    }

    #[test]
    fn the_ends_and_nothing_at_all() {
        assert_eq!(text(&compare("a", "a")), "");
        assert_eq!(text(&compare("", "a")), "+a");
        assert_eq!(text(&compare("a\nb", "b")), "-a| b");
        assert_eq!(text(&compare("a\nb", "a")), " a|-b");
        assert_eq!(text(&compare("a\na", "a\na\na")), " a| a|+a");
    }

    #[test]
    fn too_much_is_replaced_rather_than_compared() {
        let before: String = (0..3_000).map(|line| format!("a{line}\n")).collect();
        let after: String = (0..3_000).map(|line| format!("b{line}\n")).collect();
        assert_eq!(compare(&before, &after).len(), 6_000);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_off(old in "[abc\n]{0,20}", new in "[abc\n]{0,20}") {
            let (from, to): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let mut lines = Vec::new();
            middle(&from, &to, &mut lines);
            let only = |wanted: fn(&Line) -> Option<&String>| -> Vec<String> {
                lines.iter().filter_map(wanted).cloned().collect()
            };
            let left = only(|line| match line { Line::Same(text) | Line::Gone(text) => Some(text), _ => None });
            let right = only(|line| match line { Line::Same(text) | Line::New(text) => Some(text), _ => None });
            prop_assert_eq!(left, from);
            prop_assert_eq!(right, to);
        }
    }
}
