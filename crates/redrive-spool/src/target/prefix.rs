//! The prefix of objects, which may have partitions by time: `RAW/dt={date}/hour={hour}`.
//!
//! The time is that of the batch, which is in its name, in UTC. So a batch that is uploaded again, after a crash or
//! from disk, goes to the same object. A file that somebody put into the spool under another name tells no time:
//! it goes to the partition that Hive, Spark and Athena know for that.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use object_store::path::Path;

use super::TargetError;
use crate::spool::time_of;

/// What Hive calls the partition of rows that have no value for it.
const NO_TIME: &str = "__HIVE_DEFAULT_PARTITION__";

/// What may stand between braces, and how it is written.
const FIELDS: [(&str, &str); 5] =
    [("date", "%Y-%m-%d"), ("year", "%Y"), ("month", "%m"), ("day", "%d"), ("hour", "%H")];

/// Where objects of one kind go.
#[derive(Debug, Clone)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(root: &str, prefix: &str) -> Result<Self, TargetError> {
        let joined = format!("{}/{prefix}", root.trim_matches('/'));
        let wrong = |reason: String| TargetError::Prefix { prefix: joined.clone(), reason };
        if let Some(field) = unknown_field(&joined) {
            let known = FIELDS.map(|(name, _)| format!("{{{name}}}")).join(", ");
            return Err(wrong(format!("{{{field}}} is not known; there are {known}")));
        }
        Path::parse(filled(&joined, None)).map_err(|error| wrong(error.to_string()))?;
        Ok(Self(joined))
    }

    /// The object of the file or batch of this name.
    pub(super) fn object(&self, name: &str) -> Path {
        self.at(time_of(name)).join(name)
    }

    /// Where objects of this time go.
    pub(super) fn at(&self, time: Option<Timestamp>) -> Path {
        // The shape was parsed when it was made, and no field has anything in it that would change that.
        Path::parse(filled(&self.0, time)).unwrap_or_default()
    }
}

fn filled(prefix: &str, time: Option<Timestamp>) -> String {
    let mut filled = prefix.to_owned();
    for (name, format) in FIELDS {
        let field = format!("{{{name}}}");
        if filled.contains(&field) {
            let value = time.map_or_else(
                || NO_TIME.to_owned(),
                |time| time.to_zoned(TimeZone::UTC).strftime(format).to_string(),
            );
            filled = filled.replace(&field, &value);
        }
    }
    filled
}

/// The first thing in braces that is no field.
fn unknown_field(prefix: &str) -> Option<String> {
    let mut rest = prefix;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((field, after)) = after.split_once('}') else { return Some(after.to_owned()) };
        if FIELDS.iter().all(|(name, _)| *name != field) {
            return Some(field.to_owned());
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_to_the_partition_of_its_own_time_whenever_it_is_uploaded() {
        let prefix = Prefix::new("/root/", "RAW/dt={date}/hour={hour}").unwrap();
        let object = prefix.object("1763449200_i-abc123_000001.jsonl.gz");
        assert_eq!(object.to_string(), "root/RAW/dt=2025-11-18/hour=07/1763449200_i-abc123_000001.jsonl.gz");
        let parts = Prefix::new("", "{year}/{month}/{day}").unwrap();
        assert_eq!(
            parts.object("1763449200_i_000001.jsonl.gz").to_string(),
            "2025/11/18/1763449200_i_000001.jsonl.gz"
        );
    }

    #[test]
    fn a_file_that_tells_no_time_goes_to_the_partition_without_one() {
        let prefix = Prefix::new("", "RAW/dt={date}").unwrap();
        assert_eq!(
            prefix.object("by hand.jsonl.gz").to_string(),
            "RAW/dt=__HIVE_DEFAULT_PARTITION__/by hand.jsonl.gz"
        );
        assert_eq!(Prefix::new("", "RAW").unwrap().object("x").to_string(), "RAW/x");
    }

    #[test]
    fn what_cannot_be_a_prefix_is_refused_with_what_can() {
        for (prefix, said) in [
            ("RAW/{minute}", "{minute} is not known"),
            ("RAW/{date", "{date"),
            ("a//b", "//"),
            ("../x", ".."),
        ] {
            let error = Prefix::new("", prefix).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(prefix), "{error}");
        }
    }
}
