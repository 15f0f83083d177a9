//! The numbers of each pipeline, taken where they are counted: a recorder in front of another one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// The numbers of each pipeline. Clones are the same numbers.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<RwLock<HashMap<Key, Number>>>);

/// One counter or gauge.
struct Number {
    pipeline: String,
    measure: Measure,
    /// A gauge has the bits of its number.
    value: Arc<AtomicU64>,
}

/// What a counter or gauge says about its pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Delivered,
    Failed,
    Dead,
    Backlog,
    BacklogAt,
    Waiting,
    Oldest,
    Level,
}

/// The counters and gauges of one pipeline at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Levels {
    pub(crate) delivered: u64,
    pub(crate) failed: u64,
    pub(crate) dead: u64,
    pub(crate) backlog: Option<f64>,
    /// When the backlog was counted, in seconds since 1970; none where it is known at any time.
    pub(crate) backlog_at: Option<f64>,
    pub(crate) waiting: f64,
    pub(crate) oldest: f64,
    pub(crate) rung: Option<f64>,
}

impl Counts {
    /// The numbers of every pipeline now.
    pub(crate) fn levels(&self) -> HashMap<String, Levels> {
        let mut found: HashMap<String, Levels> = HashMap::new();
        for number in self.0.read().unwrap_or_else(PoisonError::into_inner).values() {
            if !found.contains_key(&number.pipeline) {
                found.insert(number.pipeline.clone(), Levels::default());
            }
            if let Some(levels) = found.get_mut(&number.pipeline) {
                levels.add(number.measure, number.value.load(Ordering::Relaxed));
            }
        }
        found
    }

    /// Where this counter or gauge is kept; nothing if it says nothing about a pipeline.
    fn value_of(&self, key: &Key) -> Option<Arc<AtomicU64>> {
        let measure = Measure::of(key)?;
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Some(Arc::clone(&known.value));
        }
        let pipeline = label(key, "pipeline")?.to_owned();
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number =
            numbers.entry(key.clone()).or_insert_with(|| Number { pipeline, measure, value: Arc::default() });
        Some(Arc::clone(&number.value))
    }
}

impl Levels {
    fn add(&mut self, measure: Measure, value: u64) {
        let number = f64::from_bits(value);
        match measure {
            Measure::Delivered => self.delivered += value,
            Measure::Failed => self.failed += value,
            Measure::Dead => self.dead += value,
            Measure::Backlog => *self.backlog.get_or_insert(0.0) += number,
            Measure::BacklogAt => self.backlog_at = Some(number),
            Measure::Waiting => self.waiting += number,
            Measure::Oldest => self.oldest = number,
            Measure::Level => self.rung = Some(number),
        }
    }
}

impl Measure {
    fn of(key: &Key) -> Option<Self> {
        Some(match key.name() {
            "redrive_events_total" => match label(key, "outcome")? {
                "delivered" | "recovered" => Self::Delivered,
                "retried" => Self::Failed,
                "dead" => Self::Dead,
                _ => return None,
            },
            "redrive_dead_letters" => match label(key, "status")? {
                "open" | "failed" => Self::Waiting,
                _ => return None,
            },
            "redrive_backlog" | "redrive_kafka_lag" | "redrive_waiting_events" => Self::Backlog,
            "redrive_backlog_counted_timestamp_seconds" => Self::BacklogAt,
            "redrive_oldest_dead_letter_seconds" => Self::Oldest,
            "redrive_ladder_rung" => Self::Level,
            _ => return None,
        })
    }
}

fn label<'a>(key: &'a Key, wanted: &str) -> Option<&'a str> {
    key.labels().find(|label| label.key() == wanted).map(metrics::Label::value)
}

/// A recorder that counts for [`Counts`] what it passes on.
pub(crate) struct Counting<R> {
    next: R,
    counts: Counts,
}

impl<R> Counting<R> {
    pub(crate) const fn new(next: R, counts: Counts) -> Self {
        Self { next, counts }
    }
}

/// A counter or gauge in two places.
struct Both<N> {
    next: N,
    value: Arc<AtomicU64>,
}

impl CounterFn for Both<Counter> {
    fn increment(&self, value: u64) {
        self.next.increment(value);
        CounterFn::increment(&*self.value, value);
    }

    fn absolute(&self, value: u64) {
        self.next.absolute(value);
        CounterFn::absolute(&*self.value, value);
    }
}

impl GaugeFn for Both<Gauge> {
    fn increment(&self, value: f64) {
        self.next.increment(value);
        GaugeFn::increment(&*self.value, value);
    }

    fn decrement(&self, value: f64) {
        self.next.decrement(value);
        GaugeFn::decrement(&*self.value, value);
    }

    fn set(&self, value: f64) {
        self.next.set(value);
        GaugeFn::set(&*self.value, value);
    }
}

impl<R: Recorder> Recorder for Counting<R> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.next.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.next.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.next.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let next = self.next.register_counter(key, metadata);
        match self.counts.value_of(key) {
            Some(value) => Counter::from_arc(Arc::new(Both { next, value })),
            None => next,
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let next = self.next.register_gauge(key, metadata);
        match self.counts.value_of(key) {
            Some(value) => Gauge::from_arc(Arc::new(Both { next, value })),
            None => next,
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.next.register_histogram(key, metadata)
    }
}
