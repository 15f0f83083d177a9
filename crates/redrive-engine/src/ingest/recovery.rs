//! Recovery: what waits in the spool goes to the store, the oldest file first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_spool::spool::{Culprit, Outcome};

use super::Ingest;
use super::books::Fate;
use super::notice::Notice;
use super::outage::Turn;

impl Ingest {
    /// So many files, while nothing else happens. Whether one went.
    pub(super) async fn recover(self: Arc<Self>, mut turn: Turn, files: u32) -> bool {
        for _ in 0..files {
            let step = self.spool.process_one(&self.target, Timestamp::now()).await;
            self.expired(&step.expired);
            if matches!(step.outcome, Outcome::Empty) && turn.is_probe() {
                self.probe(&turn).await;
                return false;
            }
            let goes_on = self.recovered(step.outcome, &turn);
            turn = Turn::default();
            if !goes_on {
                return false;
            }
            if self.backlog.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        true
    }

    /// Nothing waits on disk that could ask a store that is down: nobody would learn that it is back.
    async fn probe(&self, turn: &Turn) {
        match self.target.probe().await {
            Ok(()) => self.store_answered(),
            Err(failure) => self.store_failed(turn, &failure),
        }
    }

    /// Reports what became of a file; whether to go on.
    pub(super) fn recovered(&self, outcome: Outcome, turn: &Turn) -> bool {
        match outcome {
            Outcome::Gone { .. } => self.store_answered(),
            // Nobody asked the store, or not with all of a file.
            Outcome::Unfinished { .. } => {}
            Outcome::Empty => return false,
            Outcome::Uploaded { file, events } => {
                self.tally.reuploaded.increment(events);
                self.tally.stored.increment(events);
                if self.books.left_disk(Fate::Delivered, events, &file) {
                    self.tally.delivered.increment(events);
                }
                tracing::debug!(pipeline = %self.name, file, events, "a file was uploaded");
                self.store_answered();
            }
            Outcome::Quarantined { file, reason, rescued, held } => {
                self.tally.reuploaded.increment(rescued);
                self.tally.stored.increment(rescued);
                self.tally.damaged.increment(1);
                // The whole file is in the store, set aside: none of its events is lost.
                if self.books.left_disk(Fate::Delivered, held, &file) {
                    self.tally.delivered.increment(rescued);
                }
                let failure =
                    Failure::malformed("DamagedFile", format!("{reason}; {rescued} events were rescued"));
                self.notify(Notice::Damaged, &file, rescued, &failure);
                self.store_answered();
            }
            Outcome::Kept { file, failure, culprit } => {
                self.kept(&file, &failure, culprit, turn);
                return false;
            }
            Outcome::Unreadable { file, error } => {
                self.notify(Notice::Unreadable, &file, 0, &Failure::transient("Disk", error.to_string()));
            }
        }
        true
    }

    /// A file that fails alone is told; several that do are an outage. What may be either says something
    /// about a store only that is known to be down.
    fn kept(&self, file: &str, failure: &Failure, culprit: Culprit, turn: &Turn) {
        self.tally.put_errors.increment(1);
        match culprit {
            Culprit::File => self.refused(file, 0, failure),
            Culprit::Unclear if !self.outage.is_down() => {
                tracing::debug!(pipeline = %self.name, file, error = %failure, "a file was not taken: another one is tried");
            }
            Culprit::Unclear | Culprit::Store => self.store_failed(turn, failure),
        }
    }
}
