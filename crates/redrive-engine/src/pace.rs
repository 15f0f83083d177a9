//! The pace of a pipeline: how much at a time, how often, how long.

use std::time::Duration;

/// How a pipeline works.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The most events that one claim takes.
    pub batch_size: u32,
    /// The most handlers that run at a time, in each worker.
    pub concurrency: usize,
    /// How many workers claim side by side.
    pub workers: usize,
    /// How long a claim holds; extended while a handler runs.
    pub lease: Duration,
    /// How often to look without being woken.
    pub poll_interval: Duration,
    /// How long a handler may take.
    pub handler_timeout: Duration,
    /// How long running handlers may finish when the pipeline stops.
    pub grace: Duration,
}

impl Default for Pace {
    /// The founding settings of the outbox: batches of 50, every 5 s.
    fn default() -> Self {
        Self {
            batch_size: 50,
            concurrency: 16,
            workers: 1,
            lease: Duration::from_secs(20),
            poll_interval: Duration::from_secs(5),
            handler_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(8),
        }
    }
}
