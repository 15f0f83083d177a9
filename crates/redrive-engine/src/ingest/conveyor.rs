//! The conveyor: forms batches, starts their delivery, and takes files from the spool when idle.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_spool::spool::{Culprit, Lost, Outcome};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::books::Fate;
use super::delivery::{Formed, Notice};
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
    recovery: JoinSet<()>,
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
                Some(_) = self.uploads.join_next() => {}
                Some(_) = self.recovery.join_next() => {}
                () = due(self.due), if has_room => self.cut(),
                Some(arrival) = self.arrivals.recv(), if has_room => self.take(arrival),
                _ = tick.tick() => self.rest(),
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
    }

    /// Nothing else to do: the gauges, and the oldest file, if nothing is being uploaded.
    fn rest(&mut self) {
        self.ingest.show_levels();
        if self.uploads.is_empty() && self.recovery.is_empty() && self.ingest.outage.take_turn() {
            let ingest = Arc::clone(&self.ingest);
            self.recovery.spawn(async move { ingest.recover().await });
        }
    }

    /// What is in memory goes to the store, or to disk when that takes too long.
    async fn finish(mut self) {
        self.ingest.stop.cancel();
        self.arrivals.close();
        while let Some(arrival) = self.arrivals.recv().await {
            self.take(arrival);
        }
        self.cut();
        let uploads = &mut self.uploads;
        let ending = async { while uploads.join_next().await.is_some() {} };
        if tokio::time::timeout(self.ingest.options.grace, ending).await.is_err() {
            tracing::warn!(pipeline = %self.ingest.name, "uploads were still under way at the stop: what is in the journal is uploaded at the next start");
        }
        self.recovery.shutdown().await;
        self.ingest.show_levels();
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Ingest {
    /// One look at the spool: a file, or as many as the settings say, while nothing else happens.
    async fn recover(self: Arc<Self>) {
        for _ in 0..self.options.recovery_files {
            let step = self.spool.process_one(&self.target, Timestamp::now()).await;
            self.expired(&step.expired);
            if !self.recovered(step.outcome) || self.backlog.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                return;
            }
        }
    }

    /// Tells what became of a file; whether to go on.
    pub(super) fn recovered(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Gone { .. } => self.store_answered(),
            // Nobody asked the store, or not with all of a file.
            Outcome::Unfinished { .. } => self.outage.give_turn_back(),
            Outcome::Empty => {
                self.outage.give_turn_back();
                return false;
            }
            Outcome::Uploaded { file, events } => {
                self.tally.reuploaded.increment(events);
                self.tally.stored.increment(events);
                self.tally.delivered.increment(events);
                self.books.left_disk(Fate::Delivered, events, self.is_ours(&file));
                tracing::debug!(pipeline = %self.name, file, events, "a file was uploaded");
                self.store_answered();
            }
            Outcome::Quarantined { file, reason, rescued, held } => {
                self.tally.reuploaded.increment(rescued);
                self.tally.stored.increment(rescued);
                self.tally.damaged.increment(1);
                // The whole file is in the store, set aside: none of its events is lost.
                self.books.left_disk(Fate::Delivered, held, self.is_ours(&file));
                let failure =
                    Failure::malformed("DamagedFile", format!("{reason}; {rescued} events were rescued"));
                self.notify(Notice::Damaged, &file, rescued, &failure);
                self.store_answered();
            }
            Outcome::Kept { file, failure, culprit } => {
                self.kept(&file, &failure, culprit);
                return false;
            }
            Outcome::Unreadable { file, error } => {
                self.outage.give_turn_back();
                self.notify(Notice::Unreadable, &file, 0, &Failure::transient("Disk", error.to_string()));
            }
        }
        true
    }

    /// A file that fails alone is told; several that do are an outage. What may be either says something
    /// about a store only that is known to be down.
    fn kept(&self, file: &str, failure: &Failure, culprit: Culprit) {
        self.tally.put_errors.increment(1);
        match culprit {
            Culprit::File => self.refused(file, 0, failure),
            Culprit::Unclear if !self.outage.is_down() => {
                tracing::debug!(pipeline = %self.name, file, error = %failure, "a file was not taken: another one is tried");
            }
            Culprit::Unclear | Culprit::Store => self.store_failed(failure),
        }
    }

    pub(super) fn expired(&self, lost: &[Lost]) {
        for lost in lost {
            self.tally.expired.increment(1);
            self.books.left_disk(Fate::Expired, lost.events, self.is_ours(&lost.file));
            let failure = Failure::permanent("Expired", "the file was older than max-age and is deleted");
            self.notify(Notice::Expired, &lost.file, lost.events, &failure);
        }
    }

    fn show_levels(&self) {
        let backlog = self.backlog.load(std::sync::atomic::Ordering::Relaxed);
        self.tally.levels(self.spool.stats(), backlog);
    }
}
