//! A moment in a request: `2025-10-21T07:28:00Z`, or `1h` for an hour ago.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::duration;

/// A moment in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

/// Every store can keep these: years 1970 to 2199.
const LAST: i64 = 7_258_118_400;

impl Moment {
    /// Reads a time, or a duration before `now`.
    pub(crate) fn parse(text: &str, now: Timestamp) -> Option<Self> {
        let moment = match duration::parse(text) {
            Some(ago) => now.checked_sub(SignedDuration::try_from(ago).ok()?).ok()?,
            None => text.parse().ok()?,
        };
        (0..LAST).contains(&moment.as_second()).then_some(Self(moment))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 2025-10-21T07:28:00Z, or a duration such as 1h for an hour ago")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        Moment::parse(text, Timestamp::now()).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A time (RFC 3339), or a duration such as `1h`: that long ago."))
            .pattern(Some(PATTERN))
            .examples(["1h", "2025-10-21T07:28:00Z"]);
        schema.into()
    }
}

impl ToSchema for Moment {}

/// A part of what [`Moment::parse`] reads: durations of at most three parts, and every second of the years 2000 to 2099.
const PATTERN: &str = concat!(
    "^(([0-9]{1,3}(ms|s|m|h|d)){1,3}",
    "|(20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))",
    "|20([02468][048]|[13579][26])-02-29)",
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))$",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_how_long_ago() {
        let now: Timestamp = "2025-10-21T08:00:00Z".parse().unwrap();
        let read = |text| Moment::parse(text, now).map(|Moment(at)| at.to_string());
        assert_eq!(read("2025-10-21T07:28:00Z").unwrap(), "2025-10-21T07:28:00Z");
        assert_eq!(read("2025-10-21T09:28:00+02:00").unwrap(), "2025-10-21T07:28:00Z");
        assert_eq!(read("1h30m").unwrap(), "2025-10-21T06:30:00Z");
        for rubbish in ["", "yesterday", "-1h", "1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "2025-10-21"]
        {
            assert_eq!(read(rubbish), None, "{rubbish}");
        }
    }
}
