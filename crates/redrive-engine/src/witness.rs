//! The witness: tells metrics and people what a worker did, once it is durable.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use metrics::{Counter, Histogram, counter, gauge, histogram};
use redrive_core::dead_letter::PipelineKind;
use redrive_core::event::{Event, WorkId};
use redrive_core::lease::{Failed, Lease, Settlement};
use redrive_core::trouble::Trouble;

use crate::alerts::{DeadLetterAlert, HandlerDown, HandlerUp, Inert, escape};
use crate::health::SetAside;
use crate::pipeline::Pipeline;
use crate::routes::{Route, Routes};
use crate::slots::Outcome;

/// More types than this are counted as `other`: a label must not grow without end, and each is a histogram.
/// Types that a handler is registered for always have their own.
const MAX_TYPES: usize = 50;
/// What people know the table of a pipeline by.
const TABLE: &str = "table";

/// What an alert says about an event; made before the event is gone.
#[derive(Debug)]
pub(crate) struct About {
    event_type: String,
    aggregate_type: String,
    key: String,
    retry_count: u32,
}

impl About {
    /// What is left of an event that nobody needs any more.
    pub(crate) fn of(event: Event, retry_count: u32) -> Self {
        let Event { event_type, aggregate_type, key, .. } = event;
        Self { event_type, aggregate_type, key, retry_count }
    }
}

pub(crate) struct Witness {
    pipeline: Arc<Pipeline>,
    types: HashMap<String, Series>,
    /// Settlements on their way to the store.
    pending: Vec<Pending>,
    /// Whether the store was down when last asked.
    down: bool,
}

/// A settlement on its way to the store.
struct Pending {
    work: WorkId,
    end: End,
    about: About,
    failed: Option<Failed>,
    /// Until when nobody else may have it.
    until: Timestamp,
    /// The store was told, and its answer was lost: it may have taken it.
    is_unsure: bool,
}

/// What was decided.
#[derive(Clone, Copy)]
enum End {
    Delivered,
    Retried,
    Dead,
    Released,
}

/// The series of one event type.
#[derive(Clone)]
struct Series {
    delivered: Counter,
    retried: Counter,
    dead: Counter,
    released: Counter,
    seconds: Histogram,
}

impl Witness {
    pub(crate) fn new(pipeline: Arc<Pipeline>) -> Self {
        let down = pipeline.health.get().is_err();
        pipeline.routes.iter().flat_map(Routes::iter).for_each(|route| show(&pipeline, route));
        Self { pipeline, types: HashMap::new(), pending: Vec::new(), down }
    }

    /// A handler has run.
    pub(crate) fn attempt(&mut self, outcome: &Outcome) {
        for event in &outcome.events {
            self.series(&event.event_type).seconds.record(outcome.took);
        }
    }

    /// Something was decided, and is not durable yet.
    pub(crate) fn judged(&mut self, lease: &Lease, settlement: &Settlement, about: About) {
        let (end, failed) = match settlement {
            Settlement::Done => (End::Delivered, None),
            Settlement::Retry { .. } => (End::Retried, None),
            Settlement::Dead { failed } => (End::Dead, Some(failed.clone())),
            Settlement::Suspect { .. } | Settlement::Release { .. } => (End::Released, None),
        };
        let (work, until) = (lease.work(), lease.until());
        self.pending.push(Pending { work, end, about, failed, until, is_unsure: false });
    }

    /// What was decided is durable, but for what was lost. A settlement of ours whose answer did not come is
    /// refused the second time: nobody else could have it yet, so the first one counts.
    pub(crate) fn settled(&mut self, lost: &[WorkId]) {
        if self.pipeline.health.settled(self.pending.iter().map(|pending| &pending.work)) {
            tracing::info!(pipeline = %self.pipeline.name, "the table takes every settlement again");
            self.pipeline.alerts.handler_up(HandlerUp {
                pipeline: Inert::new(&self.pipeline.name),
                handler: Inert::new(TABLE),
            });
        }
        let now = Timestamp::now();
        let mut dead = false;
        for pending in std::mem::take(&mut self.pending) {
            let was_taken = pending.is_unsure && now < pending.until;
            let Pending { work, end, about, failed, .. } = pending;
            if lost.contains(&work) && !was_taken {
                tracing::warn!(pipeline = %self.pipeline.name, %work, "lease lost: another worker took it over");
                continue;
            }
            let series = self.series(&about.event_type);
            let counter = match end {
                End::Delivered => &series.delivered,
                End::Retried => &series.retried,
                End::Dead => &series.dead,
                End::Released => &series.released,
            };
            counter.increment(1);
            if let Some(failed) = failed {
                self.bury(work, &about, &failed);
                dead = true;
            }
        }
        if dead {
            self.pipeline.watch.nudge();
        }
    }

    /// Claims have waited this long for an event of this process that was tried alone.
    pub(crate) fn claims_paused(&self, paused: Duration) {
        let labels = [("pipeline", self.pipeline.name.clone())];
        let millis = u64::try_from(paused.as_millis()).unwrap_or(u64::MAX);
        counter!("redrive_claims_paused_milliseconds_total", &labels).increment(millis);
    }

    /// What was decided about this work will never be durable.
    pub(crate) fn forget(&mut self, work: WorkId) {
        self.pending.retain(|pending| pending.work != work);
    }

