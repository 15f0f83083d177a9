//! A notice: what people are told about a file or a batch. Alike ones are one group, whatever their numbers.

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_core::fingerprint::Fingerprint;
use redrive_spool::spool::{Finding, Lost};

use super::Ingest;
use super::books::Fate;
use super::losses::Loss;
use crate::alerts::{DeadLetterAlert, Inert};

/// What people are told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notice {
    Damaged,
    Unreadable,
    Refused,
    NoFile,
}

impl Notice {
    const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "file damaged",
            Self::Unreadable => "file unreadable",
            Self::Refused => "file refused",
            Self::NoFile => "no file",
        }
    }
}

impl Ingest {
    /// Files had to make room.
    pub(super) fn evicted(&self, lost: &[Lost]) {
        self.deleted(lost, Loss::Evicted);
    }

    /// Files were too old.
    pub(super) fn expired(&self, lost: &[Lost]) {
        self.deleted(lost, Loss::Expired);
    }

    /// Reports what was found in the folder of the spool.
    pub(super) fn report_findings(&self) {
        for finding in self.spool.findings() {
            match finding {
                Finding::NoFile { name, what } => {
                    let message = format!("it is {what}, and is left alone: take it out of the folder");
                    self.notify(Notice::NoFile, &name, 0, &Failure::permanent("NoFile", message));
                }
                Finding::FolderGone { files } => self.folder_gone(files),
            }
        }
    }

    /// Somebody has deleted the folder of the spool.
    fn folder_gone(&self, files: u64) {
        let events = self.books.folder_gone();
        let dir = self.spool.dir().display().to_string();
        tracing::error!(pipeline = %self.name, dir, files, "the folder of the spool was deleted: it is made again, without its files");
        self.losses.note_many(Loss::FolderGone, &dir, events, files);
        self.losses.report();
    }

    fn deleted(&self, lost: &[Lost], loss: Loss) {
        for Lost { file, events } in lost {
            self.tally.expired.increment(1);
            self.books.left_disk(Fate::Expired, *events, file);
            self.losses.note(loss, file, *events, "");
        }
        if !lost.is_empty() {
            self.losses.report();
        }
    }

    pub(super) fn notify(&self, notice: Notice, file: &str, events: u64, failure: &Failure) {
        let what = notice.name();
        tracing::warn!(pipeline = %self.name, file, events, error = %failure, "{what}");
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
