//! Numbers of pipelines over time, for charts: sampled every ten seconds, kept for a day.
//!
//! They are taken where they are counted ([`Counts`] sees every counter that is incremented), so every kind of pipeline
//! is covered, and the first interval begins at zero. What each instance has sampled is in the store of the console, so
//! that charts show all instances and survive a restart ([`stored`]). Without that store they show what this process has
//! sampled. A day of one pipeline takes some 300 kB of memory; nothing grows beyond that.

mod counts;
mod point;
mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use redrive_engine::console::Console;
use tokio_util::sync::CancellationToken;

use crate::Metrics;
use crate::view::{RatesView, SeriesView};
use point::{Point, Steps};
use stored::{Exchange, Stored};

pub(crate) use counts::{Counting, Counts, Levels};

/// How often the numbers are sampled.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);
/// A day of them.
const KEPT: usize = 24 * 60 * 6;
/// Rates are those of the last minute.
const RECENT: usize = 6;
/// More pipelines than this are not followed: nobody configures that many, and labels must not fill the memory.
const MOST_PIPELINES: usize = 500;

/// The numbers over time. Clones are one series.
#[derive(Clone, Default)]
pub struct Series(Arc<Shared>);

#[derive(Default)]
struct Shared {
    counts: Counts,
    pipelines: Mutex<HashMap<String, Pipeline>>,
    stored: Mutex<Stored>,
}

/// What this process has sampled of one pipeline.
#[derive(Default)]
struct Pipeline {
    /// The counters at the latest sample; zero before the first one, as the process began with that.
    last: Levels,
    points: VecDeque<Point>,
}

/// How a pipeline is, by its numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Latest {
    pub(crate) backlog: Option<u64>,
    pub(crate) backlog_at: Option<Timestamp>,
    pub(crate) rung: Option<u8>,
    pub(crate) rates: Option<RatesView>,
}

impl Series {
    /// The series of the numbers that are recorded here.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Self {
        let counts = metrics.counts().clone();
        Self(Arc::new(Shared { counts, ..Shared::default() }))
    }

    /// Samples the numbers, and exchanges them with the other instances through the store of this console, until it is
    /// told to stop.
    pub async fn keep(self, console: Arc<Console>, stop: CancellationToken) {
        let mut exchange = Exchange::new(&self, console.samples());
        tokio::join!(self.keep_sampling(&stop), exchange.keep(&stop));
        self.sample(Timestamp::now());
        exchange.end().await;
    }

    async fn keep_sampling(&self, stop: &CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            self.sample(Timestamp::now());
        }
    }

    /// Takes in the numbers of one moment.
    fn sample(&self, now: Timestamp) {
        let mut pipelines = self.pipelines();
        for (name, levels) in self.0.counts.levels() {
            if pipelines.contains_key(&name) || pipelines.len() < MOST_PIPELINES {
                pipelines.entry(name).or_default().add(levels, now);
            }
        }
    }

    /// What is known of a pipeline now.
    pub(crate) fn latest(&self, pipeline: &str) -> Latest {
        let levels = self.0.counts.levels().remove(pipeline).unwrap_or_default();
        Latest {
            backlog: levels.backlog.map(|backlog| point::whole(backlog).into()),
            backlog_at: levels.backlog_at.and_then(|at| Timestamp::from_second(at as i64).ok()),
            rung: levels.rung.map(|rung| rung.clamp(0.0, 255.0) as u8),
            rates: self.pipelines().get(pipeline).and_then(Pipeline::rates),
        }
    }

    /// The numbers since then, in steps: those of every instance, up to this moment.
    pub(crate) fn since(&self, since: Timestamp, step: Duration, only: Option<&str>) -> Vec<SeriesView> {
        let (levels, now) = (self.0.counts.levels(), Timestamp::now());
        let (pipelines, stored) = (self.pipelines(), self.stored());
        let names: BTreeSet<&str> =
            pipelines.keys().chain(levels.keys()).map(String::as_str).chain(stored.pipelines()).collect();
        let series = |name: &str| {
            let mut steps = Steps::new(since.as_second(), step);
            let own = pipelines.get(name);
            let since_last = levels
                .get(name)
                .map(|levels| Point::between(own.map_or(&Levels::default(), |own| &own.last), levels, now));
            steps.add(own.into_iter().flat_map(|own| &own.points).chain(&since_last));
            for instance in stored.instances(name) {
                steps.add(instance);
            }
            SeriesView { pipeline: name.to_owned(), points: steps.views() }
        };
        let asked = names.into_iter().filter(|name| only.is_none_or(|only| only == *name));
        asked.map(series).filter(|series| !series.points.is_empty()).collect()
    }

    fn pipelines(&self) -> MutexGuard<'_, HashMap<String, Pipeline>> {
        self.0.pipelines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.0.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The points of this process in this range, by pipeline.
    fn points(&self, range: std::ops::Range<i64>) -> BTreeMap<String, Vec<Point>> {
        let pipelines = self.pipelines();
        let within = |pipeline: &Pipeline| {
            pipeline.points.iter().filter(|point| range.contains(&point.at)).copied().collect()
        };
        pipelines.iter().map(|(name, pipeline)| (name.clone(), within(pipeline))).collect()
    }
}

