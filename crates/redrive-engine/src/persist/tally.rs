//! The numbers of a persister: the founding ones under their prefix, and those that every pipeline has.

use metrics::{Counter, Gauge, Histogram, counter, describe_counter, gauge, histogram};

/// Counts what became of events.
pub(super) struct Tally {
    /// Batches of which every event was saved.
    pub(super) batches_saved: Counter,
    /// Batches of which some event was not.
    pub(super) batches_failed: Counter,
    /// Events that became failed events: alert on it.
    pub(super) dead_lettered: Counter,
    pub(super) delivered: Counter,
    pub(super) dead: Counter,
    pub(super) recovered: Counter,
    pub(super) retried: Counter,
    pub(super) dropped: Counter,
    pub(super) seconds: Histogram,
    pub(super) purged: Counter,
    pub(super) in_memory: Gauge,
    pub(super) on_disk: Gauge,
}

impl Tally {
    pub(super) fn new(pipeline: &str, prefix: &str) -> Self {
        let founding =
            |name: &str| counter!(format!("{prefix}_{name}_total"), "pipeline" => pipeline.to_owned());
        let events = |outcome: &str| {
            let labels = [("pipeline", pipeline), ("type", pipeline), ("outcome", outcome)];
            counter!("redrive_events_total", &labels.map(|(name, value)| (name, value.to_owned())))
        };
        let labels = [("pipeline", pipeline.to_owned()), ("type", pipeline.to_owned())];
        let waiting = |place: &'static str| gauge!("redrive_waiting_events", "pipeline" => pipeline.to_owned(), "place" => place);
        describe(prefix);
        let tally = Self {
            batches_saved: founding("success"),
            batches_failed: founding("failure"),
            dead_lettered: founding("dlq"),
            delivered: events("delivered"),
            dead: events("dead"),
            recovered: events("recovered"),
            retried: events("retried"),
            dropped: events("dropped"),
            seconds: histogram!("redrive_attempt_seconds", &labels),
            purged: counter!("redrive_purged_total", "pipeline" => pipeline.to_owned()),
            in_memory: waiting("memory"),
            on_disk: waiting("disk"),
        };
        // Shown from the start: an alert on a number that is not there yet never fires.
        for counter in [&tally.batches_saved, &tally.batches_failed, &tally.dead_lettered] {
            counter.increment(0);
        }
        tally
    }
}

fn describe(prefix: &str) {
    for (name, help) in [
        ("success", "Batches of which every event was saved."),
        ("failure", "Batches of which some event was not saved."),
        ("dlq", "Events that became failed events."),
    ] {
        describe_counter!(format!("{prefix}_{name}_total"), help);
    }
}
