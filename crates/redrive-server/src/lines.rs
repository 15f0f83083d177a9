//! Events in a body: one JSON value, an array of them, or one per line. Out come lines.
//!
//! What is sent is kept byte for byte, except for line breaks and spaces between the parts of a value that
//! spans several lines: an event is one line from here on.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Events as lines, each with its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) lines: Bytes,
    pub(crate) events: u64,
    /// What was left out, if the sender wanted it so: the first of it.
    pub(crate) rejected: Vec<WrongLine>,
    /// How many lines were left out.
    pub(crate) rejected_total: u64,
}

/// A line that is no JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub(crate) struct WrongLine {
    /// Which, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) error: String,
}

/// What becomes of a body in which a line is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// None of it is accepted.
    Refuse,
    /// The other lines are.
    Skip,
}

impl Invalid {
    pub(crate) const fn name(self) -> &'static [u8] {
        match self {
            Self::Refuse => b"refuse ",
            Self::Skip => b"skip ",
        }
    }
}

/// How many wrong lines are named in an answer.
const MOST_NAMED: usize = 100;

/// A body with one event per line. Empty lines are none.
pub(crate) fn of_lines(body: &Bytes, invalid: Invalid) -> Result<Lines, WrongLine> {
    let (mut events, mut rejected_total) = (0, 0);
    let mut rejected = Vec::new();
    let mut kept = Kept::All;
    for (number, line) in body.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let event = line.trim_ascii();
        if event.is_empty() {
            kept.leave_out(body, line);
            continue;
        }
        match check(event) {
            Ok(()) => {
                events += 1;
                kept.keep(body, line);
            }
            Err(why) if invalid == Invalid::Skip => {
                rejected_total += 1;
                // A body may have millions of wrong lines: to say what is wrong with each takes seconds.
                if rejected.len() < MOST_NAMED {
                    rejected.push(why.of_line(number + 1));
                }
                kept.leave_out(body, line);
            }
            Err(why) => return Err(why.of_line(number + 1)),
        }
    }
    Ok(Lines { lines: kept.finish(body), events, rejected, rejected_total })
}

/// A body of one value, or an array of them.
pub(crate) fn of_json(body: &Bytes) -> Result<Lines, WrongLine> {
    let text = std::str::from_utf8(body)
        .map_err(|error| WrongLine { line: 1, error: format!("it is not UTF-8: {error}") })?;
    let values: Vec<&RawValue> = if text.trim_ascii_start().starts_with('[') {
        serde_json::from_str(text).map_err(|error| wrong(&error))?
    } else {
        vec![serde_json::from_str(text).map_err(|error| wrong(&error))?]
    };
    let mut lines = BytesMut::with_capacity(body.len() + values.len());
    for value in &values {
        put_in_one_line(value.get(), &mut lines);
        lines.put_u8(b'\n');
    }
    Ok(Lines { lines: lines.freeze(), events: values.len() as u64, ..Lines::default() })
}

/// Why a line is no event.
enum Wrong {
    Json(serde_json::Error),
    NotUtf8,
}

impl Wrong {
    fn of_line(self, line: usize) -> WrongLine {
        let error = match self {
            Self::Json(error) => without_place(&error),
            Self::NotUtf8 => "it is not UTF-8".to_owned(),
        };
        WrongLine { line, error }
    }
}

fn check(event: &[u8]) -> Result<(), Wrong> {
    match serde_json::from_slice::<IgnoredAny>(event) {
        // Bytes inside strings are not looked at by a parser that ignores them.
        Ok(_) if std::str::from_utf8(event).is_ok() => Ok(()),
        Ok(_) => Err(Wrong::NotUtf8),
        Err(error) => Err(Wrong::Json(error)),
    }
}

fn wrong(error: &serde_json::Error) -> WrongLine {
    WrongLine { line: error.line().max(1), error: without_place(error) }
}

/// The line is told apart; within it, the column.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default().to_owned();
    format!("{what} at column {}", error.column())
}