impl Pipeline {
    fn add(&mut self, levels: Levels, now: Timestamp) {
        if self.points.len() >= KEPT {
            self.points.pop_front();
        }
        self.points.push_back(Point::between(&self.last, &levels, now));
        self.last = levels;
    }

    fn rates(&self) -> Option<RatesView> {
        let recent: Vec<&Point> = self.points.iter().rev().take(RECENT).collect();
        let seconds = INTERVAL.as_secs_f64() * recent.len() as f64;
        let rate =
            |of: fn(&Point) -> u32| recent.iter().map(|point| f64::from(of(point))).sum::<f64>() / seconds;
        (!recent.is_empty()).then(|| RatesView {
            delivered: rate(|point| point.delivered),
            failed: rate(|point| point.failed),
            dead: rate(|point| point.dead),
        })
    }
}

#[cfg(test)]
mod tests {
    use metrics::{Recorder, counter, gauge, with_local_recorder};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn series(counts: &Counts) -> Series {
        Series(Arc::new(Shared { counts: counts.clone(), ..Shared::default() }))
    }

    /// Records as the engine does.
    fn recording(counts: &Counts, record: impl FnOnce()) {
        let recorder: &dyn Recorder = &Counting::new(metrics::NoopRecorder, counts.clone());
        with_local_recorder(recorder, record);
    }

    fn deliver(events: u64) {
        counter!("redrive_events_total", "pipeline" => "a", "type" => "T", "outcome" => "delivered")
            .increment(events);
    }

    fn waiting(letters: u32) {
        gauge!("redrive_dead_letters", "pipeline" => "a", "status" => "open").set(letters);
        gauge!("redrive_dead_letters", "pipeline" => "a", "status" => "resolved").set(77);
    }

    /// 1,948 deliveries were shown as 12: what was counted before the first sample was missing.
    #[test]
    fn the_first_interval_is_counted_and_so_is_what_came_after_the_last_sample() {
        let counts = Counts::default();
        let series = series(&counts);
        let delivered = |series: &Series| -> u64 {
            let all = series.since(at(0), Duration::from_secs(60), None);
            all.iter().flat_map(|one| &one.points).map(|point| point.delivered).sum()
        };
        recording(&counts, || deliver(1_936));
        assert_eq!(delivered(&series), 1_936, "before the first sample");
        series.sample(at(1_010));
        recording(&counts, || deliver(12));
        assert_eq!(delivered(&series), 1_948);
        series.sample(at(1_020));
        assert_eq!(delivered(&series), 1_948, "each once");
    }

    #[test]
    fn counters_become_what_happened_and_gauges_what_was() {
        let counts = Counts::default();
        let series = series(&counts);
        for (second, delivered, letters) in [(1_000, 5, 1), (1_010, 3, 2), (1_020, 10, 0), (1_070, 0, 4)] {
            recording(&counts, || {
                deliver(delivered);
                waiting(letters);
                gauge!("redrive_ladder_rung", "pipeline" => "a").set(2);
            });
            series.sample(at(second));
        }
        let found = series.since(at(0), Duration::from_secs(60), Some("a"));
        let past = found[0].points.iter().filter(|point| point.at < at(2_000));
        let points: Vec<_> =
            past.map(|point| (point.at.as_second(), point.delivered, point.waiting)).collect();
        assert_eq!(points, [(960, 8, 2), (1_020, 10, 4)]);
        let latest = series.latest("a");
        assert_eq!((latest.rung, latest.rates.map(|rates| rates.delivered)), (Some(2), Some(18.0 / 40.0)));
        assert!(series.since(at(0), Duration::from_secs(60), Some("b")).is_empty());
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        let counts = Counts::default();
        let series = series(&counts);
        recording(&counts, || deliver(1));
        for second in 0..KEPT + 10 {
            series.sample(at(second as i64));
        }
        assert_eq!(series.pipelines()["a"].points.len(), KEPT);
    }
}
