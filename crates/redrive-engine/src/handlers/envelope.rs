//! The envelope: what a receiver is told about an event beside its body.
//!
//! | HTTP and Kafka header | environment variable | value |
//! |---|---|---|
//! | `idempotency-key` | `REDRIVE_IDEMPOTENCY_KEY` | `<pipeline>:<origin>`: the same for every attempt and every redrive |
//! | `redrive-event-id` | `REDRIVE_EVENT_ID` | the number of this piece of work; new after a redrive of an outbox event |
//! | `redrive-event-type` | `REDRIVE_EVENT_TYPE` | what happened |
//! | `redrive-key` | `REDRIVE_KEY` | the aggregate's id, the job's subject |
//! | `redrive-attempt` | `REDRIVE_ATTEMPT` | counted from 1 |
//!
//! In HTTP headers everything but visible ASCII is percent-encoded, and `%` itself: `zażółć 1` arrives as
//! `za%C5%BC%C3%B3%C5%82%C4%87%201`. Kafka headers are UTF-8; in the environment NUL becomes U+FFFD.

use std::fmt::Write as _;

use redrive_core::event::Event;
use reqwest::header::HeaderValue;

/// What a receiver is told about an event beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The same for every attempt and every redrive of an event.
    pub idempotency_key: String,
    /// The number of this piece of work.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// The aggregate's id, the job's subject.
    pub key: String,
    /// Counted from 1.
    pub attempt: String,
}

impl Envelope {
    /// The envelope of an event in a pipeline.
    #[must_use]
    pub fn of(pipeline: &str, event: &Event) -> Self {
        Self {
            idempotency_key: format!("{pipeline}:{}", event.origin),
            event_id: event.id.to_string(),
            event_type: event.event_type.clone(),
            key: event.key.clone(),
            attempt: event.attempt.to_string(),
        }
    }

    /// As headers, with the values as they are.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, &str); 5] {
        [
            ("idempotency-key", &self.idempotency_key),
            ("redrive-event-id", &self.event_id),
            ("redrive-event-type", &self.event_type),
            ("redrive-key", &self.key),
            ("redrive-attempt", &self.attempt),
        ]
    }

    /// As environment variables.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("REDRIVE_IDEMPOTENCY_KEY", &self.idempotency_key),
            ("REDRIVE_EVENT_ID", &self.event_id),
            ("REDRIVE_EVENT_TYPE", &self.event_type),
            ("REDRIVE_KEY", &self.key),
            ("REDRIVE_ATTEMPT", &self.attempt),
        ]
        .map(|(name, value)| (name, value.replace('\0', "\u{FFFD}")))
    }
}

/// A header value that says this text, percent-encoded where it must be.
pub(super) fn header_value(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    HeaderValue::from_str(&encoded).expect("invariant: visible ASCII is a header value")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    #[test]
    fn a_key_in_any_script_fits_into_a_header() {
        for (text, value) in [
            ("order-42", "order-42"),
            ("", ""),
            ("zażółć 1", "za%C5%BC%C3%B3%C5%82%C4%87%201"),
            ("a\r\nx-evil: 1", "a%0D%0Ax-evil:%201"),
            ("100%", "100%25"),
        ] {
            assert_eq!(header_value(text), value);
        }
    }

    proptest! {
        #[test]
        fn every_text_becomes_one_line_of_visible_characters(text: String) {
            prop_assert!(header_value(&text).as_bytes().iter().all(u8::is_ascii_graphic));
        }
    }
}
