//! An event: something that happened and must reach its handler, with the checks at the door.
//!
//! A value that one backend cannot keep (a NUL in Postgres text, a type name longer than its
//! column) is refused here, before it can fail the insert of the whole batch it is part of.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest `event_type` and `aggregate_type`, in characters.
pub const MAX_TYPE: usize = 100;
/// The longest `aggregate_id`, job subject and unique key, in characters.
pub const MAX_KEY: usize = 255;

/// The number of a piece of work in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkId(pub i64);

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a handler is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of this piece of work.
    pub id: WorkId,
    /// The number it had when it was first accepted; differs from `id` after a redrive.
    ///
    /// Receivers deduplicate by it: a redriven event is still the same event.
    pub origin: WorkId,
    /// What happened, such as `OrderCreated`; for a job, the name of its queue.
    pub event_type: String,
    /// To what kind of thing it happened; empty for a job.
    pub aggregate_type: String,
    /// To which one: the aggregate's id, the job's subject, the row's key.
    pub key: String,
    /// The body, byte for byte.
    pub payload: Vec<u8>,
    /// When it was accepted, by the store's clock.
    pub created_at: Timestamp,
    /// Which attempt this is, counted from 1; a redrive starts at 1 again.
    pub attempt: u32,
}

/// An event on its way into an outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// What happened.
    pub event_type: String,
    /// To what kind of thing.
    pub aggregate_type: String,
    /// To which one.
    pub aggregate_id: String,
    /// The body; text, because the founding column is `TEXT`.
    pub payload: String,
}

impl NewEvent {
    /// Checks that every backend can keep it.
    ///
    /// # Errors
    /// [`Refused`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), Refused> {
        required("event_type", &self.event_type, MAX_TYPE)?;
        storable("aggregate_type", &self.aggregate_type, MAX_TYPE)?;
        storable("aggregate_id", &self.aggregate_id, MAX_KEY)?;
        storable("payload", &self.payload, usize::MAX)
    }
}

/// Why an event was not accepted. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct Refused {
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

/// A text that must not be empty, and that every backend can keep.
///
/// # Errors
/// [`Refused`] when it is empty, too long, or has a NUL.
pub fn required(field: &'static str, text: &str, max: usize) -> Result<(), Refused> {
    if text.is_empty() {
        return Err(Refused { field, why: "is empty: it is required".into() });
    }
    storable(field, text, max)
}

/// A text that every backend can keep.
///
/// # Errors
/// [`Refused`] when it is too long or has a NUL.
pub fn storable(field: &'static str, text: &str, max: usize) -> Result<(), Refused> {
    if let Some(at) = text.find('\0') {
        let why = format!(
            "has a NUL byte at byte {at}: SQL text cannot keep it, encode it (base64, \\u0000 in JSON)"
        );
        return Err(Refused { field, why });
    }
    // Bytes are at least as many as characters: most texts need no count.
    if text.len() > max && text.chars().count() > max {
        let why = format!("has {} characters: at most {max} fit", text.chars().count());
        return Err(Refused { field, why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> NewEvent {
        NewEvent {
            event_type: "OrderCreated".into(),
            aggregate_type: "Order".into(),
            aggregate_id: "42".into(),
            payload: "{}".into(),
        }
    }

    #[test]
    fn an_ordinary_event_is_accepted() {
        assert_eq!(event().check(), Ok(()));
    }

    #[test]
    fn a_nul_byte_is_refused_with_its_place() {
        let refused = NewEvent { payload: "a\0".into(), ..event() }.check().unwrap_err();
        assert_eq!(refused.field, "payload");
        assert!(refused.why.contains("byte 1"));
    }

    #[test]
    fn length_is_counted_in_characters_as_the_columns_do() {
        assert!(NewEvent { event_type: "é".repeat(100), ..event() }.check().is_ok());
        assert!(NewEvent { event_type: "é".repeat(101), ..event() }.check().is_err());
        assert!(NewEvent { event_type: String::new(), ..event() }.check().is_err());
    }
}
