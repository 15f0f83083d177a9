//! A duration in a request: `"1h30m"`, or a number of seconds.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::duration;

/// A duration in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrSeconds)
    }
}

impl PartialSchema for Span {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(PATTERN));
        let seconds = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .maximum(Some(duration::LONGEST.as_secs_f64()));
        OneOfBuilder::new()
            .item(text)
            .item(seconds)
            .description(Some("A duration such as `10s` or `1h30m`, or a number of seconds."))
            .into()
    }
}

impl ToSchema for Span {}

/// What [`duration::parse`] reads, but for what is too long.
const PATTERN: &str = r"^\s*([0-9]{1,9}\s*(ms|s|m|h|d)\s*)+$";

struct TextOrSeconds;

impl Visitor<'_> for TextOrSeconds {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"10s\" or \"1h30m\", or a number of seconds")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        duration::parse(text).map(Span).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
        within(Duration::from_secs(seconds))
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(seconds), &self))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
        let span = Duration::try_from_secs_f64(seconds).ok().and_then(within);
        span.ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

fn within(span: Duration) -> Option<Span> {
    (span <= duration::LONGEST).then_some(Span(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Duration> {
        serde_json::from_str(json).ok().map(|Span(span)| span)
    }

    #[test]
    fn text_and_seconds_mean_the_same() {
        assert_eq!(read("\"90s\""), Some(Duration::from_secs(90)));
        assert_eq!(read("90"), Some(Duration::from_secs(90)));
        assert_eq!(read("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(read("0"), Some(Duration::ZERO));
    }

    /// The description had a bound of its own, and longer durations were accepted.
    #[test]
    fn the_longest_that_is_described_is_the_longest_that_is_accepted() {
        let schema = serde_json::to_value(Span::schema()).unwrap();
        let longest = schema["oneOf"][1]["maximum"].as_f64().unwrap();
        assert_eq!(read(&longest.to_string()), Some(duration::LONGEST));
        assert_eq!(read(&(longest + 1.0).to_string()), None);
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for json in ["\"90\"", "-1", "-0.5", "1e300", "18446744073709551615", "null", "[]", "true"] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
