//! Text from outside, made harmless.
//!
//! An event's type, key and error are chosen by whoever wrote the event. In a terminal an ESC sequence
//! rewrites the screen, in a mail a line break forges a header, and a right-to-left override shows
//! `gpj.exe` as `exe.jpg`. Everything that an alert says passes through here, once.

use std::fmt;

use serde::{Serialize, Serializer};

/// The longest text, in bytes; the rest is cut and the cut is marked.
const MAX: usize = 2 * 1024;
/// What marks the cut.
const CUT: &str = " […cut]";

/// One line of printable text: no control characters, nothing invisible that changes how it reads.
///
/// What was taken out is still visible, as an escape: `\n`, `\u{1b}`, `\u{202e}`. Mark-up characters
/// (`<`, `&`, `` ` ``) stay, because they mean something different in each channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inert(String);

impl Inert {
    /// Makes a text harmless.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut inert = String::with_capacity(text.len().min(MAX));
        for char in text.trim().chars() {
            if inert.len() >= MAX {
                inert.push_str(CUT);
                break;
            }
            push(&mut inert, char);
        }
        Self(inert)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The whole text on one line, with everything harmful in it escaped.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut inert = String::with_capacity(text.len());
    text.chars().for_each(|char| push(&mut inert, char));
    inert
}

/// The whole text with its lines and indents, and everything else that is harmful in it escaped.
#[must_use]
pub fn escape_lines(text: &str) -> String {
    let mut inert = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => inert.push(char),
            '\t' => inert.push_str("    "),
            char => push(&mut inert, char),
        }
    }
    inert
}

/// JSON that is safe to look at: what is harmful in its strings is escaped, and reads back as it was.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut inert = String::with_capacity(json.len());
    for char in json.chars() {
        // Line breaks stand between values: within a string they are escaped already.
        if is_harmful(char) && char != '\n' {
            for unit in char.encode_utf16(&mut [0; 2]) {
                inert.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            inert.push(char);
        }
    }
    inert
}

fn push(inert: &mut String, char: char) {
    if is_harmful(char) {
        inert.extend(char.escape_default());
    } else {
        inert.push(char);
    }
}

/// Controls, line separators, and format characters that reorder or hide text. Joiners stay: scripts
/// and emoji need them.
fn is_harmful(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

impl From<&str> for Inert {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Inert {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<&String> for Inert {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Inert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Inert {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn ordinary_text_in_any_script_is_kept() {
        for text in ["order 42 <refused> & gone", "注文が失敗", "سفارش\u{200c}ها", "👩\u{200d}💻", "naïve"]
        {
            assert_eq!(Inert::new(text).as_str(), text);
        }
    }

    #[test]
    fn what_harms_a_terminal_a_mail_or_a_reader_becomes_visible() {
        for (text, inert) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{9b}2Jb", "a\\u{9b}2Jb"),
            ("x\r\nBcc: evil@example.com", "x\\r\\nBcc: evil@example.com"),
            ("invoice\u{202e}gpj.exe", "invoice\\u{202e}gpj.exe"),
            ("a\u{2028}b\u{feff}c\0d", "a\\u{2028}b\\u{feff}c\\u{0}d"),
            ("tag\u{e0041}ged", "tag\\u{e0041}ged"),
        ] {
            assert_eq!(Inert::new(text).as_str(), inert);
        }
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let inert = Inert::new(&"é".repeat(MAX));
        assert!(inert.as_str().ends_with(CUT) && inert.as_str().len() < MAX + 20);
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left_and_doing_it_twice_changes_nothing(text: String) {
            let inert = Inert::new(&text);
            prop_assert!(!inert.as_str().chars().any(is_harmful));
            prop_assert_eq!(Inert::new(inert.as_str()), inert);
        }
    }

    #[test]
    fn escaped_text_has_its_shape_and_escaped_json_its_meaning() {
        assert_eq!(escape(" a\u{1b}b\n"), " a\\u{1b}b\\n");
        assert_eq!(escape_lines("  a\n\tb\r\u{9b}"), "  a\n    b\\r\\u{9b}");
        let text = "\u{202e}x\u{9b}\u{e0001}é\u{1b}\n";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let inert = escape_json(&json);
        assert!(!inert.chars().any(|char| is_harmful(char) && char != '\n'), "{inert:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&inert).unwrap(), [text]);
    }
}
