//! The events: short keys, and payloads as long as URLs are.

use jiff::Timestamp;
use redrive_store::Record;

/// How many bytes key and payload have together.
pub(crate) const SIZE: usize = 100;

/// So many events, all different.
pub(crate) fn events(count: usize) -> Vec<Record> {
    let created_at = Timestamp::now();
    let event = |number: usize| {
        let key = format!("{number:011}");
        let payload = format!("https://example.org/{number:0>69}");
        Record { key, payload, created_at }
    };
    (0..count).map(event).collect()
}
