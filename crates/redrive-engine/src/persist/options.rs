//! How a persister works; the defaults are the founding ones.

use std::time::Duration;

use redrive_core::backoff::{Backoff, Jitter};
use redrive_store::MAX_RETRY_COUNT;

use super::cron::Cron;

/// How a persister works.
#[derive(Debug, Clone)]
pub struct PersistOptions {
    /// The most events that are saved at once.
    pub batch_size: usize,
    /// The most events that wait in memory.
    pub queue: usize,
    /// The most bytes of them.
    pub queue_bytes: usize,
    /// How often a failed save is repeated before its events are set aside.
    pub retries: u32,
    /// The pauses in between.
    pub backoff: Backoff,
    /// What becomes of failed events.
    pub schedule: Schedule,
    /// What the names of the founding metrics start with.
    pub metrics_prefix: String,
    /// How long a stop may take to save what waits.
    pub grace: Duration,
}

/// What becomes of failed events.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// From start to the first run.
    pub initial_delay: Duration,
    /// From the end of a run to the next.
    pub fixed_delay: Duration,
    /// How many failed runs make an event `FAILED`.
    pub max_retry_count: u32,
    /// How long a claim holds without being extended.
    pub lease: Duration,
    /// When resolved events are cleaned up, in UTC.
    pub cleanup: Cron,
    /// How long resolved events are kept.
    pub keep_resolved: Duration,
}

impl Default for PersistOptions {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(10))
            .expect("invariant: the founding pauses are valid");
        Self {
            batch_size: 1_000,
            queue: 10_000,
            queue_bytes: 64 * 1024 * 1024,
            retries: 3,
            backoff: backoff.with_jitter(Jitter::None),
            schedule: Schedule::default(),
            metrics_prefix: "url_persistence".to_owned(),
            grace: Duration::from_secs(8),
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(60),
            fixed_delay: Duration::from_secs(300),
            max_retry_count: MAX_RETRY_COUNT,
            lease: Duration::from_secs(60),
            cleanup: Cron::midnight(),
            keep_resolved: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// When a caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// At once: a killed process loses what it had in memory.
    Memory,
    /// When the event is synced to the journal on disk.
    Journal,
}
