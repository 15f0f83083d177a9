//! What ingest writes into its journal: events as they were accepted, and which of them became a batch.
//!
//! ```text
//! E{"id":1}\n{"id":2}\n                                     one body, one event per line
//! B{"batch":"1700000001_i_000001.jsonl.gz","of":[[1,1],[3,7]]}   these records are that batch
//! ```
//! A batch is written down before it is uploaded, so that after a crash the same events go to the same
//! object: a repetition overwrites itself.

use bytes::Bytes;
use redrive_spool::journal::{Position, Span};
use serde::{Deserialize, Serialize};

const EVENTS: u8 = b'E';
const BATCH: u8 = b'B';

/// A record of the journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Events(Bytes),
    Cut(Cut),
    /// Nothing that this version writes: it is left where it is.
    Unknown,
}

/// Which records became a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cut {
    pub(super) batch: String,
    /// First and last number of each run of records.
    of: Vec<(u64, u64)>,
}

impl Cut {
    pub(super) fn new(batch: &str, spans: &[Span]) -> Self {
        let mut of: Vec<(u64, u64)> = Vec::new();
        for span in spans {
            match of.last_mut() {
                Some(last) if last.1 + 1 == span.first.0 => last.1 = span.last.0,
                _ => of.push((span.first.0, span.last.0)),
            }
        }
        Self { batch: batch.to_owned(), of }
    }

    /// The records, one by one.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> {
        self.of.iter().flat_map(|(first, last)| (*first..=*last).map(Position))
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = vec![BATCH];
        // A vector cannot fail to be written to.
        let _ = serde_json::to_writer(&mut bytes, self);
        bytes.into()
    }
}

/// The journal's form of a body.
pub(super) fn encode_events(lines: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(lines.len() + 1);
    bytes.push(EVENTS);
    bytes.extend_from_slice(lines);
    bytes.into()
}

pub(super) fn decode(payload: &Bytes) -> Record {
    match payload.first() {
        Some(&EVENTS) => Record::Events(payload.slice(1..)),
        Some(&BATCH) => serde_json::from_slice(&payload[1..]).map_or(Record::Unknown, Record::Cut),
        _ => Record::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let lines = Bytes::from("{\"a\":1}\n");
        assert_eq!(decode(&encode_events(&lines)), Record::Events(lines));
        let spans = [1, 2, 5].map(|number| Span::from(Position(number)));
        let cut = Cut::new("x.jsonl.gz", &spans);
        assert_eq!(cut.encode(), "B{\"batch\":\"x.jsonl.gz\",\"of\":[[1,2],[5,5]]}");
        assert_eq!(decode(&cut.encode()), Record::Cut(cut.clone()));
        assert_eq!(cut.positions().map(|position| position.0).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(decode(&"?".into()), Record::Unknown);
        assert_eq!(decode(&Bytes::new()), Record::Unknown);
    }
}
