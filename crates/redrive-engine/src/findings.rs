//! Findings: what opening a journal brought to light is logged and counted; damage is told, too.
//!
//! A journal opens whatever is in its folder. So this is the only place where people learn that something
//! that was answered for is gone.

use metrics::{Counter, counter, describe_counter};
use redrive_spool::Journal;
use redrive_spool::journal::Damage;

use crate::alerts::{AlertService, Dropped, Inert};

/// Tells what was found when this journal was opened.
pub fn tell(pipeline: &str, journal: &Journal, alerts: &dyn AlertService) {
    describe_counter!(
        "redrive_journal_damaged_total",
        "What was not as it should be when a journal was opened: damaged or missing (events may be lost), \
         unfinished (a write that a crash interrupted)."
    );
    let found = |kind: &'static str| -> Counter {
        counter!("redrive_journal_damaged_total", "pipeline" => pipeline.to_owned(), "kind" => kind)
    };
    // Shown from the start: an alert on a number that is not there yet never fires.
    for kind in ["damaged", "missing"] {
        found(kind).increment(0);
    }
    let dir = journal.dir().display();
    for damaged in &journal.recovery().damaged {
        found(name(damaged.kind)).increment(1);
        if !damaged.is_damage() {
            tracing::warn!(pipeline, %dir, found = %damaged, "a write to the journal was interrupted: what is whole of it counts");
            continue;
        }
        tracing::error!(pipeline, %dir, found = %damaged, "the journal is damaged: events may be lost");
        let why = format!("the journal {dir} is damaged: {damaged}");
        alerts.dropped(Dropped {
            pipeline: Inert::new(pipeline),
            events: damaged.records(),
            files: 0,
            why: Inert::new(&why),
        });
    }
}

const fn name(kind: Damage) -> &'static str {
    match kind {
        Damage::Unfinished => "unfinished",
        Damage::Damaged => "damaged",
        Damage::Missing(_) => "missing",
    }
}
