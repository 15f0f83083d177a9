//! A line of the file with carets under the part that matters, without the secrets in it.

use std::fmt;
use std::ops::Range;

/// A line, ready to be shown.
#[derive(Debug, Clone)]
pub(crate) struct Snippet {
    line: usize,
    column: usize,
    text: String,
    indent: usize,
    width: usize,
}

/// What stands where a secret was.
const MASK: &str = "***";

/// More than this of a line helps nobody.
const LONGEST: usize = 160;

/// Words that make a line suspect when it cannot be parsed.
const SUSPECT: [&str; 14] = [
    "://", "auth", "cred", "database", "headers", "hook", "key", "pass", "pw", "sec", "sha256", "slack",
    "smtp", "token",
];

impl Snippet {
    /// The line in which `bytes` start.
    pub(crate) fn new(source: &str, bytes: Range<usize>, sensitive: &[Range<usize>]) -> Self {
        let line = Line::at(source, bytes.start);
        let marked = bytes.start..bytes.end.min(line.bytes.end).max(bytes.start);
        let mut shown = Shown::default();
        for (offset, letter) in line.letters(source) {
            match sensitive.iter().find(|secret| secret.contains(&offset)) {
                Some(secret) if secret.start.max(line.bytes.start) == offset => {
                    shown.push(MASK, overlaps(secret, &marked));
                }
                Some(_) => {}
                None => shown.push(harmless(letter).encode_utf8(&mut [0; 4]), marked.contains(&offset)),
            }
            if offset < marked.start {
                shown.indent = shown.width;
            }
        }
        shown.at(line.number, line.column(source, marked.start))
    }

    /// A line that is no TOML: nobody can say where its secrets are, so a suspect one shows its key only.
    pub(crate) fn of_broken_line(source: &str, bytes: Range<usize>) -> Self {
        let line = Line::at(source, bytes.start);
        let text = &source[line.bytes.clone()];
        let lower = text.to_lowercase();
        let secret = match text.find('=') {
            Some(equals) if SUSPECT.iter().any(|word| lower.contains(word)) => {
                line.bytes.start + equals + 1..line.bytes.end
            }
            _ => 0..0,
        };
        Self::new(source, bytes, &[secret])
    }

    /// The number of the line, from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Writes the place, the line and the carets.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, file: &str) -> fmt::Result {
        let number = self.line.to_string();
        let margin = number.len();
        writeln!(f, "{:margin$}--> {file}:{}:{}", "", self.line, self.column)?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{number} | {}", self.text)?;
        writeln!(f, "{:margin$} | {:indent$}{}", "", "", "^".repeat(self.width), indent = self.indent)
    }
}

/// A line of the source, without its end.
struct Line {
    number: usize,
    bytes: Range<usize>,
}

impl Line {
    fn at(source: &str, position: usize) -> Self {
        let position = position.min(source.len());
        let before = &source.as_bytes()[..position];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let length = source.as_bytes()[start..].iter().position(|byte| *byte == b'\n');
        let end = length.map_or(source.len(), |length| start + length);
        Self { number: before.iter().filter(|byte| **byte == b'\n').count() + 1, bytes: start..end }
    }

    fn letters<'s>(&self, source: &'s str) -> impl Iterator<Item = (usize, char)> + use<'s> {
        let start = self.bytes.start;
        source[self.bytes.clone()].char_indices().map(move |(offset, letter)| (start + offset, letter))
    }

    fn column(&self, source: &str, position: usize) -> usize {
        self.letters(source).take_while(|(offset, _)| *offset < position).count() + 1
    }
}

/// The line as it grows, masked.
#[derive(Default)]
struct Shown {
    text: String,
    width: usize,
    indent: usize,
    marked: usize,
}

impl Shown {
    fn push(&mut self, piece: &str, is_marked: bool) {
        let width = piece.chars().count();
        self.text.push_str(piece);
        self.width += width;
        self.marked += if is_marked { width } else { 0 };
    }

    fn at(self, line: usize, column: usize) -> Snippet {
        let skipped = if self.indent > LONGEST / 2 { self.indent - LONGEST / 4 } else { 0 };
        let text: String = self.text.chars().skip(skipped).take(LONGEST).collect();
        let indent = self.indent - skipped;
        let room = text.chars().count().saturating_sub(indent);
        Snippet { line, column, text, indent, width: self.marked.min(room).max(1) }
    }
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Tabs take one column, and control characters must not reach a terminal.
fn harmless(letter: char) -> char {
    match letter {
        '\t' | '\r' => ' ',
        _ if letter.is_control() => '\u{fffd}',
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [Range<usize>; 1] = [Range { start: 4, end: 13 }];

    fn shown(source: &str, bytes: Range<usize>, sensitive: &[Range<usize>]) -> String {
        struct Written(Snippet);
        impl fmt::Display for Written {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, "f.toml")
            }
        }
        Written(Snippet::new(source, bytes, sensitive)).to_string()
    }

    #[test]
    fn carets_stand_under_the_value() {
        assert_eq!(
            shown("a = 1\nbb = 22\n", 11..13, &[]),
            " --> f.toml:2:6\n  |\n2 | bb = 22\n  |      ^^\n"
        );
    }

    #[test]
    fn a_secret_before_the_mistake_is_hidden_and_the_caret_still_fits() {
        let text = shown("s = \"hunter2\", x = 5\n", 19..20, &SECRET);
        assert_eq!(text, " --> f.toml:1:20\n  |\n1 | s = ***, x = 5\n  |              ^\n");
    }

    #[test]
    fn a_secret_that_is_the_mistake_gets_the_carets() {
        let text = shown("s = \"hunter2\"\n", 4..13, &SECRET);
        assert_eq!(text, " --> f.toml:1:5\n  |\n1 | s = ***\n  |     ^^^\n");
    }

    #[test]
    fn a_place_at_the_end_of_the_file_or_of_a_line_has_one_caret() {
        assert_eq!(shown("a = ", 4..4, &[]), " --> f.toml:1:5\n  |\n1 | a = \n  |     ^\n");
        assert_eq!(shown("a = 1", 99..120, &[]), " --> f.toml:1:6\n  |\n1 | a = 1\n  |      ^\n");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        assert!(!shown("a = \"\u{1b}[31m\"\n", 4..11, &[]).contains('\u{1b}'));
    }

    #[test]
    fn a_long_line_is_cut_around_the_mistake() {
        let source = format!("a = \"{}\", b = 1", "x".repeat(1000));
        let text = shown(&source, 1012..1013, &[]);
        assert!(text.lines().all(|line| line.chars().count() < 200));
        let lines: Vec<_> = text.lines().collect();
        let caret = lines[3].find('^').unwrap();
        assert_eq!(lines[2].chars().nth(caret), Some('1'));
    }

    #[test]
    fn a_broken_line_that_may_hold_a_secret_shows_its_key_only() {
        let source = "database = \"postgres://me:hunter2@db\n";
        let snippet = Snippet::of_broken_line(source, 36..36);
        assert_eq!(snippet.text, "database =***");
    }
}
