//! A failure: what went wrong with the user's event.
//!
//! A [`Failure`] is data. It goes through policy, is stored with the event and shown to a person.
//! It is not an error of ours: when *we* fail (a store is down, a disk is full) that is an `Err`,
//! and nobody's attempts are counted for it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest failure message that is kept; the rest is cut and the cut is marked.
pub const MAX_MESSAGE: usize = 8 * 1024;

/// What kind of failure it is, and so what should happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "lowercase")]
pub enum Class {
    /// The same event may succeed later: a time-out, a lost connection, a lock, load.
    Transient,
    /// The other side said when to come back.
    Throttled {
        /// How long it asked to be left alone.
        retry_after: Duration,
    },
    /// The same event will fail every time: a constraint, a refused request.
    Permanent,
    /// The event cannot even be read: not JSON, a missing field, a wrong type.
    Malformed,
    /// Nobody is registered for this type of event.
    Unhandled,
    /// The handler gave no hint. Retried to the limit, like a transient failure.
    Unclassified,
}

impl Class {
    /// The word that stores, screens and metrics use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled { .. } => "throttled",
            Self::Permanent => "permanent",
            Self::Malformed => "malformed",
            Self::Unhandled => "unhandled",
            Self::Unclassified => "unclassified",
        }
    }

    /// The class a stored word stands for; an unknown word is [`Class::Unclassified`].
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "transient" => Self::Transient,
            "throttled" => Self::Throttled { retry_after: Duration::ZERO },
            "permanent" => Self::Permanent,
            "malformed" => Self::Malformed,
            "unhandled" => Self::Unhandled,
            _ => Self::Unclassified,
        }
    }

    /// Whether a later attempt at the same event can succeed without a person's help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Transient | Self::Throttled { .. } | Self::Unclassified)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The code that the failing system gave, together with whose code it is.
///
/// Written as `scheme:value`, for example `sqlstate:23505` or `http:503`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Code {
    /// A Postgres SQLSTATE.
    SqlState(String),
    /// A MySQL or MariaDB error number.
    MySql(u16),
    /// An extended SQLite result code.
    Sqlite(i32),
    /// An HTTP status.
    Http(u16),
    /// A [`std::io::ErrorKind`], by name.
    Io(String),
    /// An S3 error code such as `SlowDown`.
    S3(String),
    /// A Kafka error, by its protocol name such as `NOT_LEADER_OR_FOLLOWER`.
    Kafka(String),
    /// The exit status of a command.
    Exit(i32),
    /// Anything else, in the user's own words.
    Other(String),
}

impl Code {
    /// Every scheme, in the spelling of [`fmt::Display`].
    pub const SCHEMES: [&'static str; 9] =
        ["sqlstate", "mysql", "sqlite", "http", "io", "s3", "kafka", "exit", "other"];

    /// Whose code it is.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        match self {
            Self::SqlState(_) => "sqlstate",
            Self::MySql(_) => "mysql",
            Self::Sqlite(_) => "sqlite",
            Self::Http(_) => "http",
            Self::Io(_) => "io",
            Self::S3(_) => "s3",
            Self::Kafka(_) => "kafka",
            Self::Exit(_) => "exit",
            Self::Other(_) => "other",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme())?;
        match self {
            Self::SqlState(v) | Self::Io(v) | Self::S3(v) | Self::Kafka(v) | Self::Other(v) => f.write_str(v),
            Self::MySql(v) | Self::Http(v) => v.fmt(f),
            Self::Sqlite(v) | Self::Exit(v) => v.fmt(f),
        }
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownCode(text.to_owned());
        let (scheme, value) = text.split_once(':').ok_or_else(unknown)?;
        let owned = || value.to_owned();
        Ok(match scheme {
            "sqlstate" => Self::SqlState(owned()),
            "mysql" => Self::MySql(value.parse().map_err(|_| unknown())?),
            "sqlite" => Self::Sqlite(value.parse().map_err(|_| unknown())?),
            "http" => Self::Http(value.parse().map_err(|_| unknown())?),
            "io" => Self::Io(owned()),
            "s3" => Self::S3(owned()),
            "kafka" => Self::Kafka(owned()),
            "exit" => Self::Exit(value.parse().map_err(|_| unknown())?),
            "other" => Self::Other(owned()),
            _ => return Err(unknown()),
        })
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.to_string()
    }
}