/// Leaves out the line breaks, and the spaces that come with them. In JSON no string has any.
fn put_in_one_line(value: &str, into: &mut BytesMut) {
    if !value.contains(['\n', '\r']) {
        into.extend_from_slice(value.as_bytes());
        return;
    }
    for part in value.split(['\n', '\r']) {
        into.extend_from_slice(part.trim_ascii().as_bytes());
    }
}

/// Which of a body's lines are kept: all of it as it is, as long as that is possible.
enum Kept {
    All,
    Some(BytesMut),
}

impl Kept {
    fn leave_out(&mut self, body: &Bytes, line: &[u8]) {
        if matches!(self, Self::All) {
            let before = line.as_ptr() as usize - body.as_ptr() as usize;
            *self = Self::Some(body[..before].into());
        }
    }

    fn keep(&mut self, body: &Bytes, line: &[u8]) {
        if !line.ends_with(b"\n") {
            self.leave_out(body, line);
        }
        if let Self::Some(kept) = self {
            kept.extend_from_slice(line.trim_ascii());
            kept.put_u8(b'\n');
        }
    }

    fn finish(self, body: &Bytes) -> Bytes {
        match self {
            Self::All => body.clone(),
            Self::Some(kept) => kept.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &'static str) -> Lines {
        of_lines(&Bytes::from_static(body.as_bytes()), Invalid::Refuse).unwrap()
    }

    #[test]
    fn lines_are_kept_as_they_are() {
        assert_eq!(lines("{\"a\": 1}\n[2]\n").lines, "{\"a\": 1}\n[2]\n");
        assert_eq!(lines("{\"a\":1}\n{\"b\":2}").lines, "{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(lines("\n{\"a\":1}\r\n\n  {\"b\":2}\n\n").lines, "{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(lines("").events, 0);
    }

    #[test]
    fn a_wrong_line_is_named_and_skipped_only_on_request() {
        let body = Bytes::from("{\"a\":1}\n{\"b\":}\n{\"c\":3}\nx\n");
        let wrong = of_lines(&body, Invalid::Refuse).unwrap_err();
        assert_eq!(wrong, WrongLine { line: 2, error: "expected value at column 6".to_owned() });
        let lines = of_lines(&body, Invalid::Skip).unwrap();
        assert_eq!((lines.lines.as_ref(), lines.events), (b"{\"a\":1}\n{\"c\":3}\n".as_slice(), 2));
        assert_eq!(lines.rejected.iter().map(|wrong| wrong.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(lines.rejected_total, 2);
    }

    #[test]
    fn all_wrong_lines_are_counted_and_the_first_hundred_named() {
        let body = Bytes::from("x\n{}\n".repeat(1_000));
        let lines = of_lines(&body, Invalid::Skip).unwrap();
        assert_eq!((lines.events, lines.rejected_total, lines.rejected.len()), (1_000, 1_000, 100));
        assert_eq!(lines.rejected[99].line, 199);
    }

    #[test]
    fn a_value_over_several_lines_becomes_one() {
        let body = Bytes::from("[{\n  \"a\": \"x\\ny  z\",\n  \"b\": [1,\n 2]\n},\r\n 7, {\"c\": 1}]");
        let lines = of_json(&body).unwrap();
        assert_eq!(lines.lines, "{\"a\": \"x\\ny  z\",\"b\": [1,2]}\n7\n{\"c\": 1}\n");
        assert_eq!(lines.events, 3);
        assert_eq!(of_json(&Bytes::from("{\"a\":1}")).unwrap().lines, "{\"a\":1}\n");
        assert_eq!(of_json(&Bytes::from("[]")).unwrap().events, 0);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        assert_eq!(of_json(&Bytes::from("[{\"a\":1},\n{\"b\":]")).unwrap_err().line, 2);
        assert!(of_json(&Bytes::from("")).is_err());
        assert!(of_json(&Bytes::from("{} {}")).is_err());
        assert!(of_json(&Bytes::from_static(b"\"\xff\"")).is_err());
        assert!(of_lines(&Bytes::from_static(b"\"\xff\"\n"), Invalid::Refuse).is_err());
    }
}
