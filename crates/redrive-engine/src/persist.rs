//! Persist: write-behind persistence that never loses an event.
//!
//! ```text
//!  persist() ─▶ intake ─▶ writer ─▶ saver: 3 retries, poison isolated ─▶ target table
//!                            │ what cannot be saved
//!                            ▼
//!                      failed_events ─▶ schedule: first after 60 s, then every 5 min ─▶ target table
//!                            │                        RESOLVED (deleted after 7 days), or FAILED after 3
//!                            ▼ if they do not answer either
//!                      journal on disk ─▶ drains back, in order, when the database returns
//! ```
//! With [`Durability::Journal`] the journal comes first: `persist()` returns when the event is synced to
//! it, and the writer reads it from there.
//!
//! Promises:
//! - **One bad row fails alone.** A permanent failure of a batch is bisected: good rows are saved, each
//!   bad one becomes a failed event of its own. One that not even the failed events can hold (their column
//!   is too small) stays in the journal alone, is told, and is tried again now and then; without a journal
//!   it is dropped, counted and told.
//! - **An outage is not poison.** What fails transiently is retried, then set aside whole; no attempt of
//!   a failed event is counted while the target does not answer, or refuses everything alike.
//! - **A save is idempotent**: the same key and payload again is success. So a lost answer, a killed
//!   process or a second scheduler costs at most a repetition, never a second row.
//! - **Order**: batches are saved one after the other, as they came in.
//! - **Nothing grows without end**: the queue is bounded; when it is full, callers are told.

mod burial;
mod cache;
mod cleanup;
mod cron;
mod disk;
mod intake;
mod isolate;
mod options;
mod reprocess;
mod saver;
mod sink;
mod tally;
mod writer;

use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue as _, PipelineKind};
use redrive_core::policy::Policy;
use redrive_spool::Journal;
use redrive_store::{FailedEvents, Record};
use tokio_util::sync::CancellationToken;

use crate::alerts::{AlertService, Silence};
use crate::findings;
use crate::ladder::{Ladder, Rung};
use crate::pipeline::Pipeline;
use crate::refusals::Refusals;
use cache::{Refresh, Typed};
use disk::Disk;
use intake::Intake;
use saver::Saver;
use tally::Tally;

pub use cache::Cache;
pub use cron::{Cron, InvalidCron};
pub use intake::NotAccepted;
pub use options::{Durability, PersistOptions, Schedule};
pub use sink::Sink;

/// An event that can be kept as a key and a payload.
pub trait Persistent: Sized + Send + Sync + 'static {
    /// What it is saved under: unique, 1 to 255 characters.
    fn key(&self) -> String;

    /// The rest of it, as text.
    fn payload(&self) -> String;

    /// The event again, from what was kept; nothing when the payload is not its own any more.
    fn restore(key: &str, payload: &str) -> Option<Self>;
}

impl Persistent for Record {
    fn key(&self) -> String {
        self.key.clone()
    }

    fn payload(&self) -> String {
        self.payload.clone()
    }

    fn restore(key: &str, payload: &str) -> Option<Self> {
        Some(Self { key: key.to_owned(), payload: payload.to_owned(), created_at: Timestamp::now() })
    }
}

/// Saves events behind the request that made them. Cheap to clone: clones are one persister.
///
/// [`crate::Engine::persist`] starts it; what is handed in before waits.
pub struct Persister<E> {
    core: Arc<Core>,
    of: PhantomData<fn(E)>,
}

impl<E> Clone for Persister<E> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), of: PhantomData }
    }
}

/// What the tasks of one persister share.
pub(crate) struct Core {
    options: PersistOptions,
    durability: Durability,
    intake: Intake,
    disk: Option<Disk>,
    saver: Saver,
    failed: Arc<FailedEvents>,
    pipeline: Arc<Pipeline>,
    ladder: Ladder,
    refusals: Refusals,
    tally: Tally,
    cache: Option<Arc<dyn Refresh>>,
}

/// A persister to be.
pub struct PersisterBuilder<E> {
    sink: Arc<dyn Sink>,
    failed: Arc<FailedEvents>,
    alerts: Arc<dyn AlertService>,
    cache: Option<Arc<dyn Refresh>>,
    journal: Option<Journal>,
    durability: Durability,
    of: PhantomData<fn(E)>,
}

impl<E: Persistent> PersisterBuilder<E> {
    /// With somebody who is told.
    #[must_use]
    pub fn alerting(mut self, alerts: Arc<dyn AlertService>) -> Self {
        self.alerts = alerts;
        self
    }

    /// With a cache that is refreshed by what was saved.
    #[must_use]
    pub fn caching(mut self, cache: Arc<dyn Cache<E>>) -> Self {
        self.cache = Some(Arc::new(Typed(cache)));
        self
    }

    /// With a journal: as the rung below the failed events, and if so wanted in front of everything.
    #[must_use]
    pub fn journaling(mut self, journal: Journal, durability: Durability) -> Self {
        self.journal = Some(journal);
        self.durability = durability;
        self
    }

