//! Columns that are filled from JSON: which part of it goes into which column, and the values on their way.
//!
//! The Kafka sinks and the target of a persist pipeline share this. A store converts each value to the type that the
//! column has.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A part of a JSON value: `$` is the whole, `$.user.id` a field of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    fields: Vec<String>,
}

impl Path {
    /// The fields from the outside in; none for the whole.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text that is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path into JSON: write $.field, $.field.field, or $ for the whole")]
pub struct NotAPath(String);

impl FromStr for Path {
    type Err = NotAPath;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_field = |field: &&str| !field.is_empty() && !field.contains(char::is_whitespace);
        let fields: Option<Vec<String>> = match text.strip_prefix('$') {
            Some("") => Some(Vec::new()),
            Some(rest) => rest.strip_prefix('.').and_then(|rest| {
                rest.split('.').map(|field| Some(field).filter(is_field).map(str::to_owned)).collect()
            }),
            None => None,
        };
        let fields = fields.ok_or_else(|| NotAPath(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), fields })
    }
}

/// What a value must be, or be convertible to. With `Any`, the type of the column decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whatever is there.
    Any,
    /// A text.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A number of any size, kept digit for digit.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A point in time: see [`parse_time`], or milliseconds since 1970.
    Timestamp,
    /// Any JSON, kept as it is written.
    Json,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Any, Self::Text, Self::Integer, Self::Number, Self::Boolean, Self::Timestamp, Self::Json];

    /// The word for it in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
        }
    }
}

/// Whether a value may be missing or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The column gets NULL.
    Optional,
    /// The event is a dead letter.
    Required,
}

/// A column, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Which part of the JSON.
    pub path: Path,
    /// What that must be.
    pub kind: Kind,
    /// Whether it must be there.
    pub presence: Presence,
}

impl Column {
    /// The column `name` gets whatever is at `path`.
    ///
    /// # Errors
    /// [`NotAPath`] when it is none.
    pub fn new(name: &str, path: &str) -> Result<Self, NotAPath> {
        Ok(Self::of_path(name, path.parse()?))
    }

    /// As [`Column::new`], with a path that has been read.
    #[must_use]
    pub fn of_path(name: &str, path: Path) -> Self {
        Self { name: name.to_owned(), path, kind: Kind::Any, presence: Presence::Optional }
    }

    /// The same column, for values of this kind.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same column, for events that have it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.presence = Presence::Required;
        self
    }
}

/// One value on its way into a column. Numbers stay the text that was sent: a number beyond 2^53 is not
/// rounded on its way through.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(Cow<'a, str>),
    /// A text, unescaped, without NUL.
    Text(Cow<'a, str>),
    /// JSON, as it was written.
    Json(&'a str),
    /// A point in time.
    Time(Timestamp),
}

/// The value for a message to a person, cut if it is long.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(bool) => bool.fmt(f),
            Self::Number(text) => f.write_str(&shortened(text)),
            Self::Text(text) => write!(f, "{:?}", shortened(text)),
            Self::Json(text) => f.write_str(&shortened(text)),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// The beginning of a text, for a message.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A time in any ISO 8601 spelling, such as RFC 3339. Without a zone it is UTC; a date alone is its midnight.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let without_zone = || text.parse::<DateTime>().ok().and_then(|at| TimeZone::UTC.to_timestamp(at).ok());
    text.parse().ok().or_else(without_zone)
}

/// A time from milliseconds since 1970, as a number is written.
#[must_use]
pub fn parse_millis(text: &str) -> Option<Timestamp> {
    text.parse().ok().and_then(|millis| Timestamp::from_millisecond(millis).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_many_spellings_and_are_utc_without_a_zone() {
        let at = "2026-01-02T03:04:05Z".parse().ok();
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02t03:04:05z",
            "2026-01-02 03:04:05+00:00",
            "2026-01-02T05:04:05+02:00",
            "2026-01-02T05:04:05+0200",
            "2026-01-02T05:04:05+02",
            "2026-01-02T05:04:05+02:00[Europe/Helsinki]",
            "20260102T030405Z",
            "2026-01-02 03:04:05",
            "2026-01-02T03:04:05.000000000",
        ] {
            assert_eq!(parse_time(text), at, "{text}");
        }
        assert_eq!(parse_time("2026-01-02"), "2026-01-02T00:00:00Z".parse().ok());
        for text in ["", "soon", "2026-13-01", "2026-01-02T25:00:00Z", "1767323045123"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_millis("1767323045000"), at);
        assert_eq!(parse_millis("1767323045.5"), None);
    }

    #[test]
    fn a_long_value_is_cut_in_a_message() {
        assert_eq!(Cell::Text("é".repeat(50).into()).to_string(), format!("\"{}…\"", "é".repeat(40)));
        assert_eq!(Cell::Number("1.50".into()).to_string(), "1.50");
    }

    #[test]
    fn paths_are_the_whole_or_fields_of_fields() {
        let fields = |text: &str| text.parse::<Path>().map(|path| path.fields().to_vec());
        assert_eq!(fields("$").unwrap(), Vec::<String>::new());
        assert_eq!(fields("$.user.id").unwrap(), ["user", "id"]);
        for text in ["", "id", "$id", "$.", "$..a", "$.a b", "$.a."] {
            assert!(fields(text).is_err(), "{text}");
        }
    }
}
