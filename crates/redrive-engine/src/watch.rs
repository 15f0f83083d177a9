//! The watch over a pipeline's dead letters: thresholds, reports, gauges.
//!
//! Looks every minute, and soon after something died; reports every ten minutes. Looking costs a count: so those
//! that deaths ask for take no more than a small part of the store's time. The backlog is counted every few seconds,
//! within the same part of its time, and the moment is a metric: a number is worth little without its age.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metrics::gauge;
use redrive_core::dead_letter::{Stats, Status};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::alerts::{Inert, Level, Report};
use crate::pipeline::Pipeline;

/// How a pipeline is watched.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// How many unresolved letters are too many.
    pub threshold: u64,
    /// How often they are counted.
    pub check_interval: Duration,
    /// How often they are reported.
    pub report_interval: Duration,
}

impl Default for WatchOptions {
    /// The founding settings: ten letters, every minute, every ten minutes.
    fn default() -> Self {
        Self {
            threshold: 10,
            check_interval: Duration::from_secs(60),
            report_interval: Duration::from_secs(600),
        }
    }
}

/// Tells the watch that something died.
#[derive(Debug, Clone, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    pub(crate) fn nudge(&self) {
        self.0.notify_one();
    }
}

/// A look that a death asks for takes at most one part in this many of the store's time.
const SHARE: u32 = 20;
const SHORTEST: Duration = Duration::from_millis(500);
/// How often the backlog is counted, while a count is quick.
const BACKLOG_EVERY: Duration = Duration::from_secs(5);

/// Watches until it is told to stop.
pub(crate) async fn watch(pipeline: Arc<Pipeline>, options: WatchOptions, stop: CancellationToken) {
    let watching = async { tokio::join!(keep_looking(&pipeline, &options), keep_counting(&pipeline)) };
    stop.run_until_cancelled(watching).await;
}

async fn keep_counting(pipeline: &Pipeline) {
    loop {
        let begun = Instant::now();
        count_backlog(pipeline).await;
        sleep_until(begun + (begun.elapsed() * SHARE).max(BACKLOG_EVERY)).await;
    }
}

async fn count_backlog(pipeline: &Pipeline) {
    let (name, at) = (pipeline.name.clone(), Timestamp::now());
    match pipeline.store.backlog().await {
        Ok(backlog) => {
            gauge!("redrive_backlog", "pipeline" => name.clone()).set(backlog as f64);
            gauge!("redrive_backlog_counted_timestamp_seconds", "pipeline" => name)
                .set(at.as_second() as f64);
        }
        Err(error) => tracing::debug!(pipeline = %name, %error, "the backlog could not be counted"),
    }
}

async fn keep_looking(pipeline: &Pipeline, options: &WatchOptions) {
    let mut next_report = Instant::now() + options.report_interval;
    let mut next_check = Instant::now();
    let mut earliest = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(next_check) => {}
            () = pipeline.watch.0.notified() => sleep_until(earliest).await,
        }
        let begun = Instant::now();
        if let Some(stats) = look(pipeline).await {
            compare(pipeline, &stats, options.threshold);
            if Instant::now() >= next_report {
                next_report = Instant::now() + options.report_interval;
                report(pipeline, stats);
            }
        }
        let took = begun.elapsed();
        earliest = Instant::now() + (took * SHARE).max(SHORTEST);
        next_check = Instant::now() + options.check_interval.max(took);
    }
}

async fn look(pipeline: &Pipeline) -> Option<Stats> {
    let name = pipeline.name.clone();
    count_backlog(pipeline).await;
    let stats = match pipeline.letters.stats().await {
        Ok(stats) => stats,
        Err(error) => {
            tracing::debug!(pipeline = %name, %error, "the dead letters could not be counted");
            return None;
        }
    };
    for status in Status::ALL {
        let labels = [("pipeline", name.clone()), ("status", status.name().to_owned())];
        gauge!("redrive_dead_letters", &labels).set(stats.count(status) as f64);
    }
    let age =
        stats.oldest_waiting.map_or(0.0, |oldest| Timestamp::now().duration_since(oldest).as_secs_f64());
    gauge!("redrive_oldest_dead_letter_seconds", "pipeline" => name).set(age.max(0.0));
    Some(stats)
}

fn compare(pipeline: &Pipeline, stats: &Stats, threshold: u64) {
    let (name, count) = (Inert::new(&pipeline.name), stats.waiting());
    pipeline.alerts.unresolved(Level { pipeline: name, count, threshold });
}

fn report(pipeline: &Pipeline, stats: Stats) {
    if stats.waiting() > 0 {
        pipeline.alerts.report(Report::new(&pipeline.name, stats.waiting_by_type, stats.oldest_waiting));
    }
}
