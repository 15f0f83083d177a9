//! The burial: events become failed events, and people are told.

use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::failure::Failure;
use redrive_core::fingerprint::Fingerprint;
use redrive_store::{FailedEvent, Record};
use tokio::time::timeout;

use super::Core;
use super::sink::GIVE_UP;
use crate::alerts::{DeadLetterAlert, Inert};

/// More than this at once is one line in the log: an outage sets aside whole batches.
const LOGGED: usize = 20;

impl Core {
    /// Makes failed events of these records, all or none.
    ///
    /// After a lost answer they may be there twice: one of each pair then finds its row saved.
    pub(super) async fn bury(&self, letters: &[(&Record, &Failure)]) -> Result<(), String> {
        let now = Timestamp::now();
        let event = |(record, failure): &(&Record, &Failure)| {
            FailedEvent::new(&record.key, &record.payload, record.created_at, now, (*failure).clone())
        };
        let events: Vec<_> = letters.iter().map(event).collect();
        let ids = match timeout(GIVE_UP, self.failed.append(&events)).await {
            Ok(Ok(ids)) => ids,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("the failed events were not taken within {GIVE_UP:?}")),
        };
        self.tally.dead_lettered.increment(ids.len() as u64);
        self.tally.dead.increment(ids.len() as u64);
        if let (Some((_, first)), true) = (letters.first(), letters.len() > LOGGED) {
            let (name, count) = (&self.pipeline.name, letters.len());
            tracing::warn!(pipeline = %name, count, class = %first.class, first = %first, "dead letters");
        }
        for (id, (record, failure)) in ids.iter().zip(letters) {
            if letters.len() <= LOGGED {
                self.log(*id, &record.key, 0, failure);
            }
            self.alert(*id, &record.key, 0, failure);
        }
        self.pipeline.watch.nudge();
        Ok(())
    }

    /// With everything a person needs to find it.
    pub(super) fn log(&self, id: WorkId, key: &str, retry_count: u32, failure: &Failure) {
        let name = &self.pipeline.name;
        tracing::warn!(
            pipeline = %name, event = %id, key, retry_count, class = %failure.class, error = %failure, "dead letter"
        );
    }

    /// Tells people about a failed event.
    pub(super) fn alert(&self, id: WorkId, key: &str, retry_count: u32, failure: &Failure) {
        let name = &self.pipeline.name;
        self.pipeline.alerts.dead_letter(DeadLetterAlert {
            pipeline: Inert::new(name),
            event_id: Inert::new(&id.to_string()),
            event_type: Inert::new(name),
            aggregate_type: Inert::new(""),
            aggregate_id: Inert::new(key),
            retry_count,
            error: DeadLetterAlert::error_of(failure),
            failed_at: Timestamp::now(),
            fingerprint: Fingerprint::of(name, name, failure),
        });
    }
}