    /// The persister.
    #[must_use]
    pub fn build(self, options: PersistOptions) -> Persister<E> {
        let name = self.failed.pipeline().to_owned();
        if let Some(journal) = &self.journal {
            findings::tell(&name, journal, &*self.alerts);
        }
        let policy = Policy::new(options.schedule.max_retry_count, options.backoff);
        let (work, letters) = (self.failed.clone(), self.failed.clone());
        let pipeline = Pipeline::new(&name, PipelineKind::Persist, work, letters, policy)
            .alerting(Arc::clone(&self.alerts));
        let core = Core {
            durability: self.durability,
            intake: Intake::new(options.queue, options.queue_bytes),
            disk: self.journal.map(Disk::new),
            saver: Saver { sink: self.sink, retries: options.retries, backoff: options.backoff },
            refusals: Refusals::new(&name, Arc::clone(&self.alerts)),
            ladder: Ladder::new(&name, self.alerts, pipeline.health.clone()),
            tally: Tally::new(&name, &options.metrics_prefix),
            pipeline: Arc::new(pipeline),
            failed: self.failed,
            cache: self.cache,
            options,
        };
        Persister { core: Arc::new(core), of: PhantomData }
    }
}

impl<E: Persistent> Persister<E> {
    /// A persister into this sink, whose failures go to these failed events; it has their name.
    ///
    /// As it is, it answers at once and tells nobody; without a journal, what neither the sink nor the
    /// failed events take is held in memory.
    #[must_use]
    pub fn builder(sink: Arc<dyn Sink>, failed: Arc<FailedEvents>) -> PersisterBuilder<E> {
        PersisterBuilder {
            sink,
            failed,
            alerts: Arc::new(Silence),
            cache: None,
            journal: None,
            durability: Durability::Memory,
            of: PhantomData,
        }
    }

    /// Accepts an event: from now on it is ours.
    ///
    /// # Errors
    /// [`NotAccepted`] when it cannot be kept, or when there is no room.
    pub async fn persist(&self, event: &E) -> Result<(), NotAccepted> {
        self.persist_all(std::slice::from_ref(event)).await
    }

    /// Accepts events, all or none.
    ///
    /// # Errors
    /// [`NotAccepted`] when one of them cannot be kept, or when there is no room.
    pub async fn persist_all(&self, events: &[E]) -> Result<(), NotAccepted> {
        let now = Timestamp::now();
        let record = |event: &E| Record { key: event.key(), payload: event.payload(), created_at: now };
        self.core.accept(events.iter().map(record).collect()).await
    }

    /// Accepts records, all or none, with the times that they bring along.
    ///
    /// # Errors
    /// [`NotAccepted`] when one of them cannot be kept, or when there is no room.
    pub async fn accept(&self, records: Vec<Record>) -> Result<(), NotAccepted> {
        self.core.accept(records).await
    }

    /// Its failed events, as a pipeline that is watched, listed and redriven.
    #[must_use]
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.core.pipeline
    }

    /// Where its events go at the moment.
    #[must_use]
    pub fn rung(&self) -> Rung {
        self.core.ladder.rung()
    }

    /// How many events were accepted and are neither saved nor set aside.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.core.waiting()
    }

    /// Waits until everything that was accepted is saved or set aside.
    pub async fn idle(&self) {
        self.core.intake.until(|| self.core.waiting() == 0).await;
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Core {
    async fn accept(&self, records: Vec<Record>) -> Result<(), NotAccepted> {
        for (item, record) in records.iter().enumerate() {
            record.check().map_err(|source| NotAccepted::Refused { item, source })?;
        }
        match (&self.disk, self.durability) {
            (Some(disk), Durability::Journal) if self.intake.is_open() => {
                // A caller that goes away meanwhile leaves nothing behind: the writer reads the journal.
                let appended = disk.append(&records).await;
                self.refusals.note(&appended);
                appended.map_err(NotAccepted::from)
            }
            (Some(_), Durability::Journal) => Err(NotAccepted::Stopping),
            _ => self.intake.offer(records),
        }
    }

    fn waiting(&self) -> u64 {
        self.intake.waiting() as u64 + self.disk.as_ref().map_or(0, Disk::waiting)
    }

    fn show_waiting(&self) {
        self.tally.in_memory.set(self.intake.waiting() as f64);
        self.tally.on_disk.set(self.disk.as_ref().map_or(0, Disk::held) as f64);
    }

    /// Saves what comes in until the stop, and then what is left.
    pub(crate) async fn write(self: Arc<Self>, stop: CancellationToken) {
        writer::Writer::new(self, stop).run().await;
    }

    /// Retries failed events by the schedule until the stop.
    pub(crate) async fn reprocess(self: Arc<Self>, worker: String, stop: CancellationToken) {
        reprocess::Reprocess::new(self, worker, stop).run().await;
    }

    /// Deletes old resolved events by the schedule until the stop.
    pub(crate) async fn clean_up(self: Arc<Self>, stop: CancellationToken) {
        cleanup::run(&self, stop).await;
    }

    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }
}
