//! The burial: events become failed events, and people are told.

use jiff::Timestamp;
use redrive_core::bisect::{Attempt, Search};
use redrive_core::classify::blame::blames_record;
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
    /// Makes failed events of these records. Returns those that the failed events cannot hold, by index:
    /// they are looked for as poison is, so that one of them keeps no other above ground.
    ///
    /// After a lost answer, or an outage in between, some may be there twice: one of each pair then finds
    /// its row saved.
    ///
    /// # Errors
    /// What the failed events said, when it is the fault of no record.
    pub(super) async fn bury(&self, letters: &[(&Record, &Failure)]) -> Result<Vec<usize>, String> {
        let now = Timestamp::now();
        let event = |(record, failure): &(&Record, &Failure)| {
            FailedEvent::new(&record.key, &record.payload, record.created_at, now, (*failure).clone())
        };
        let events: Vec<_> = letters.iter().map(event).collect();
        let mut search = Search::over(events.len());
        while let Some(range) = search.next_slice() {
            let attempt = match self.append(&events[range.clone()]).await {
                Ok(ids) => {
                    self.buried(&letters[range], &ids);
                    Attempt::Stored
                }
                Err(failure) if is_of_a_record(&failure) => Attempt::Failed(failure),
                Err(failure) => return Err(failure.to_string()),
            };
            search.settle(attempt).map_err(|cause| cause.to_string())?;
        }
        let refused = search.into_report().into_poison();
        for (at, why) in &refused {
            let (record, failure) = letters[*at];
            self.unburied(record, failure, why);
        }
        Ok(refused.into_iter().map(|(at, _)| at).collect())
    }

    async fn append(&self, events: &[FailedEvent]) -> Result<Vec<WorkId>, Failure> {
        match timeout(GIVE_UP, self.failed.append(events)).await {
            Ok(appended) => appended.map_err(|error| error.failure()),
            Err(_) => {
                let why = format!("the failed events were not taken within {GIVE_UP:?}");
                Err(Failure::transient("Timeout", why))
            }
        }
    }

    fn buried(&self, letters: &[(&Record, &Failure)], ids: &[WorkId]) {
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
    }

    /// Neither the target nor the failed events can hold it: a person has to make room for it in a table.
    fn unburied(&self, record: &Record, failure: &Failure, why: &Failure) {
        let (name, key) = (&self.pipeline.name, &record.key);
        let place = match &self.disk {
            Some(disk) => {
                format!("it stays in the journal {} and is tried again later", disk.dir().display())
            }
            None => "there is no journal to keep it: it is dropped".to_owned(),
        };
        let message = format!(
            "the table of failed events cannot hold it ({why}), and the target did not take it ({failure}): \
             {place}; change one of the tables so that it can hold it"
        );
        tracing::error!(pipeline = %name, key, error = %message, "an event cannot become a dead letter");
        if self.disk.is_some() {
            self.pipeline.health.unplaced(Some(message.clone()));
        }
        let failure = Failure { message, ..why.clone() };
        self.tell(Inert::new(key), key, 0, &failure);
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
        self.tell(Inert::new(&id.to_string()), key, retry_count, failure);
    }

    fn tell(&self, event_id: Inert, key: &str, retry_count: u32, failure: &Failure) {
        let name = &self.pipeline.name;
        self.pipeline.alerts.dead_letter(DeadLetterAlert {
            pipeline: Inert::new(name),
            event_id,
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

/// Whether a table refused a record for what is in it. A missing table or a lost right is not its fault.
fn is_of_a_record(failure: &Failure) -> bool {
    !failure.class.is_retryable() && failure.code.as_ref().is_none_or(blames_record)
}
