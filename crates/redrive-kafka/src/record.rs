//! A record of a topic, owned, byte for byte.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rdkafka::Timestamp;
use rdkafka::message::{BorrowedMessage, Message as _};
use redrive_kafka_headers::RawHeader;

/// The header that a redriven record carries: where it was first, as `topic/partition/offset`.
pub const ORIGIN: &str = "redrive-origin";
/// The header that says which headers of a record could not be read, and why.
pub const UNREADABLE: &str = "redrive-unreadable-headers";

/// A place in a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl Position {
    /// This place.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32, offset: i64) -> Self {
        Self { topic: topic.into(), partition, offset }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.partition, self.offset)
    }
}

/// A text that is not `topic/partition/offset`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a place in a topic: they look like orders/3/42")]
pub struct NotAPosition(String);

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rest, offset) = text.rsplit_once('/')?;
            let (topic, partition) = rest.rsplit_once('/')?;
            let position = Self::new(topic, partition.parse().ok()?, offset.parse().ok()?);
            let is_whole = !topic.is_empty() && position.partition >= 0 && position.offset >= 0;
            is_whole.then_some(position)
        };
        parse().ok_or_else(|| NotAPosition(text.to_owned()))
    }
}

/// The name of a header: any bytes, though nearly always text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderName(Vec<u8>);

impl HeaderName {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Whether it begins so.
    #[must_use]
    pub fn starts_with(&self, prefix: &str) -> bool {
        self.0.starts_with(prefix.as_bytes())
    }
}

impl<T: Into<Vec<u8>>> From<T> for HeaderName {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl PartialEq<str> for HeaderName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for HeaderName {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A header. Kafka knows headers without a value, which are not the same as empty ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name; several headers may share one.
    pub name: HeaderName,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

impl Header {
    /// A header with a value.
    #[must_use]
    pub fn new(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), value: Some(value.into()) }
    }

    /// Its value as text, where it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.as_deref().and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// When a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordTime {
    /// In milliseconds since 1970.
    pub millis: i64,
    /// Who says so.
    pub kind: TimeKind,
}

/// Who says when a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    /// Its producer.
    CreateTime,
    /// The broker.
    LogAppendTime,
}

impl RecordTime {
    /// As its producer says.
    #[must_use]
    pub const fn created(millis: i64) -> Self {
        Self { millis, kind: TimeKind::CreateTime }
    }

    fn of(timestamp: Timestamp) -> Option<Self> {
        match timestamp {
            Timestamp::NotAvailable => None,
            Timestamp::CreateTime(millis) => Some(Self::created(millis)),
            Timestamp::LogAppendTime(millis) => Some(Self { millis, kind: TimeKind::LogAppendTime }),
        }
    }
}

impl TimeKind {
    /// Its name in Kafka.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub position: Position,
    /// When it was written.
    pub timestamp: Option<RecordTime>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; nothing in a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<Header>,
}

impl Record {
    /// A copy of what the client lent us; `topic` saves a copy of the name. Headers that cannot be read are no reason to
    /// stop: a header of ours says which ones they were.
    #[must_use]
    pub fn of(message: &BorrowedMessage<'_>, topic: &Arc<str>) -> Self {
        Self {
            position: Position {
                topic: Arc::clone(topic),
                partition: message.partition(),
                offset: message.offset(),
            },
            timestamp: RecordTime::of(message.timestamp()),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers(message),
        }
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers: usize =
            self.headers.iter().map(|header| header.name.as_bytes().len() + len(&header.value)).sum();
        len(&self.key) + len(&self.value) + headers
    }

    /// The last header of this name, as Kafka's own clients read them.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&Header> {
        self.headers.iter().rev().find(|header| header.name == name)
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Vec<Header> {
    let found = match redrive_kafka_headers::read(message) {
        Ok(found) => found,
        Err(error) => return vec![Header::new(UNREADABLE, format!("all of them: {error}"))],
    };
    let cut: Vec<String> = found
        .iter()
        .enumerate()
        .filter(|(_, header)| header.is_cut)
        .map(|(at, header)| format!("{} ({}…)", at + 1, header.name.escape_ascii()))
        .collect();
    let owned = |header: RawHeader| Header { name: header.name.into(), value: header.value };
    let mut headers: Vec<Header> = found.into_iter().map(owned).collect();
    if !cut.is_empty() {
        let why = format!("the name of header {}: it goes on after a zero byte", cut.join(", "));
        headers.push(Header::new(UNREADABLE, why));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text_form_even_with_slashes_in_the_topic() {
        for text in ["orders/3/42", "a/b/0/0"] {
            assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        }
        for text in ["", "orders", "orders/3", "/3/4", "orders/-1/2", "orders/1/-2", "orders/x/2"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
