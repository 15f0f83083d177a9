//! Rows as the text that COPY reads, and what its errors say about them.

use std::fmt::Write as _;
use std::ops::Range;

use sqlx::postgres::PgConnection;

use crate::row::{Cell, Row};

/// So many bytes are handed to the socket at a time.
const PIECE: usize = 256 * 1024;

/// Rows in the text format of COPY, written once; any run of them is a slice.
pub(super) struct CopyText {
    text: String,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl CopyText {
    pub(super) fn new(rows: &[Row<'_>]) -> Self {
        let mut text = String::with_capacity(rows.iter().map(Row::size).sum::<usize>() * 5 / 4);
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            write_row(&mut text, row);
            ends.push(text.len());
        }
        Self { text, ends }
    }

    pub(super) fn slice(&self, rows: Range<usize>) -> &[u8] {
        let at = |row: usize| if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text.as_bytes()[at(rows.start)..at(rows.end)]
    }
}

fn write_row(text: &mut String, row: &Row<'_>) {
    let identity = &row.identity;
    escape(text, &identity.topic);
    // Writing to a String cannot fail.
    let _ = write!(text, "\t{}\t{}", identity.partition, identity.offset);
    for cell in &row.cells {
        text.push('\t');
        write_cell(text, cell);
    }
    text.push('\n');
}

fn write_cell(text: &mut String, cell: &Cell<'_>) {
    match cell {
        Cell::Null => text.push_str("\\N"),
        Cell::Bool(true) => text.push('t'),
        Cell::Bool(false) => text.push('f'),
        Cell::Number(number) => text.push_str(number),
        Cell::Text(value) => escape(text, value),
        Cell::Json(json) => escape(text, json),
        Cell::Time(time) => {
            let _ = write!(text, "{time}");
        }
    }
}

/// Backslashes and what ends a column or a row; everything else stands for itself.
fn escape(text: &mut String, value: &str) {
    let mut rest = value;
    while let Some(at) = rest.find(['\\', '\t', '\n', '\r']) {
        text.push_str(&rest[..at]);
        text.push_str(match rest.as_bytes()[at] {
            b'\\' => "\\\\",
            b'\t' => "\\t",
            b'\n' => "\\n",
            _ => "\\r",
        });
        rest = &rest[at + 1..];
    }
    text.push_str(rest);
}

/// Copies rows: all of them, durably, or none.
pub(super) async fn copy(
    connection: &mut PgConnection,
    statement: &str,
    rows: &[u8],
) -> Result<(), sqlx::Error> {
    let mut copy = connection.copy_in_raw(statement).await?;
    for piece in rows.chunks(PIECE) {
        copy.send(piece).await?;
    }
    copy.finish().await.map(drop)
}

/// The row that an error names, from 0: the last line of its context that says `COPY …, line N`. What
/// stands above it are the places inside a trigger or a function that the row ran into.
pub(super) fn named_row(context: Option<&str>) -> Option<usize> {
    let line = context?.lines().rev().find(|line| line.starts_with("COPY "))?;
    // The name of the table may hold anything, so the last ", line " before the value counts.
    let (_, rest) = line.split_once(", line ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Position;

    #[test]
    fn rows_are_escaped_as_copy_reads_them() {
        let cells = vec![
            Cell::Null,
            Cell::Bool(true),
            Cell::Number("1.50".into()),
            Cell::Text("a\tb\\c\nd\re\u{e9}".into()),
            Cell::Json(r#"{"a":"\n"}"#),
        ];
        let row = Row { identity: Position::new("t", 1, 2), cells };
        let text = CopyText::new(&[row.clone(), row]);
        let expected = "t\t1\t2\t\\N\tt\t1.50\ta\\tb\\\\c\\nd\\re\u{e9}\t{\"a\":\"\\\\n\"}\n";
        assert_eq!(std::str::from_utf8(text.slice(0..1)).unwrap(), expected);
        assert_eq!(text.slice(1..2), expected.as_bytes());
        assert_eq!(text.slice(2..2), b"");
        assert_eq!(text.slice(0..2).len(), 2 * expected.len());
    }

    #[test]
    fn the_last_line_that_names_a_row_counts() {
        for (context, row) in [
            ("COPY decision_log, line 3, column amount: \"x\"", Some(2)),
            ("COPY decision_log, line 1: \"t\t0\t5\"", Some(0)),
            ("PL/pgSQL function f() line 3 at RAISE\nCOPY decision_log, line 12: \"…\"", Some(11)),
            ("JSON data, line 1: {\"a\":...\nCOPY decision_log, line 7, column body: \"{\"a\"\"", Some(6)),
            ("SQL statement \"SELECT 1 FROM ONLY …\"", None),
        ] {
            assert_eq!(named_row(Some(context)), row, "{context}");
        }
        assert_eq!(named_row(None), None);
    }
}
