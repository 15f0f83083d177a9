//! What goes into which column of a sink.

use std::fmt;
use std::str::FromStr;

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
#[error("{0:?} is no path into a record: write $.field, $.field.field, or $ for the whole")]
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

/// What a value must be, or be convertible to. Without one, the sink decides.
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
    /// A point in time: RFC 3339, or milliseconds since 1970.
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
    /// The record is a dead letter.
    Required,
}

/// A column of a sink, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Which part of the record.
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
        let path = path.parse()?;
        Ok(Self { name: name.to_owned(), path, kind: Kind::Any, presence: Presence::Optional })
    }

    /// The same column, for values of this kind.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same column, for records that have it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.presence = Presence::Required;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
