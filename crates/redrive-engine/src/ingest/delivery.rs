//! One batch on its way: to the store, else to disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use redrive_core::failure::{Class, Failure};
use redrive_spool::journal::Span;
use redrive_spool::{Batch, Error as DiskError};
use tokio::sync::OwnedSemaphorePermit;

use super::notice::Notice;
use super::record::Cut;
use super::{Ingest, Item, WhenFull};
use crate::alerts::{HandlerDown, HandlerUp, Inert};
use crate::ladder::Rung;

/// The pause between tries when neither store nor disk takes a batch.
const PAUSE: Duration = Duration::from_secs(1);

/// Events that form a batch.
pub(super) struct Formed {
    /// Its name, if it was given one before a crash.
    pub(super) name: Option<String>,
    pub(super) pieces: Vec<Bytes>,
    pub(super) events: u64,
    /// Where its events are in the journal.
    pub(super) spans: Vec<Span>,
    /// Given back when the batch is safe.
    pub(super) room: Vec<OwnedSemaphorePermit>,
}

impl Formed {
    pub(super) fn of(items: Vec<Item>) -> Self {
        let mut formed =
            Self { name: None, pieces: Vec::new(), events: 0, spans: Vec::new(), room: Vec::new() };
        for item in items {
            formed.pieces.push(item.lines);
            formed.events += item.events;
            formed.spans.extend(item.span);
            formed.room.push(item.room);
        }
        formed
    }
}

impl Ingest {
    /// Takes a batch to the store, else to disk; returns when it is safe, or dropped and counted.
    pub(super) async fn deliver(self: Arc<Self>, mut formed: Formed) {
        let name = match formed.name.take() {
            Some(name) => name,
            None => self.give_name(&mut formed).await,
        };
        let (pieces, events) = (std::mem::take(&mut formed.pieces), formed.events);
        let compressed = tokio::task::spawn_blocking(move || Batch::compress(&pieces)).await;
        // Nothing but a want of memory can fail here.
        let Ok(Ok(batch)) = compressed else {
            self.not_compressed(&name, events);
            return self.let_go(formed);
        };
        self.place(&name, &batch, events).await;
        self.settle(formed);
    }

    /// Gives a batch its name, and writes it down before anything is uploaded under it.
    async fn give_name(&self, formed: &mut Formed) -> String {
        let name = self.spool.name(Timestamp::now());
        if let Some(journal) = &self.journal {
            let cut = Cut::new(&name, &formed.spans);
            match journal.append(vec![cut.encode()]).await {
                // Acknowledged together with its events.
                Ok(span) => formed.spans.push(span),
                Err(error) => {
                    tracing::warn!(pipeline = %self.name, %error, "the name of a batch is not written down: a crash now would upload its events twice");
                }
            }
        }
        name
    }

    /// With a journal the next start has it again.
    fn not_compressed(&self, name: &str, events: u64) {
        if self.journal.is_none() {
            return self.drop_batch(name, events, "the batch cannot be compressed");
        }
        tracing::error!(pipeline = %self.name, batch = name, events, "a batch cannot be compressed: its events stay in the journal, for the next start");
    }

