//! Recovery: what waits in the spool goes to the store, the oldest file first, while nothing is being uploaded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_spool::spool::{Culprit, Outcome};

use super::Ingest;
use super::books::Fate;
use super::notice::Notice;

impl Ingest {
    /// One look at the spool: a file, or as many as the settings say, while nothing else happens.
    pub(super) async fn recover(self: Arc<Self>) {
        for _ in 0..self.options.recovery_files {
            let step = self.spool.process_one(&self.target, Timestamp::now()).await;
            self.expired(&step.expired);
            if !self.recovered(step.outcome) || self.backlog.load(Ordering::Relaxed) > 0 {
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
                self.books.left_disk(Fate::Delivered, events, self.author(&file));
                tracing::debug!(pipeline = %self.name, file, events, "a file was uploaded");
                self.store_answered();
            }
            Outcome::Quarantined { file, reason, rescued, held } => {
                self.tally.reuploaded.increment(rescued);
                self.tally.stored.increment(rescued);
                self.tally.delivered.increment(rescued);
                self.tally.damaged.increment(1);
                // The whole file is in the store, set aside: none of its events is lost.
                self.books.left_disk(Fate::Delivered, held, self.author(&file));
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
}
