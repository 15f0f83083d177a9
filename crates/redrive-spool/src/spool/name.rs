//! The name of a batch file: `<unix>_<instance>_<counter>.jsonl.gz`.

use std::fmt;

use jiff::Timestamp;

/// What the name of a batch file ends with.
pub(super) const DATA: &str = ".jsonl.gz";
/// What is added to it for the name of the file beside it.
pub(super) const META: &str = ".meta.json";
/// What the hidden name of a file ends with that is being written.
pub(super) const UNFINISHED: &str = ".tmp";

/// A name for this process that no other one has: an earlier one on the same host may have used the same
/// seconds and counters, and objects are named after them.
#[must_use]
pub fn instance(host: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-' || *letter == '.';
    let host: String = host.chars().filter(is_plain).take(60).collect();
    let unique = uuid::Uuid::now_v7().simple().to_string();
    format!("{host}-{}", &unique[unique.len() - 8..])
}

/// The second that a name has for this time.
pub(super) fn second(time: Timestamp) -> u32 {
    u32::try_from(time.as_second().max(0)).unwrap_or(u32::MAX)
}

/// The time that the second of a name stands for.
pub(super) fn time(unix: u32) -> Timestamp {
    Timestamp::from_second(unix.into()).unwrap_or_default()
}

/// The time that the name of a batch or its file tells, if it tells one.
pub(crate) fn time_of(name: &str) -> Option<Timestamp> {
    BatchName::parse_loosely(name).map(|name| time(name.unix))
}

/// The parts of a name that follows the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchName<'a> {
    pub(super) unix: u32,
    pub(super) instance: &'a str,
    pub(super) counter: u32,
}

impl<'a> BatchName<'a> {
    /// The parts of this name, if it is written as [`fmt::Display`] would write it.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let parsed = Self::parse_loosely(name)?;
        (parsed.to_string() == name).then_some(parsed)
    }

    /// The same for names that somebody else wrote a little differently.
    pub(super) fn parse_loosely(name: &'a str) -> Option<Self> {
        let (unix, rest) = name.strip_suffix(DATA)?.split_once('_')?;
        let (instance, counter) = rest.rsplit_once('_')?;
        Some(Self { unix: unix.parse().ok()?, instance, counter: counter.parse().ok()? })
    }
}

impl fmt::Display for BatchName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}_{:06}{DATA}", self.unix, self.instance, self.counter)
    }
}

/// What a name in the folder belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// A batch, or what somebody put here as one.
    Data(&'a str),
    /// What is known of the batch of this name.
    MetaOf(&'a str),
    /// A file that was being written, for the batch of this name.
    Unfinished(&'a str),
    /// Hidden, and none of our business.
    Other,
}

impl<'a> Entry<'a> {
    pub(super) fn of(name: &'a str) -> Self {
        if let Some(hidden) = name.strip_prefix('.') {
            return hidden.strip_suffix(UNFINISHED).map_or(Self::Other, Self::Unfinished);
        }
        match name.strip_suffix(META) {
            Some(data) => Self::MetaOf(data),
            None => Self::Data(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_founding_example_is_read_and_written() {
        let name = BatchName::parse("1700000001_i-abc123_000001.jsonl.gz").unwrap();
        assert_eq!(name, BatchName { unix: 1_700_000_001, instance: "i-abc123", counter: 1 });
        assert_eq!(name.to_string(), "1700000001_i-abc123_000001.jsonl.gz");
    }

    #[test]
    fn an_instance_may_have_underscores_and_a_counter_many_digits() {
        let name = BatchName::parse("17_a_b_1234567.jsonl.gz").unwrap();
        assert_eq!((name.instance, name.counter), ("a_b", 1_234_567));
    }

    #[test]
    fn names_that_we_would_write_otherwise_are_read_loosely_or_not_at_all() {
        assert_eq!(BatchName::parse("17_a_1.jsonl.gz"), None);
        assert_eq!(BatchName::parse_loosely("17_a_1.jsonl.gz").unwrap().counter, 1);
        for name in ["", "x", "17_a.jsonl.gz", "x_a_1.jsonl.gz", "17_a_x.jsonl.gz", "17_a_000001.jsonl"] {
            assert_eq!(BatchName::parse_loosely(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_hidden_or_beside_a_batch_is_no_batch() {
        assert_eq!(Entry::of("1_a_000001.jsonl.gz"), Entry::Data("1_a_000001.jsonl.gz"));
        assert_eq!(Entry::of("1_a_000001.jsonl.gz.meta.json"), Entry::MetaOf("1_a_000001.jsonl.gz"));
        assert_eq!(Entry::of(".1_a_000001.jsonl.gz.tmp"), Entry::Unfinished("1_a_000001.jsonl.gz"));
        assert_eq!(Entry::of(".DS_Store"), Entry::Other);
    }
}