    async fn place(self: &Arc<Self>, name: &str, batch: &Batch, events: u64) {
        while !self.upload(name, batch, events).await && !self.save(name, batch, events).await {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether the store took it. Recovery waits until nothing is being uploaded, and under a steady load
    /// that is never: so a live batch asks a store that is down, whatever waits on disk. And nothing is
    /// deleted for want of room while nobody knows whether the store is back.
    async fn upload(&self, name: &str, batch: &Batch, events: u64) -> bool {
        let asks =
            self.outage.take_turn() || (self.spool.evicts_for(batch) && self.outage.take_turn_before_loss());
        asks && self.put(name, batch, events).await
    }

    async fn put(&self, name: &str, batch: &Batch, events: u64) -> bool {
        let put = tokio::select! {
            put = self.target.put_raw(name, batch.data.clone()) => put,
            () = self.out_of_time() => Err(Failure::transient("Stopping", "the pipeline stops, and the store is slow")),
        };
        match put {
            Ok(()) => {
                self.tally.stored.increment(events);
                self.tally.delivered.increment(events);
                self.books.delivered(events);
                self.store_answered();
                true
            }
            Err(failure) => {
                self.not_taken(name, events, &failure);
                false
            }
        }
    }

    /// Half of the time that a stop may take is over: the other half is for the disk.
    async fn out_of_time(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.options.grace / 2).await;
    }

    /// Whether the batch need not be tried again: it is on disk, or dropped and counted.
    async fn save(self: &Arc<Self>, name: &str, batch: &Batch, events: u64) -> bool {
        let (ingest, owned_name, owned) = (Arc::clone(self), name.to_owned(), batch.clone());
        let saving =
            tokio::task::spawn_blocking(move || ingest.spool.save(&owned_name, &owned, Timestamp::now()));
        match saving.await {
            Ok(Ok(evicted)) => {
                self.tally.enqueued.increment(events);
                self.books.spooled(events);
                self.tally.rung(Rung::Disk);
                self.evicted(&evicted);
                true
            }
            Ok(Err(error)) => self.not_saved(name, events, &error),
            Err(_) => false,
        }
    }

    fn not_saved(&self, name: &str, events: u64, error: &DiskError) -> bool {
        let evicts = self.options.on_full == WhenFull::EvictOldest;
        let is_too_large = matches!(error, DiskError::Full { .. });
        if evicts && (is_too_large || self.journal.is_none()) {
            self.drop_batch(name, events, &error.to_string());
            return true;
        }
        tracing::error!(pipeline = %self.name, %error, events, "neither the store nor the disk takes a batch: it is kept and tried again");
        false
    }

    pub(super) fn drop_batch(&self, name: &str, events: u64, reason: &str) {
        self.tally.dropped.increment(events);
        self.books.dropped(events);
        self.tally.rung(Rung::Nowhere);
        let why = format!("{events} events are lost: {reason}");
        self.notify(Notice::Dropped, name, events, &Failure::permanent("Dropped", why));
    }

    /// The next room has it: the journal lets go.
    fn settle(&self, formed: Formed) {
        if let Some(journal) = &self.journal {
            journal.acknowledge_all(&formed.spans);
        }
        self.let_go(formed);
    }

    /// It is not in memory any more: there is room for others.
    fn let_go(&self, formed: Formed) {
        self.backlog.fetch_sub(formed.events, Ordering::Relaxed);
        drop(formed.room);
    }

    /// An outage is the store's affair; what it refuses for good is the batch's, and the others go on.
    fn not_taken(&self, name: &str, events: u64, failure: &Failure) {
        self.tally.put_errors.increment(1);
        if matches!(failure.class, Class::Permanent | Class::Malformed) {
            self.refused(name, events, failure);
        } else {
            self.store_failed(failure);
        }
    }

    /// That says nothing about a store which is down.
    pub(super) fn refused(&self, name: &str, events: u64, failure: &Failure) {
        self.outage.give_turn_back();
        self.notify(Notice::Refused, name, events, failure);
    }

    pub(super) fn store_failed(&self, failure: &Failure) {
        if self.outage.failed(&failure.to_string()) {
            tracing::warn!(pipeline = %self.name, error = %failure, "the store does not take batches: they wait on disk");
            self.alerts.handler_down(HandlerDown {
                pipeline: Inert::new(&self.name),
                handler: Inert::new("store"),
                error: Inert::new(&failure.to_string()),
            });
        }
    }

    pub(super) fn store_answered(&self) {
        self.spool.store_took();
        self.tally.rung(if self.spool.stats().files == 0 { Rung::Target } else { Rung::Disk });
        if self.outage.answered() {
            let files = self.spool.stats().files;
            tracing::info!(pipeline = %self.name, files, "the store is back: what waits on disk is uploaded");
            self.alerts
                .handler_up(HandlerUp { pipeline: Inert::new(&self.name), handler: Inert::new("store") });
        }
    }
}
