//! One batch on its way: to the store, else to disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use redrive_core::failure::{Class, Failure};
use redrive_spool::journal::Span;
use redrive_spool::spool::Evict;
use redrive_spool::{Batch, Error as DiskError};
use tokio::sync::OwnedSemaphorePermit;

use super::losses::Loss;
use super::notice::Notice;
use super::outage::Turn;
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

    /// Whether the store took it. While it is down, one batch at a time may ask whether it is back, and the others
    /// go to disk at once. And nothing is deleted for want of room while nobody knows whether the store is back.
    async fn upload(self: &Arc<Self>, name: &str, batch: &Batch, events: u64) -> bool {
        let turn = self
            .outage
            .take_turn()
            .or_else(|| self.spool.evicts_for(batch).then(|| self.outage.take_turn_before_loss()).flatten());
        match turn {
            Some(turn) => self.put(name, batch, events, turn).await,
            None => false,
        }
    }

    async fn put(self: &Arc<Self>, name: &str, batch: &Batch, events: u64, turn: Turn) -> bool {
        let put = tokio::select! {
            put = self.target.put_raw(name, batch.data.clone()) => put,
            () = self.outage.found_down_by_others(&turn) => {
                tracing::debug!(pipeline = %self.name, batch = name, "others found the store down: the batch goes to disk");
                return false;
            }
            () = self.out_of_time() => Err(Failure::transient("Stopping", "the pipeline stops, and the store is slow")),
        };
        match put {
            Ok(()) => {
                self.tally.stored.increment(events);
                self.tally.delivered.increment(events);
                self.books.delivered(events, name);
                self.store_answered();
                true
            }
            Err(failure) => {
                let is_away = self.not_taken(name, events, &failure, &turn);
                if is_away && turn.is_probe() {
                    self.expire().await;
                }
                false
            }
        }
    }

    /// The store was asked just now, and is away: what is too old goes.
    async fn expire(self: &Arc<Self>) {
        let ingest = Arc::clone(self);
        let expiring = tokio::task::spawn_blocking(move || ingest.spool.expire(Timestamp::now()));
        self.expired(&expiring.await.unwrap_or_default());
    }

    /// Half of the time that a stop may take is over: the other half is for the disk.
    async fn out_of_time(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.options.grace / 2).await;
    }

    /// Whether the batch need not be tried again: it is on disk, or dropped and counted.
    async fn save(self: &Arc<Self>, name: &str, batch: &Batch, events: u64) -> bool {
        let (ingest, owned_name, owned) = (Arc::clone(self), name.to_owned(), batch.clone());
        let evict = if self.outage.is_confirmed() { Evict::Any } else { Evict::Refused };
        let saving = tokio::task::spawn_blocking(move || {
            ingest.spool.save_evicting(&owned_name, &owned, evict, Timestamp::now())
        });
        match saving.await {
            Ok(Ok(evicted)) => {
                self.tally.enqueued.increment(events);
                self.books.spooled(events, name);
                self.fallback.went(Rung::Disk);
                self.evicted(&evicted);
                true
            }
            Ok(Err(error)) => self.not_saved(name, events, &error),
            Err(_) => false,
        }
    }

    fn not_saved(&self, name: &str, events: u64, error: &DiskError) -> bool {
        let evicts = self.options.on_full == WhenFull::EvictOldest;
        // Otherwise there is room once files are uploaded, or the store is known to be away.
        let is_too_large = matches!(error, DiskError::Full { more, limit, .. } if more > limit);
        let has_failed = self.journal.is_none() && matches!(error, DiskError::Io { .. });
        if evicts && (is_too_large || has_failed) {
            self.drop_batch(name, events, &error.to_string());
            return true;
        }
        self.not_placed(events, error);
        false
    }

    /// It is kept, and tried again.
    fn not_placed(&self, events: u64, error: &DiskError) {
        if matches!(error, DiskError::Full { .. }) && !self.outage.is_confirmed() {
            tracing::info!(pipeline = %self.name, events, "a batch waits for room in the spool");
            return;
        }
        tracing::error!(pipeline = %self.name, %error, events, "neither the store nor the disk takes a batch: it is kept and tried again");
        self.fallback.nowhere(&error.to_string());
    }

    pub(super) fn drop_batch(&self, name: &str, events: u64, reason: &str) {
        self.tally.dropped.increment(events);
        self.books.dropped(events);
        self.fallback.nowhere(reason);
        self.losses.note(Loss::Dropped, name, events, reason);
        self.losses.report();
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

    /// An outage is the store's; what it refuses for good is the batch's, and the others go on. Whether it is an
    /// outage.
    fn not_taken(&self, name: &str, events: u64, failure: &Failure, turn: &Turn) -> bool {
        self.tally.put_errors.increment(1);
        let is_refused = matches!(failure.class, Class::Permanent | Class::Malformed);
        if is_refused {
            self.refused(name, events, failure);
        } else {
            self.store_failed(turn, failure);
        }
        !is_refused
    }

    /// That says nothing about a store which is down: whoever had the turn leaves it to the next.
    pub(super) fn refused(&self, name: &str, events: u64, failure: &Failure) {
        self.notify(Notice::Refused, name, events, failure);
    }

    pub(super) fn store_failed(&self, turn: &Turn, failure: &Failure) {
        if self.outage.failed(turn, &failure.to_string()) {
            tracing::warn!(pipeline = %self.name, error = %failure, "the store does not take batches: they wait on disk");
            self.tally.store_down(true);
            self.alerts.handler_down(HandlerDown {
                pipeline: Inert::new(&self.name),
                handler: Inert::new("store"),
                error: Inert::new(&failure.to_string()),
            });
        }
    }

    pub(super) fn store_answered(&self) {
        self.spool.store_took();
        self.fallback.went(if self.spool.stats().files == 0 { Rung::Target } else { Rung::Disk });
        if self.outage.answered() {
            self.spool.store_came_back();
            self.tally.store_down(false);
            let files = self.spool.stats().files;
            tracing::info!(pipeline = %self.name, files, "the store is back: what waits on disk is uploaded");
            self.alerts
                .handler_up(HandlerUp { pipeline: Inert::new(&self.name), handler: Inert::new("store") });
        }
    }
}
