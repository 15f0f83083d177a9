//! Sizes as text: `64MiB`, `1GiB`, `500kB`.

use super::document::Node;
use super::environment::Environment;
use super::setting::{Setting, Wrong, text};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// The size in bytes, as a length in memory.
    #[must_use]
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl Setting for ByteSize {
    fn kind() -> String {
        "size".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a size above zero such as \"512KiB\", \"64MiB\" or \"1GiB\"";
        parse(text(node, EXPECTED)?).map(Self).ok_or_else(|| Wrong::expected(EXPECTED))
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*size).filter(|bytes| (1..1 << 60).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_and_decimal_units_differ() {
        assert_eq!(parse("64MiB"), Some(64 << 20));
        assert_eq!(parse("1 GiB"), Some(1 << 30));
        assert_eq!(parse("5MB"), Some(5_000_000));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "64", "0MiB", "MiB", "1.5GiB", "64 mib", "99999999999TiB", "-1B"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
