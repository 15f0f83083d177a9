//! Counting what came in: `redrive_events_total{outcome="accepted"}`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, counter};

/// More types than this are counted as `other`: callers choose them, and a label must not grow without end.
const MAX_TYPES: usize = 200;

/// What one pipeline took in, by event type.
pub(crate) struct Accepted {
    pipeline: String,
    types: Mutex<HashMap<String, Counter>>,
}

impl Accepted {
    pub(crate) fn new(pipeline: &str) -> Self {
        Self { pipeline: pipeline.to_owned(), types: Mutex::default() }
    }

    /// Counts events by their types.
    pub(crate) fn count<'a>(&self, event_types: impl Iterator<Item = &'a str>) {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        for event_type in event_types {
            if let Some(counter) = types.get(event_type) {
                counter.increment(1);
                continue;
            }
            let label = if types.len() < MAX_TYPES { event_type } else { "other" };
            let counter = types.entry(label.to_owned()).or_insert_with(|| self.counter(label));
            counter.increment(1);
        }
    }

    fn counter(&self, event_type: &str) -> Counter {
        let labels = [
            ("pipeline", self.pipeline.clone()),
            ("type", event_type.to_owned()),
            ("outcome", "accepted".to_owned()),
        ];
        counter!("redrive_events_total", &labels)
    }
}
