//! A record of a topic, owned, byte for byte.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};

/// The header that a redriven record carries: where it was first, as `topic/partition/offset`.
pub const ORIGIN: &str = "redrive-origin";

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

/// A header. Kafka knows headers without a value, which are not the same as empty ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name; several headers may share one.
    pub name: String,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

impl Header {
    /// A header with a value.
    #[must_use]
    pub fn new(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), value: Some(value.into()) }
    }

    /// Its value as text, where it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.as_deref().and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub position: Position,
    /// When it was written, in milliseconds since 1970.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; nothing in a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<Header>,
}

impl Record {
    /// A copy of what the client lent us; `topic` saves a copy of the name.
    #[must_use]
    pub fn of(message: &BorrowedMessage<'_>, topic: &Arc<str>) -> Self {
        let headers = message.headers().map(|headers| {
            let owned = |header: rdkafka::message::Header<'_, &[u8]>| Header {
                name: header.key.to_owned(),
                value: header.value.map(<[u8]>::to_vec),
            };
            headers.iter().map(owned).collect()
        });
        Self {
            position: Position {
                topic: Arc::clone(topic),
                partition: message.partition(),
                offset: message.offset(),
            },
            timestamp: message.timestamp().to_millis(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
        }
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(|header| header.name.len() + len(&header.value)).sum();
        len(&self.key) + len(&self.value) + headers
    }

    /// The last header of this name, as Kafka's own clients read them.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&Header> {
        self.headers.iter().rev().find(|header| header.name == name)
    }
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
