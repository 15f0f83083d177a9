//! Letters as a table for spreadsheets (RFC 4180), in which nothing is a formula.

use redrive_engine::alerts::escape;
use redrive_server::view::SummaryView;

/// The names of the columns.
pub(super) const HEADER: &str =
    "id,pipeline,kind,status,event_type,key,class,code,failure,message,attempts,redrives,failed_at,group";

/// A letter as a row.
pub(super) fn row(letter: &SummaryView) -> String {
    let failure = &letter.failure;
    [
        cell(&letter.id),
        cell(&letter.pipeline),
        cell(letter.kind.name()),
        cell(letter.status.name()),
        cell(&letter.event_type),
        cell(&letter.key),
        cell(failure.class.name()),
        cell(failure.code.as_deref().unwrap_or_default()),
        cell(&failure.kind),
        cell(&failure.message),
        letter.attempts.to_string(),
        letter.redrive_count.to_string(),
        cell(&letter.failed_at.to_string()),
        cell(&letter.group),
    ]
    .join(",")
}

/// A quoted cell. A spreadsheet takes what begins with one of these for a formula, unless a quote is before it.
pub(super) fn cell(text: &str) -> String {
    let text = escape(text);
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@', '|', '%', '＝', '＋', '－', '＠']);
    let guard = if is_formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_cell_is_a_formula_or_leaves_it() {
        for (text, expected) in [
            ("plain, text", "\"plain, text\""),
            ("=1+1", "\"'=1+1\""),
            (" @SUM(A1)", "\"' @SUM(A1)\""),
            ("\t=1", "\"\\t=1\""),
            ("say \"=1\"", "\"say \"\"=1\"\"\""),
            ("a\r\n=b", "\"a\\r\\n=b\""),
            ("\u{1b}[31m", "\"\\u{1b}[31m\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
