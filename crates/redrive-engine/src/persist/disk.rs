//! The disk below a persister: its journal, in the order of arrival.
//!
//! One record of the journal is one event. Numbers are little-endian.
//! ```text
//!   0  1  version 1
//!   1  8  created at, milliseconds since 1970
//!   9  4  length of the key
//!  13  …  the key, then the payload to the end; both UTF-8
//! ```
//! A record that cannot be read (of a later version) is left where it is, and reported at each start. So is
//! an event that no table can hold.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use jiff::Timestamp;
use redrive_spool::journal::{Position, Reader, Span};
use redrive_spool::{Error, Journal};
use redrive_store::Record;

const VERSION: u8 = 1;
const HEADER: usize = 13;
/// About the most bytes that are read at once.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The journal of one persister.
pub(super) struct Disk {
    journal: Journal,
    /// Records that were read and are left where they are.
    left: AtomicU64,
}

/// Events from the journal, and their places in it.
pub(super) struct Read {
    pub(super) records: Vec<Record>,
    places: Vec<Position>,
}

impl Disk {
    pub(super) const fn new(journal: Journal) -> Self {
        Self { journal, left: AtomicU64::new(0) }
    }

    /// Makes events durable, all or none.
    pub(super) async fn append(&self, records: &[Record]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        self.journal.append(records.iter().map(encode).collect()).await.map(drop)
    }

    /// How many events it holds.
    pub(super) fn held(&self) -> u64 {
        self.journal.stats().records
    }

    /// How many of them wait for their turn.
    pub(super) fn waiting(&self) -> u64 {
        self.held().saturating_sub(self.left.load(Ordering::Relaxed))
    }

    /// Whether some had their turn, and are left where they are.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Gives them their turn again.
    pub(super) fn rewind(&self, reader: &mut Reader) {
        self.left.store(0, Ordering::Relaxed);
        reader.rewind();
    }

    pub(super) fn dir(&self) -> &Path {
        self.journal.dir()
    }

    pub(super) fn reader(&self) -> Reader {
        self.journal.reader()
    }

    /// The next events, at most so many; without any, there are none yet.
    pub(super) async fn read(&self, reader: &mut Reader, most: usize) -> Result<Read, Error> {
        let mut read = Read { records: Vec::new(), places: Vec::new() };
        for record in reader.next(most, MAX_BYTES).await? {
            match decode(&record.payload) {
                Some(event) => {
                    read.records.push(event);
                    read.places.push(record.position);
                }
                None => {
                    self.left.fetch_add(1, Ordering::Relaxed);
                    let (place, dir) = (record.position.0, self.journal.dir().display());
                    tracing::error!(place, %dir, "an event of the journal cannot be read: it stays there");
                }
            }
        }
        Ok(read)
    }

    /// Somebody else has these, but for those at these places.
    pub(super) fn acknowledge(&self, read: &Read, left: &[usize]) {
        self.left.fetch_add(left.len() as u64, Ordering::Relaxed);
        let gone = read.places.iter().enumerate().filter(|(at, _)| !left.contains(at));
        let gone: Vec<Position> = gone.map(|(_, place)| *place).collect();
        for span in spans(&gone) {
            self.journal.acknowledge(span);
        }
    }
}

/// Places that follow one another, together.
fn spans(places: &[Position]) -> impl Iterator<Item = Span> + '_ {
    let follows = |one: &Position, next: &Position| one.0 + 1 == next.0;
    let span = |run: &[Position]| Some(Span { first: *run.first()?, last: *run.last()? });
    places.chunk_by(follows).filter_map(span)
}

fn encode(record: &Record) -> Bytes {
    let mut bytes = Vec::with_capacity(HEADER + record.size());
    bytes.push(VERSION);
    bytes.extend(record.created_at.as_millisecond().to_le_bytes());
    bytes.extend(u32::try_from(record.key.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(record.key.as_bytes());
    bytes.extend(record.payload.as_bytes());
    bytes.into()
}

fn decode(bytes: &[u8]) -> Option<Record> {
    let (&version, rest) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    let (created_at, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (key, payload) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(Record {
        key: str::from_utf8(key).ok()?.to_owned(),
        payload: str::from_utf8(payload).ok()?.to_owned(),
        created_at: Timestamp::from_millisecond(i64::from_le_bytes(*created_at)).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_format_is_as_drawn() {
        let created_at = Timestamp::from_millisecond(0x0102_0304_0506).unwrap();
        let record = Record { key: "é".into(), payload: "https".into(), created_at };
        let bytes = b"\x01\x06\x05\x04\x03\x02\x01\0\0\x02\0\0\0\xc3\xa9https";
        assert_eq!(encode(&record), bytes.as_slice());
        assert_eq!(decode(bytes), Some(record));
    }

    #[test]
    fn places_that_follow_one_another_are_acknowledged_together() {
        let places = [1, 2, 3, 7, 9, 10].map(Position);
        let ends: Vec<_> = spans(&places).map(|span| (span.first.0, span.last.0)).collect();
        assert_eq!(ends, [(1, 3), (7, 7), (9, 10)]);
    }

    #[test]
    fn what_is_no_event_is_not_read() {
        for bytes in [&b""[..], b"\x02", b"\x01\0\0", b"\x01\0\0\0\0\0\0\0\0\xff\0\0\0a"] {
            assert_eq!(decode(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn every_event_comes_back(key in ".{1,40}", payload in ".{0,200}", millis in 0_i64..4_000_000_000_000) {
            let record = Record { key, payload, created_at: Timestamp::from_millisecond(millis).unwrap() };
            prop_assert_eq!(decode(&encode(&record)), Some(record));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
