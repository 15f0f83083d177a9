//! What producers wrote, as a person may see it: nothing in it acts, and none of it is endless.
//!
//! Templates escape HTML. This is about the rest: control characters (a terminal that a person pastes into
//! obeys them), and characters that turn the direction of text or cannot be seen, which make one text look
//! like another.

use std::fmt::Write as _;

use crate::number;

/// The text with everything visible, line breaks and tabs kept.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\r' => shown.push('␍'),
            '\0'..='\u{1f}' => shown.push(char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}')),
            '\u{7f}' => shown.push('␡'),
            _ if hides(letter) => {
                let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(letter));
            }
            _ => shown.push(letter),
        }
    }
    shown
}

/// The kind of a failure, or that it has none: a link needs words.
pub(super) fn kind(kind: &str) -> String {
    if kind.trim().is_empty() { "(no kind)".to_owned() } else { line(kind, 80) }
}

/// On one line, of at most so many characters.
pub(super) fn line(text: &str, most: usize) -> String {
    // A line break is a space here; more than that many characters are not even looked at.
    let start: String = text.chars().take(most + 1).map(|c| if c == '\n' { ' ' } else { c }).collect();
    match start.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", visible(&start[..end])),
        None => visible(&start),
    }
}

/// Turns the direction of text, or cannot be seen.
fn hides(letter: char) -> bool {
    matches!(
        letter,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// For HTML that is written by hand.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// A size in bytes as people write it.
pub(super) fn size(bytes: usize) -> String {
    let amount = bytes as f64;
    match bytes {
        0..1_000 => number::counted(bytes as u64, "byte"),
        1_000..1_000_000 => format!("{:.1} kB", amount / 1e3),
        _ => format!("{:.1} MB", amount / 1e6),
    }
}

/// A part of an address.
pub(super) fn encode(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_or_hides_is_shown() {
        assert_eq!(visible("\u{1b}[31mred\0"), "␛[31mred␀");
        assert_eq!(visible("gpj.\u{202e}exe\u{200b}"), "gpj.⟨U+202E⟩exe⟨U+200B⟩");
        assert_eq!(visible("a\tb\r\nc"), "a\tb␍\nc");
        assert_eq!(visible("Grüße, 日本語"), "Grüße, 日本語");
    }

    #[test]
    fn a_line_is_one_line_and_never_too_long() {
        assert_eq!(line("a\nb", 5), "a b");
        assert_eq!(line("äöüß", 4), "äöüß");
        assert_eq!(line("äöüß!", 4), "äöüß…");
    }

    #[test]
    fn html_is_escaped_and_addresses_are_encoded() {
        assert_eq!(escape(r#"<b a='1' c="2">&"#), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
        assert_eq!(encode("a b/ü&\"<"), "a%20b%2F%C3%BC%26%22%3C");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!([size(1), size(1_500), size(2_500_000)], ["1 byte", "1.5 kB", "2.5 MB"]);
    }
}
