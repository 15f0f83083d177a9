//! After a crash: what the journal has goes the way it would have gone.
//!
//! A batch that had its name is formed again from the same events, and uploaded as the same object. Events
//! without a batch come in as if they had just been sent. If some events of a batch are missing, the rest
//! get a new name: an object is never overwritten with less than it had.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use redrive_spool::journal::{Journal, Position, Reader, Record as Entry, Span};
use tokio_util::sync::CancellationToken;

use super::delivery::Formed;
use super::record::{self, Cut, Record};
use super::{Arrival, Ingest, Item, units};

/// How much is read at a time.
const MOST: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// Brings back what a crash interrupted.
pub(super) struct Replay {
    ingest: Arc<Ingest>,
    /// Batches that had a name, by number, and which one each event belongs to.
    batches: Vec<Interrupted>,
    batch_of: HashMap<Position, usize>,
}

/// A batch that had its name.
struct Interrupted {
    cut: Cut,
    position: Position,
    found: Vec<(Position, Bytes)>,
    missing: usize,
}

impl Replay {
    pub(super) fn new(ingest: Arc<Ingest>) -> Self {
        Self { ingest, batches: Vec::new(), batch_of: HashMap::new() }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let Some(journal) = self.ingest.journal.clone() else { return };
        let last = journal.recovery().last;
        if journal.recovery().records > 0 {
            tracing::info!(pipeline = %self.ingest.name, records = journal.recovery().records, "events in the journal are delivered first");
        }
        stop.run_until_cancelled(self.deliver(&journal, last)).await;
    }

    async fn deliver(&mut self, journal: &Journal, last: Position) {
        self.find_batches(&mut journal.reader(), last).await;
        let mut reader = journal.reader();
        while let Some(entries) = self.read(&mut reader, last).await {
            for entry in entries {
                self.bring_back(journal, entry).await;
            }
        }
        self.release_incomplete(journal).await;
    }

    /// The next records that were there at the start; nothing more when there are none, or the disk fails.
    async fn read(&self, reader: &mut Reader, last: Position) -> Option<Vec<Entry>> {
        let entries = match reader.next(MOST, MOST_BYTES).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(pipeline = %self.ingest.name, %error, "the journal cannot be read: its events are delivered at the next start");
                return None;
            }
        };
        let old: Vec<Entry> = entries.into_iter().filter(|entry| entry.position <= last).collect();
        (!old.is_empty()).then_some(old)
    }

    async fn find_batches(&mut self, reader: &mut Reader, last: Position) {
        while let Some(entries) = self.read(reader, last).await {
            for entry in entries {
                if let Record::Cut(cut) = record::decode(&entry.payload) {
                    self.ingest.books.replays(&cut.batch);
                    let number = self.batches.len();
                    self.batch_of.extend(cut.positions().map(|position| (position, number)));
                    let missing = cut.positions().count();
                    self.batches.push(Interrupted {
                        cut,
                        position: entry.position,
                        found: Vec::new(),
                        missing,
                    });
                }
            }
        }
    }

    async fn bring_back(&mut self, journal: &Journal, entry: Entry) {
        match record::decode(&entry.payload) {
            Record::Events(lines) => match self.batch_of.get(&entry.position) {
                Some(number) => self.complete(*number, entry.position, lines).await,
                None => self.send_item(entry.position, lines).await,
            },
            Record::Cut(_) => {}
            Record::Unknown => {
                // A later version wrote it, and can read it again.
                let dir = journal.dir().display();
                tracing::error!(pipeline = %self.ingest.name, place = entry.position.0, %dir, "a record of the journal cannot be read: it stays there, for the version that wrote it");
            }
        }
    }

    async fn complete(&mut self, number: usize, position: Position, lines: Bytes) {
        let batch = &mut self.batches[number];
        batch.found.push((position, lines));
        batch.missing -= 1;
        if batch.missing > 0 {
            return;
        }
        // In the order in which they were: the same bytes come of it.
        let mut found: HashMap<_, _> = std::mem::take(&mut batch.found).into_iter().collect();
        let order: Vec<Position> = batch.cut.positions().collect();
        let pieces: Vec<Bytes> = order.iter().filter_map(|position| found.remove(position)).collect();
        let mut spans: Vec<Span> = order.into_iter().map(Span::from).collect();
        spans.push(batch.position.into());
        let name = batch.cut.batch.clone();
        self.send_batch(name, pieces, spans).await;
    }

    async fn send_batch(&self, name: String, pieces: Vec<Bytes>, spans: Vec<Span>) {
        let bytes = pieces.iter().map(Bytes::len).sum();
        let Some(room) = self.room(bytes).await else { return };
        let events = pieces.iter().map(|piece| count(piece)).sum();
        self.ingest.backlog.fetch_add(events, Ordering::Relaxed);
        self.ingest.books.accepted(events);
        let formed = Formed { name: Some(name), pieces, events, spans, room: vec![room] };
        let _ = self.ingest.inbox.send(Arrival::Again(formed));
    }

    async fn send_item(&self, position: Position, lines: Bytes) {
        let Some(room) = self.room(lines.len()).await else { return };
        let events = count(&lines);
        self.ingest.backlog.fetch_add(events, Ordering::Relaxed);
        self.ingest.books.accepted(events);
        let item = Item { lines, events, span: Some(position.into()), room };
        let _ = self.ingest.inbox.send(Arrival::Item(item));
    }

    async fn release_incomplete(&mut self, journal: &Journal) {
        for batch in std::mem::take(&mut self.batches) {
            if batch.missing == 0 {
                continue;
            }
            self.ingest.books.replays_no_more(&batch.cut.batch);
            journal.acknowledge(batch.position.into());
            for (position, lines) in batch.found {
                self.send_item(position, lines).await;
            }
        }
    }

    async fn room(&self, bytes: usize) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let units = units(bytes).min(units(self.ingest.options.queue));
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Arc::clone(&self.ingest.room).acquire_many_owned(units).await.ok()
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}
