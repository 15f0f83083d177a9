//! Reading what waits, in order.

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::frame::{self, Found, Kind};
use super::segment::Segment;
use super::state::Shared;
use super::{Position, Record};
use crate::error::Error;

/// How much is read from the disk at a time.
const CHUNK: u64 = 1024 * 1024;

/// Reads the records that are not acknowledged, oldest first. Each reader has its own place.
///
/// A record that is acknowledged before the reader comes to it is left out.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    durable: watch::Receiver<u64>,
    place: Place,
}

/// Where to go on.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The first number of the segment.
    segment: u64,
    offset: u64,
    /// The last number that was seen, or that is nobody's.
    seen: u64,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let durable = shared.durable.subscribe();
        Self { shared, durable, place: Place { segment: 0, offset: 0, seen: 0 } }
    }

    /// At most so many of the next records, and no more once they exceed so many bytes; at least one, if
    /// there is one. Reads the disk: call it where blocking is allowed.
    ///
    /// # Errors
    /// When the disk cannot be read; the reader keeps its place.
    pub fn read(&mut self, most: usize, most_bytes: usize) -> Result<Vec<Record>, Error> {
        let mut batch = Batch { records: Vec::new(), most, bytes_left: most_bytes };
        let durable = *self.durable.borrow();
        while !batch.is_full() {
            let Some((segment, length)) = self.segment() else {
                // Not every number has a record: the first one of a segment without any is used up, too.
                self.place.seen = self.place.seen.max(durable);
                break;
            };
            self.read_chunk(&segment, length, &mut batch)?;
        }
        Ok(batch.records)
    }

    /// The same, away from the threads that must not block.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn next(&mut self, most: usize, most_bytes: usize) -> Result<Vec<Record>, Error> {
        let mut reader =
            Self { shared: Arc::clone(&self.shared), durable: self.durable.clone(), place: self.place };
        let reading = tokio::task::spawn_blocking(move || {
            let records = reader.read(most, most_bytes);
            (records, reader.place)
        });
        let (records, place) = reading.await.map_err(|_| Error::Closed { dir: self.shared.dir.clone() })?;
        self.place = place;
        records
    }

    /// Waits until there is something that this reader has not seen; for ever, if nothing is appended any more.
    pub async fn wait(&mut self) {
        let seen = self.place.seen;
        let _ = self.durable.wait_for(|last| *last > seen).await;
    }

    /// Starts again at the oldest record that is not acknowledged.
    pub fn rewind(&mut self) {
        self.place = Place { segment: 0, offset: 0, seen: 0 };
    }

    /// The segment to read on in, and how much of it counts.
    fn segment(&mut self) -> Option<(Segment, u64)> {
        let state = self.shared.state();
        let place = self.place;
        let unread = |segment: &&Segment| {
            segment.first > place.segment || (segment.first == place.segment && segment.length > place.offset)
        };
        let segment = state.segments.iter().find(unread)?.clone();
        if segment.first > place.segment {
            self.place = Place { segment: segment.first, offset: 0, seen: place.seen };
        }
        let length = segment.length;
        (length > 0).then_some((segment, length))
    }

    fn read_chunk(&mut self, segment: &Segment, length: u64, batch: &mut Batch) -> Result<(), Error> {
        let bytes = match self.load(segment, length)? {
            Some(bytes) if !bytes.is_empty() => Bytes::from(bytes),
            short_or_gone => {
                if short_or_gone.is_some() {
                    tracing::error!(segment = %segment.path.display(), offset = self.place.offset, "a file of the journal is shorter than it was: the records that are missing are left out");
                }
                self.place.offset = u64::MAX;
                return Ok(());
            }
        };
        let mut at = 0;
        while at < bytes.len() && !batch.is_full() {
            at = match frame::decode(&bytes, at) {
                Found::Whole(frame) => {
                    if frame.kind == Kind::Record {
                        self.deliver(frame.number, bytes.slice(frame.payload.clone()), batch);
                    }
                    frame.payload.end
                }
                // It goes on in the next chunk.
                Found::Cut | Found::Nothing
                    if self.place.offset + (bytes.len() as u64) < length && at > 0 =>
                {
                    break;
                }
                damaged => self.step_over(&damaged, &bytes, at, segment),
            };
        }
        self.place.offset += at as u64;
        Ok(())
    }

    /// Where to go on after bytes that went bad since they were written or opened. A marker may begin at
    /// the very end of a chunk.
    fn step_over(&self, found: &Found, bytes: &[u8], at: usize, segment: &Segment) -> usize {
        let offset = self.place.offset + at as u64;
        if !segment.has_holes {
            tracing::error!(segment = %segment.path.display(), offset, "a record of the journal is damaged and left out: a start keeps its bytes under damaged/");
        }
        match found {
            Found::DamagedPayload(end) => *end,
            _ => frame::next_marker(bytes, at).unwrap_or(bytes.len().saturating_sub(3).max(at + 1)),
        }
    }

    /// The next stretch of a segment: at least one whole frame, or nothing if somebody has cut the file. `None`
    /// if it was removed meanwhile, which is done when all of it is acknowledged.
    fn load(&self, segment: &Segment, length: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut file = match self.shared.filesystem.open(&segment.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &segment.path)(error)),
        };
        let left = length - self.place.offset;
        let mut limit = CHUNK.min(left);
        loop {
            let bytes = file.read_from(self.place.offset, limit).map_err(Error::io("read", &segment.path))?;
            if limit == left || frame::decode(&bytes, 0) != Found::Cut {
                return Ok(Some(bytes));
            }
            limit = limit.saturating_mul(4).min(left);
        }
    }

    fn deliver(&mut self, number: u64, payload: Bytes, batch: &mut Batch) {
        self.place.seen = self.place.seen.max(number);
        if !self.shared.state().acknowledged.contains(number) {
            batch.bytes_left = batch.bytes_left.saturating_sub(payload.len());
            batch.records.push(Record { position: Position(number), payload });
        }
    }
}

/// What has been read so far, and how much more may be.
struct Batch {
    records: Vec<Record>,
    most: usize,
    bytes_left: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.records.len() >= self.most || (self.bytes_left == 0 && !self.records.is_empty())
    }
}
