//! Rows as the text that COPY reads, and what its errors say about them.

use std::fmt::Write as _;
use std::ops::Range;

use redrive_core::failure::Failure;
use redrive_store::ColumnInfo;
use sqlx::postgres::PgConnection;

use crate::row::Row;
use crate::sink::statement::{SinkColumns, Text};

/// So many bytes are handed to the socket at a time.
const PIECE: usize = 256 * 1024;

/// Rows in the text format of COPY, written once; any run of them is a slice.
pub(super) struct CopyText {
    text: String,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl CopyText {
    /// The rows whose values fit their columns, and the others with the reason, by index.
    pub(super) fn new(columns: &SinkColumns, rows: &[Row<'_>]) -> (Self, Vec<(usize, Failure)>) {
        let mut text = String::with_capacity(rows.iter().map(Row::size).sum::<usize>() * 5 / 4);
        let (mut ends, mut unfit) = (Vec::with_capacity(rows.len()), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            match columns.texts(row) {
                Ok(values) => {
                    write_row(&mut text, columns.all(), &values);
                    ends.push(text.len());
                }
                Err(failure) => unfit.push((index, failure)),
            }
        }
        (Self { text, ends }, unfit)
    }

    pub(super) fn slice(&self, rows: Range<usize>) -> &[u8] {
        let at = |row: usize| if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text.as_bytes()[at(rows.start)..at(rows.end)]
    }
}

fn write_row(text: &mut String, columns: &[ColumnInfo], values: &[Text<'_>]) {
    for (at, (column, value)) in columns.iter().zip(values).enumerate() {
        if at > 0 {
            text.push('\t');
        }
        match value {
            None => text.push_str("\\N"),
            Some(value) if column.is_bytes() => write_bytes(text, value.as_bytes()),
            Some(value) => escape(text, value),
        }
    }
    text.push('\n');
}

/// In hexadecimal digits: BYTEA would take a backslash for an escape.
fn write_bytes(text: &mut String, bytes: &[u8]) {
    text.push_str("\\\\x");
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
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

    #[test]
    fn texts_are_escaped_as_copy_reads_them() {
        let mut text = String::new();
        escape(&mut text, "a\tb\\c\nd\re\u{e9}{\"a\":\"\\n\"}");
        assert_eq!(text, "a\\tb\\\\c\\nd\\re\u{e9}{\"a\":\"\\\\n\"}");
        text.clear();
        write_bytes(&mut text, b"\\A");
        assert_eq!(text, r"\\x5c41");
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