impl TryFrom<String> for Code {
    type Error = UnknownCode;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// A text that is not `scheme:value` with a known scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a code: write scheme:value, for example sqlstate:23505 or http:503")]
pub struct UnknownCode(String);

/// What went wrong with one event in one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What should happen next.
    #[serde(flatten)]
    pub class: Class,
    /// The failing system's own code, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What type of failure it was: an exception class, `Timeout`, `Panic`.
    pub kind: String,
    /// The message for a person. Printable: see [`clean`].
    pub message: String,
}

impl Failure {
    /// A failure of this class; `kind` names its type, `message` is for a person.
    #[must_use]
    pub fn new(class: Class, kind: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self { class, code: None, kind: kind.into(), message: clean(message.as_ref()) }
    }

    /// A failure that a later attempt may not meet again.
    #[must_use]
    pub fn transient(kind: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::new(Class::Transient, kind, message)
    }

    /// A failure that every attempt would meet again.
    #[must_use]
    pub fn permanent(kind: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::new(Class::Permanent, kind, message)
    }

    /// An event that cannot be read.
    #[must_use]
    pub fn malformed(kind: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::new(Class::Malformed, kind, message)
    }

    /// A failure about whose nature the handler says nothing.
    #[must_use]
    pub fn unclassified(kind: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::new(Class::Unclassified, kind, message)
    }

    /// No handler is registered for `event_type`.
    #[must_use]
    pub fn unhandled(event_type: &str) -> Self {
        Self::new(
            Class::Unhandled,
            "NoHandler",
            format!("no handler is registered for event type {event_type:?}: register one, then redrive"),
        )
    }

    /// The worker that held the lease died, or lost its way past the lease.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::new(
            Class::Unclassified,
            "Interrupted",
            "the worker did not finish within its lease: it died, hung or lost the store",
        )
    }

    /// The same failure, with the failing system's code.
    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({code}): {}", self.kind, self.message),
            None => write!(f, "{}: {}", self.kind, self.message),
        }
    }
}

/// A message that every store can keep: NUL replaced (Postgres refuses it), length bounded.
///
/// One unstorable message would otherwise fail the settlement of its whole batch.
#[must_use]
pub fn clean(message: &str) -> String {
    let message = message.trim();
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let mut kept = message[..end].replace('\0', "\u{FFFD}");
    if end < message.len() {
        kept.push_str(" […cut]");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_its_text_form() {
        for text in [
            "sqlstate:23505",
            "mysql:1213",
            "sqlite:2067",
            "http:503",
            "io:TimedOut",
            "s3:SlowDown",
            "exit:-9",
        ] {
            let code: Code = text.parse().unwrap();
            assert_eq!(code.to_string(), text);
        }
        assert!("23505".parse::<Code>().is_err());
        assert!("http:abc".parse::<Code>().is_err());
    }

    #[test]
    fn every_class_survives_its_name() {
        for class in [
            Class::Transient,
            Class::Throttled { retry_after: Duration::ZERO },
            Class::Permanent,
            Class::Malformed,
            Class::Unhandled,
            Class::Unclassified,
        ] {
            assert_eq!(Class::from_name(class.name()), class);
        }
    }

    #[test]
    fn a_message_is_bounded_and_free_of_nul() {
        let message = format!("a\0b{}", "é".repeat(MAX_MESSAGE));
        let kept = clean(&message);
        assert!(kept.starts_with("a\u{FFFD}b"));
        assert!(kept.ends_with("[…cut]") && kept.len() < MAX_MESSAGE + 16);
    }

    #[test]
    fn a_failure_survives_json() {
        let failure = Failure::transient("Timeout", "after 5 s").with_code(Code::Http(504));
        let json = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&json).unwrap(), failure);
    }
}