    /// The store was told what was decided, and did not answer.
    pub(crate) fn unanswered(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.is_unsure = true);
    }

    /// The table refused a settlement; says when it is tried again.
    pub(crate) fn refused(&self, work: WorkId, error: &str) -> Duration {
        let pipeline = &self.pipeline;
        let SetAside { after, is_first } = pipeline.health.refused(work, error);
        tracing::error!(pipeline = %pipeline.name, %work, error, retry_in = ?after, "a settlement was refused: set aside");
        counter!("redrive_settlements_refused_total", "pipeline" => pipeline.name.clone()).increment(1);
        if is_first {
            pipeline.alerts.handler_down(HandlerDown {
                pipeline: Inert::new(&pipeline.name),
                handler: Inert::new(TABLE),
                error: Inert::new(&format!("it refuses how events ended, and they are set aside: {error}")),
            });
        }
        after
    }

    pub(crate) fn handler_down(&self, route: &Route, error: &str) {
        tracing::warn!(pipeline = %self.pipeline.name, handler = route.name(), error, "handler down: its events wait");
        show(&self.pipeline, route);
        self.pipeline.alerts.handler_down(HandlerDown {
            pipeline: Inert::new(&self.pipeline.name),
            handler: Inert::new(route.name()),
            error: Inert::new(error),
        });
    }

    pub(crate) fn handler_back(&self, route: &Route) {
        tracing::info!(pipeline = %self.pipeline.name, handler = route.name(), "handler back");
        show(&self.pipeline, route);
        self.pipeline.alerts.handler_up(HandlerUp {
            pipeline: Inert::new(&self.pipeline.name),
            handler: Inert::new(route.name()),
        });
    }

    pub(crate) fn store_down(&mut self, trouble: Trouble) {
        self.down = true;
        self.unanswered();
        self.pipeline.health.set(Err(trouble));
    }

    pub(crate) fn store_up(&mut self) {
        if std::mem::take(&mut self.down) {
            self.pipeline.health.set(Ok(()));
        }
    }

    /// Logged explicitly, with everything a person needs to find it.
    fn bury(&self, work: WorkId, about: &About, failed: &Failed) {
        let failure = &failed.failure;
        // As it is in the row: a job counts its attempts, an event of the outbox those after the first.
        let retry_count = match self.pipeline.kind {
            PipelineKind::Jobs => about.retry_count.saturating_add(1),
            _ => about.retry_count,
        };
        tracing::warn!(
            pipeline = %self.pipeline.name,
            event = %work,
            event_type = %escape(&about.event_type),
            subject = %escape(&about.key),
            retry_count,
            attempts = about.retry_count.saturating_add(1),
            class = %failure.class,
            error = %escape(&failure.to_string()),
            "dead letter"
        );
        self.pipeline.alerts.dead_letter(DeadLetterAlert {
            pipeline: Inert::new(&self.pipeline.name),
            event_id: Inert::new(&work.to_string()),
            event_type: Inert::new(&about.event_type),
            aggregate_type: Inert::new(&about.aggregate_type),
            aggregate_id: Inert::new(&about.key),
            retry_count,
            error: DeadLetterAlert::error_of(failure),
            failed_at: Timestamp::now(),
            fingerprint: failed.fingerprint,
        });
    }

    fn is_registered(&self, event_type: &str) -> bool {
        matches!(&self.pipeline.routes, Some(Routes::ByType(routes)) if routes.contains_key(event_type))
    }

    fn series(&mut self, event_type: &str) -> &Series {
        let known = self.types.contains_key(event_type) || self.is_registered(event_type);
        let label = if known || self.pipeline.labels.is_admitted(event_type) { event_type } else { "other" };
        if !self.types.contains_key(label) {
            self.types.insert(label.to_owned(), Series::new(&self.pipeline.name, label));
        }
        &self.types[label]
    }
}

/// Shows whether a handler is down, for those who watch numbers.
fn show(pipeline: &Pipeline, route: &Route) {
    let labels = [("pipeline", pipeline.name.clone()), ("handler", route.name().to_owned())];
    gauge!("redrive_handler_down", &labels).set(f64::from(u8::from(route.is_down())));
}

/// The types that nobody registered and that have labels of their own, in all workers of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Labels(Mutex<HashSet<String>>);

impl Labels {
    fn is_admitted(&self, event_type: &str) -> bool {
        let mut admitted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if admitted.contains(event_type) {
            return true;
        }
        admitted.len() < MAX_TYPES && admitted.insert(event_type.to_owned())
    }
}

impl Series {
    fn new(pipeline: &str, event_type: &str) -> Self {
        let events = |outcome: &'static str| {
            let labels = [
                ("pipeline", pipeline.to_owned()),
                ("type", event_type.to_owned()),
                ("outcome", outcome.to_owned()),
            ];
            counter!("redrive_events_total", &labels)
        };
        let labels = [("pipeline", pipeline.to_owned()), ("type", event_type.to_owned())];
        Self {
            delivered: events("delivered"),
            retried: events("retried"),
            dead: events("dead"),
            released: events("released"),
            seconds: histogram!("redrive_attempt_seconds", &labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_nobody_registered_have_fifty_labels_and_keep_them() {
        let labels = Labels::default();
        let admitted =
            |from: usize| (from..from + 600).filter(|n| labels.is_admitted(&n.to_string())).count();
        assert_eq!((admitted(0), admitted(0), admitted(600)), (MAX_TYPES, MAX_TYPES, 0));
    }
}
