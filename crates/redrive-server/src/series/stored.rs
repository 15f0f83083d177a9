//! What every instance has sampled, in the store of the console.
//!
//! Each instance saves its points, a row for each pipeline and minute, and reads those of the others: also those that it
//! saved itself before it was started again, as each start is an instance of its own. While the store does not answer,
//! points wait in memory and are saved later.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use redrive_store::{Error, Sample, Samples};
use tokio_util::sync::CancellationToken;

use super::Series;
use super::point::Point;

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;
/// How often points are saved, and those of others are read.
const EVERY: Duration = Duration::from_secs(60);
/// How long until it is tried again after the store did not answer.
const AGAIN: Duration = Duration::from_secs(10);
/// Others may save a minute late.
const LATE: i64 = 10 * MINUTE;
/// How long a stop waits for the store.
const LAST: Duration = Duration::from_secs(2);

/// The points of the other instances.
#[derive(Default)]
pub(super) struct Stored {
    /// By pipeline, then by instance and the minute they begin in.
    points: BTreeMap<String, BTreeMap<(String, i64), Vec<Point>>>,
}

impl Stored {
    pub(super) fn pipelines(&self) -> impl Iterator<Item = &str> {
        self.points.keys().map(String::as_str)
    }

    /// The points of each instance, oldest first.
    pub(super) fn instances(&self, pipeline: &str) -> Vec<Vec<&Point>> {
        let mut instances: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
        for ((instance, _), points) in self.points.get(pipeline).into_iter().flatten() {
            instances.entry(instance).or_default().extend(points);
        }
        instances.into_values().collect()
    }

    fn take_in(&mut self, sample: Sample) {
        let Ok(points) = serde_json::from_str::<Vec<Point>>(&sample.points) else { return };
        let place = (sample.instance, sample.began_at.as_second());
        self.points.entry(sample.pipeline).or_default().insert(place, points);
    }

    fn forget(&mut self, before: i64) {
        for minutes in self.points.values_mut() {
            minutes.retain(|(_, minute), _| *minute >= before);
        }
        self.points.retain(|_, minutes| !minutes.is_empty());
    }
}

