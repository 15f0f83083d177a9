//! A payload as a page shows it: a JSON tree, text, or bytes.

use std::fmt::Write as _;

use super::{text, tree};
use crate::json;

/// The most bytes that a page shows.
const MOST: usize = 256 * 1024;
/// The most bytes that a page shows two digits at a time.
const MOST_HEX: usize = 4 * 1024;
/// The most bytes that a page offers for editing.
const MOST_EDITED: usize = 256 * 1024;

/// How a payload is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Tree,
    Text,
    Hex,
}

impl View {
    pub(super) const ALL: [Self; 3] = [Self::Tree, Self::Text, Self::Hex];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Text => "text",
            Self::Hex => "hex",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }
}

/// A payload as a page shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) view: View,
    /// HTML of our own making for a tree, text otherwise.
    pub(super) body: String,
    /// How many bytes are not shown.
    pub(super) left_out: Option<String>,
    /// What was asked for and cannot be.
    pub(super) instead: Option<&'static str>,
}

/// The payload in this view, or in the one that suits it best.
pub(super) fn show(payload: &[u8], wanted: Option<View>) -> Shown {
    let wanted = wanted.unwrap_or(View::Tree);
    let Some(readable) = readable(payload) else {
        let instead =
            (wanted == View::Text).then_some("These bytes are no UTF-8, so they are shown as they are.");
        return Shown { instead, ..hex(payload) };
    };
    let left_out = (payload.len() > readable.len()).then(|| text::size(payload.len() - readable.len()));
    match wanted {
        View::Hex => hex(payload),
        View::Tree if left_out.is_none() => match tree::of(readable) {
            Some(body) => Shown { view: View::Tree, body, left_out, instead: None },
            None => {
                let body = json::indented(readable);
                let instead =
                    body.is_some().then_some("This JSON is too large for a tree, so it is only indented.");
                let body = text::visible(body.as_deref().unwrap_or(readable));
                Shown { view: View::Text, body, left_out, instead }
            }
        },
        _ => Shown { view: View::Text, body: text::visible(readable), left_out, instead: None },
    }
}

/// The payload as text that a form can hold and send back unchanged; why not, otherwise.
pub(super) fn editable(payload: &[u8]) -> Result<&str, &'static str> {
    if payload.len() > MOST_EDITED {
        return Err("It is too large to be edited here: use the API.");
    }
    let text = std::str::from_utf8(payload)
        .map_err(|_| "It is no text, so it cannot be edited here: use the API.")?;
    // Forms change lone CRs, and pages lose NULs.
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    if text.chars().all(is_plain) && !text.replace("\r\n", "").contains('\r') {
        return Ok(text);
    }
    Err("It has control characters that a form cannot hold: use the API.")
}

/// What a form sent back for a payload: forms end every line with CR LF, whatever it was.
pub(super) fn returned(sent: &str, original: &str) -> String {
    if original.contains("\r\n") { sent.to_owned() } else { sent.replace("\r\n", "\n") }
}

/// As much of it as is shown, as text; a character that the cut went through is left out.
fn readable(payload: &[u8]) -> Option<&str> {
    let start = &payload[..payload.len().min(MOST)];
    let is_cut = start.len() < payload.len();
    match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

fn hex(payload: &[u8]) -> Shown {
    const WIDTH: usize = 16;
    let start = &payload[..payload.len().min(MOST_HEX)];
    let mut body = String::with_capacity(start.len() * 5);
    for (number, row) in start.chunks(WIDTH).enumerate() {
        let _ = write!(body, "{:08x}  ", number * WIDTH);
        for at in 0..WIDTH {
            match row.get(at) {
                Some(byte) => {
                    let _ = write!(body, "{byte:02x} ");
                }
                None => body.push_str("   "),
            }
        }
        body.push(' ');
        body.extend(row.iter().map(|byte| if matches!(byte, 0x20..=0x7e) { char::from(*byte) } else { '.' }));
        body.push('\n');
    }
    let left_out = (payload.len() > start.len()).then(|| text::size(payload.len() - start.len()));
    Shown { view: View::Hex, body, left_out, instead: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_payload_gets_the_view_that_suits_it() {
        assert_eq!(show(b"{\"a\":1}", None).view, View::Tree);
        assert_eq!(show(b"plain <b>text</b>", None).body, "plain <b>text</b>");
        assert_eq!(show(b"\xff\xfe", None).view, View::Hex);
        assert_eq!(show(b"", None).body, "");
        assert!(show(b"\xff", Some(View::Text)).instead.is_some());
    }

    #[test]
    fn a_large_payload_is_cut_between_characters_and_says_so() {
        let large = "é".repeat(MOST / 2 + 10);
        let shown = show(format!("a{large}").as_bytes(), None);
        assert_eq!(shown.view, View::Text);
        assert_eq!(shown.left_out.as_deref(), Some("22 bytes"));
        assert!(show(&vec![0xff; MOST_HEX + 1], None).left_out.is_some());
    }

    #[test]
    fn hex_has_places_digits_and_letters() {
        assert_eq!(
            show(b"\x00A<\xff", Some(View::Hex)).body,
            format!("00000000  00 41 3c ff {} .A<.\n", "   ".repeat(12))
        );
    }

    #[test]
    fn only_what_a_form_returns_unchanged_can_be_edited() {
        for text in ["", "a\nb", "a\r\nb", "{\"a\": 1.10}", "\ttab"] {
            assert_eq!(editable(text.as_bytes()), Ok(text));
            assert_eq!(returned(&text.replace("\r\n", "\n").replace('\n', "\r\n"), text), text);
        }
        for payload in [b"\xff".as_slice(), b"a\0b", b"a\rb", b"\x1b[1m"] {
            assert!(editable(payload).is_err(), "{payload:?}");
        }
        assert!(editable(&vec![b'a'; MOST_EDITED + 1]).is_err());
    }
}
