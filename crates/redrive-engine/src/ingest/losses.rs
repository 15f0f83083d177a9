//! Losses: events that were accepted and are gone. People hear of the first at once, and then once a minute how
//! many events and files went meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, counter};
use tokio::time::Instant;

use crate::alerts::{AlertService, Dropped, Inert};

/// How long further losses are added up before people hear of them.
const ADDED_UP: Duration = Duration::from_secs(60);

/// Why events are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// Their file made room for others.
    Evicted,
    /// Their file was too old.
    Expired,
    /// Neither the store nor the disk took them.
    Dropped,
    /// Somebody deleted the folder of the spool.
    FolderGone,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Evicted, Self::Expired, Self::Dropped, Self::FolderGone];

    const fn name(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Expired => "expired",
            Self::Dropped => "dropped",
            Self::FolderGone => "folder-gone",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Evicted => "the store is away, the spool was full, and its oldest files made room",
            Self::Expired => "the store did not take them, and they were older than spool.max-age",
            Self::Dropped => "neither the store nor the disk took them",
            Self::FolderGone => "somebody deleted the folder of the spool",
        }
    }
}

/// What was lost for one reason, and is not reported yet.
#[derive(Debug, Default)]
struct Sum {
    files: u64,
    events: u64,
    /// The last of them, and what else is known of it.
    last: String,
}

/// The losses of one pipeline.
pub(super) struct Losses {
    pipeline: String,
    alerts: Arc<dyn AlertService>,
    counters: [Counter; 4],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sums: BTreeMap<Loss, Sum>,
    reported: Option<Instant>,
}

impl Losses {
    pub(super) fn new(pipeline: &str, alerts: Arc<dyn AlertService>) -> Self {
        let counter = |loss: Loss| -> Counter {
            counter!("redrive_events_lost_total", "pipeline" => pipeline.to_owned(), "reason" => loss.name())
        };
        // Shown from the start: an alert on a number that is not there yet never fires.
        let counters = Loss::ALL.map(counter);
        counters.iter().for_each(|counter| counter.increment(0));
        Self { pipeline: pipeline.to_owned(), alerts, counters, state: Mutex::default() }
    }

    /// A file or a batch is gone.
    pub(super) fn note(&self, loss: Loss, name: &str, events: u64, detail: &str) {
        tracing::error!(pipeline = %self.pipeline, file = name, events, reason = loss.name(), detail, "events are lost");
        let last = if detail.is_empty() { name.to_owned() } else { format!("{name}: {detail}") };
        self.note_many(loss, &last, events, 1);
    }

    /// So many files are gone.
    pub(super) fn note_many(&self, loss: Loss, last: &str, events: u64, files: u64) {
        self.counters[loss as usize].increment(events);
        let mut state = self.state();
        let sum = state.sums.entry(loss).or_default();
        sum.files += files;
        sum.events += events;
        last.clone_into(&mut sum.last);
    }

    /// Reports what was lost, unless people heard of some a moment ago.
    pub(super) fn report(&self) {
        let now = Instant::now();
        let is_due = |state: &State| state.reported.is_none_or(|reported| now >= reported + ADDED_UP);
        let mut state = self.state();
        if !state.sums.is_empty() && is_due(&state) {
            state.reported = Some(now);
            let sums = std::mem::take(&mut state.sums);
            drop(state);
            self.alert(sums);
        }
    }

    /// Reports what was lost, whenever people heard of some: the end has come.
    pub(super) fn report_all(&self) {
        let sums = std::mem::take(&mut self.state().sums);
        self.alert(sums);
    }

    fn alert(&self, sums: BTreeMap<Loss, Sum>) {
        for (loss, Sum { files, events, last }) in sums {
            let why = format!("{}; the last of them: {last}", loss.sentence());
            self.alerts.dropped(Dropped {
                pipeline: Inert::new(&self.pipeline),
                events,
                files,
                why: Inert::new(&why),
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{DeadLetterAlert, Level};

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u64, u64)>>);

    impl AlertService for Heard {
        fn dead_letter(&self, _: DeadLetterAlert) {}
        fn unresolved(&self, _: Level) {}
        fn dropped(&self, dropped: Dropped) {
            self.0.lock().unwrap().push((dropped.events, dropped.files));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_loss_is_reported_at_once_and_more_of_them_once_a_minute() {
        let heard = Arc::new(Heard::default());
        let losses = Losses::new("events", heard.clone());
        losses.report();
        for _ in 0..100 {
            losses.note(Loss::Evicted, "1_i_000001.jsonl.gz", 30, "");
            losses.report();
        }
        assert_eq!(*heard.0.lock().unwrap(), [(30, 1)]);
        tokio::time::advance(ADDED_UP).await;
        losses.note(Loss::Expired, "1_i_000002.jsonl.gz", 7, "");
        losses.report();
        assert_eq!(heard.0.lock().unwrap()[1..], [(2_970, 99), (7, 1)]);
        losses.note(Loss::Dropped, "1_i_000003.jsonl.gz", 1, "a full disk");
        losses.report();
        losses.report_all();
        assert_eq!(heard.0.lock().unwrap()[3..], [(1, 1)]);
    }
}
