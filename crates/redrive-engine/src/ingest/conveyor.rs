//! The conveyor: forms batches, starts their delivery, and takes files from the spool: one after another while
//! nothing is uploaded, and their share under load.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::delivery::Formed;
use super::share::Urgency;
use super::{Arrival, Ingest, Item};

/// The one task that moves events.
pub(super) struct Conveyor {
    ingest: Arc<Ingest>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    forming: Vec<Item>,
    events: u64,
    bytes: usize,
    /// When the batch is due, however small.
    due: Option<Instant>,
    uploads: JoinSet<()>,
    /// Ends with whether a file went.
    recovery: JoinSet<bool>,
    /// Live batches since the last file had its turn.
    since_file: u32,
}

impl Conveyor {
    pub(super) fn new(ingest: Arc<Ingest>, arrivals: mpsc::UnboundedReceiver<Arrival>) -> Self {
        Self {
            ingest,
            arrivals,
            forming: Vec::new(),
            events: 0,
            bytes: 0,
            due: None,
            uploads: JoinSet::new(),
            recovery: JoinSet::new(),
            since_file: 0,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut tick = interval(self.ingest.options.recovery_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            let has_room = self.uploads.len() < self.ingest.options.uploads;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(ended) = self.uploads.join_next() => { self.ingest.note_end(ended); }
                Some(ended) = self.recovery.join_next() => self.go_on(ended),
                // Before the arrivals: under load there always is one.
                _ = tick.tick() => self.look(),
                () = due(self.due), if has_room => self.cut(),
                Some(arrival) = self.arrivals.recv(), if has_room => self.take(arrival),
            }
        }
        self.finish().await;
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Again(formed) => self.deliver(formed),
            Arrival::Item(item) => {
                self.due.get_or_insert_with(|| Instant::now() + self.ingest.options.max_delay);
                self.events += item.events;
                self.bytes += item.lines.len();
                self.forming.push(item);
                let options = &self.ingest.options;
                if self.events >= options.max_events || self.bytes >= options.max_bytes {
                    self.cut();
                }
            }
        }
    }

    fn cut(&mut self) {
        self.due = None;
        self.events = 0;
        self.bytes = 0;
        let items = std::mem::take(&mut self.forming);
        if !items.is_empty() {
            self.deliver(Formed::of(items));
        }
    }

    fn deliver(&mut self, formed: Formed) {
        let ingest = Arc::clone(&self.ingest);
        self.uploads.spawn(async move { ingest.deliver(formed).await });
        self.since_file = self.since_file.saturating_add(1);
        if self.ingest.is_turn_of_a_file(self.since_file) {
            self.recover(1);
        }
    }

    /// Now and then: the gauges, and the oldest file if nothing is being uploaded. While the store is down, a file
    /// may ask whether it is back, whatever else goes on: live batches do not wait for it.
    fn look(&mut self) {
        self.ingest.show_levels();
        if self.uploads.is_empty() {
            self.recover(self.ingest.options.recovery_files);
        } else if self.ingest.outage.is_down() || self.ingest.is_turn_of_a_file(self.since_file) {
            self.recover(1);
        }
    }

    /// A file went. While they are urgent, the next one does not wait for anything.
    fn go_on(&mut self, ended: Result<bool, JoinError>) {
        let is_gone = self.ingest.note_end(ended).unwrap_or(false);
        if is_gone && self.ingest.is_turn_of_a_file(0) {
            self.recover(1);
        }
    }

    /// The next files of the spool, unless some are on their way, or the store is down and it is not time to ask.
    fn recover(&mut self, files: u32) {
        if !self.recovery.is_empty() {
            return;
        }
        let Some(turn) = self.ingest.outage.take_turn() else { return };
        self.since_file = 0;
        let ingest = Arc::clone(&self.ingest);
        self.recovery.spawn(async move { ingest.recover(turn, files).await });
    }

    /// What is in memory goes to the store, or to disk when that takes too long.
    async fn finish(mut self) {
        self.ingest.stop.cancel();
        self.arrivals.close();
        while let Some(arrival) = self.arrivals.recv().await {
            self.take(arrival);
        }
        self.cut();
        if tokio::time::timeout(self.ingest.options.grace, self.see_off()).await.is_err() {
            self.uploads.shutdown().await;
            self.ingest.leave_behind();
        }
        self.recovery.shutdown().await;
        self.ingest.show_levels();
        self.ingest.losses.report_all();
    }

    /// Waits for the uploads that are under way.
    async fn see_off(&mut self) {
        while let Some(ended) = self.uploads.join_next().await {
            self.ingest.note_end(ended);
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Ingest {
    /// A defect ends one upload, and no other. What it had is in the journal, for the next start, or lost.
    fn note_end<T>(&self, ended: Result<T, JoinError>) -> Option<T> {
        ended
            .inspect_err(|error| tracing::error!(pipeline = %self.name, %error, "a defect ended an upload"))
            .ok()
    }

    /// Whether a file goes now, beside so many live batches since the last one.
    fn is_turn_of_a_file(&self, live_batches: u32) -> bool {
        let oldest = self.spool.stats().oldest;
        let urgency = Urgency {
            oldest: oldest.map(|oldest| Timestamp::now().duration_since(oldest).unsigned_abs()),
            max_age: self.options.spool_options.max_age,
            is_short_of_room: self.spool.is_short_of_room(),
        };
        !self.outage.is_down()
            && urgency.oldest.is_some()
            && live_batches >= urgency.batches_before_next(self.options.recovery_share)
    }

    /// The stop could not wait any longer for those that neither the store nor the disk has taken.
    fn leave_behind(&self) {
        let events = self.backlog.swap(0, Ordering::Relaxed);
        if self.journal.is_some() {
            tracing::warn!(pipeline = %self.name, events, "uploads were still under way at the stop: their events are in the journal, and uploaded at the next start");
            return;
        }
        self.drop_batch(
            "what was in memory",
            events,
            "the pipeline stopped before the store or the disk took it",
        );
    }

    fn show_levels(&self) {
        self.intake.look();
        self.report_findings();
        self.losses.report();
        let backlog = self.backlog.load(Ordering::Relaxed);
        self.tally.levels(self.spool.stats(), backlog);
    }
}