/// How far the exchange of one instance is.
pub(super) struct Exchange<'a> {
    series: &'a Series,
    samples: &'a Samples,
    instance: String,
    /// Points before this are saved.
    saved: i64,
    /// From when on the points of others are read; nothing before they were read for the first time.
    read_from: Option<i64>,
    /// When old points were last deleted.
    purged: i64,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(series: &'a Series, samples: &'a Samples) -> Self {
        Self { series, samples, instance: instance(), saved: 0, read_from: None, purged: 0 }
    }

    /// Saves points and reads those of others, until it is told to stop.
    pub(super) async fn keep(&mut self, stop: &CancellationToken) {
        loop {
            let now = Timestamp::now().as_second();
            let wait = match self.run(now).await {
                Ok(()) => EVERY,
                Err(error) => {
                    tracing::debug!(%error, "the points of charts could not be exchanged");
                    AGAIN
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// Saves what is left, also of the minute that is not over.
    pub(super) async fn end(&mut self) {
        let saving = self.save(Timestamp::now().as_second() + 1);
        if !matches!(tokio::time::timeout(LAST, saving).await, Ok(Ok(()))) {
            tracing::debug!("the last points of charts could not be saved");
        }
    }

    pub(super) async fn run(&mut self, now: i64) -> Result<(), Error> {
        self.save(now - now.rem_euclid(MINUTE)).await?;
        self.read(now).await?;
        if now - self.purged >= DAY / 24 {
            self.samples.purge(second(now - DAY)).await?;
            self.purged = now;
        }
        Ok(())
    }

    /// Saves the points before this.
    async fn save(&mut self, until: i64) -> Result<(), Error> {
        let rows: Vec<Sample> =
            self.series.points(self.saved..until).into_iter().flat_map(|of| self.rows(of)).collect();
        self.samples.save(&rows).await?;
        self.saved = self.saved.max(until);
        Ok(())
    }

    /// The points of one pipeline, a row for each minute.
    fn rows(&self, (pipeline, points): (String, Vec<Point>)) -> Vec<Sample> {
        let minutes = points.chunk_by(|a, b| a.at.div_euclid(MINUTE) == b.at.div_euclid(MINUTE));
        let row = |points: &[Point]| Sample {
            pipeline: pipeline.clone(),
            instance: self.instance.clone(),
            began_at: second(points[0].at - points[0].at.rem_euclid(MINUTE)),
            points: serde_json::to_string(points).unwrap_or_default(),
        };
        minutes.map(row).collect()
    }

    /// Reads the points of the other instances.
    async fn read(&mut self, now: i64) -> Result<(), Error> {
        let from = self.read_from.unwrap_or(now - DAY);
        let found = self.samples.since(second(from)).await?;
        let mut stored = self.series.stored();
        for sample in found.into_iter().filter(|sample| sample.instance != self.instance) {
            stored.take_in(sample);
        }
        stored.forget(now - DAY);
        self.read_from = Some(now - LATE);
        Ok(())
    }
}

/// A name that no other start has.
fn instance() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use metrics::{counter, with_local_recorder};
    use redrive_store::Database;

    use super::super::{Counting, Counts, Shared};
    use super::*;

    /// An instance that counts for itself.
    fn instance() -> (Counts, Series) {
        let counts = Counts::default();
        (counts.clone(), Series(std::sync::Arc::new(Shared { counts, ..Shared::default() })))
    }

    fn deliver(counts: &Counts, events: u64) {
        let recorder = Counting::new(metrics::NoopRecorder, counts.clone());
        with_local_recorder(&recorder, || {
            counter!("redrive_events_total", "pipeline" => "a", "outcome" => "delivered").increment(events);
        });
    }

    fn delivered(series: &Series) -> u64 {
        let all = series.since(Timestamp::UNIX_EPOCH, EVERY, None);
        all.iter().flat_map(|one| &one.points).map(|point| point.delivered).sum()
    }

    /// Charts began anew with each start of the server.
    #[tokio::test]
    async fn charts_survive_a_restart_and_show_every_instance() {
        let database = redrive_testkit::sqlite();
        let samples = Samples::new(Database::open(&database.url).unwrap());
        samples.migrate().await.unwrap();
        let now = Timestamp::now().as_second();
        let (counts, before) = instance();
        deliver(&counts, 5);
        before.sample(second(now - 100));
        deliver(&counts, 2);
        before.sample(second(now));
        let mut exchange = Exchange::new(&before, &samples);
        exchange.run(now).await.unwrap();
        exchange.end().await;
        exchange.end().await;
        exchange.run(now).await.unwrap();
        assert_eq!(delivered(&before), 7, "its own points are not read back");

        let (counts, after) = instance();
        deliver(&counts, 10);
        let mut exchange = Exchange::new(&after, &samples);
        exchange.run(now).await.unwrap();
        assert_eq!(delivered(&after), 17);
        exchange.run(now).await.unwrap();
        assert_eq!(delivered(&after), 17, "each once");
    }

    #[tokio::test]
    async fn points_that_the_store_did_not_take_are_saved_later() {
        let database = redrive_testkit::sqlite();
        let samples = Samples::new(Database::open(&database.url).unwrap());
        let now = Timestamp::now().as_second();
        let (counts, series) = instance();
        deliver(&counts, 5);
        series.sample(second(now - 100));
        let mut exchange = Exchange::new(&series, &samples);
        assert!(exchange.run(now).await.is_err(), "there is no table");
        samples.migrate().await.unwrap();
        exchange.run(now).await.unwrap();
        assert_eq!(samples.since(second(now - DAY)).await.unwrap().len(), 1);
        assert_eq!(samples.purge(second(now + 1)).await.unwrap(), 1);
    }
}
