//! A notice: what people are told about a file or a batch. Alike ones are one group, whatever their numbers.

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_core::fingerprint::Fingerprint;
use redrive_spool::spool::Lost;

use super::Ingest;
use super::books::Fate;
use crate::alerts::{DeadLetterAlert, Inert};

/// What people are told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notice {
    Damaged,
    Unreadable,
    Evicted,
    Expired,
    Dropped,
    Refused,
}

impl Notice {
    const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "file damaged",
            Self::Unreadable => "file unreadable",
            Self::Evicted => "file evicted",
            Self::Expired => "file expired",
            Self::Dropped => "batch dropped",
            Self::Refused => "file refused",
        }
    }
}

impl Ingest {
    /// Files had to make room.
    pub(super) fn evicted(&self, lost: &[Lost]) {
        self.deleted(lost, Notice::Evicted, "the spool was full and its oldest file is deleted");
    }

    /// Files were too old.
    pub(super) fn expired(&self, lost: &[Lost]) {
        self.deleted(lost, Notice::Expired, "the file was older than max-age and is deleted");
    }

    fn deleted(&self, lost: &[Lost], notice: Notice, why: &str) {
        for Lost { file, events } in lost {
            self.tally.expired.increment(1);
            self.books.left_disk(Fate::Expired, *events, self.author(file));
            let failure = Failure::permanent("Deleted", format!("{why}, with {events} events"));
            self.notify(notice, file, *events, &failure);
        }
    }

    pub(super) fn notify(&self, notice: Notice, file: &str, events: u64, failure: &Failure) {
        let what = notice.name();
        match notice {
            Notice::Dropped => {
                tracing::error!(pipeline = %self.name, file, events, error = %failure, "{what}");
            }
            _ => tracing::warn!(pipeline = %self.name, file, events, error = %failure, "{what}"),
        }
        self.alerts.dead_letter(DeadLetterAlert {
            pipeline: Inert::new(&self.name),
            event_id: Inert::new(file),
            event_type: Inert::new(what),
            aggregate_type: Inert::new(""),
            aggregate_id: Inert::new(file),
            retry_count: 0,
            error: DeadLetterAlert::error_of(failure),
            failed_at: Timestamp::now(),
            fingerprint: Fingerprint::of(&self.name, what, failure),
        });
    }
}
