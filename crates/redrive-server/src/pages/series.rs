//! The recent past of each pipeline: a sample of its numbers every ten seconds, for an hour.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often a sample is taken.
pub(crate) const EVERY: Duration = Duration::from_secs(10);
/// An hour.
const MOST: usize = 360;
/// Names come from the configuration; this is only a fence.
const MOST_PIPELINES: usize = 1_000;

/// The recent past. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series(Arc<Mutex<VecDeque<Sample>>>);

#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    pipelines: BTreeMap<String, Numbers>,
}

/// The numbers of one pipeline at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Numbers {
    done: f64,
    failed: f64,
    backlog: Option<f64>,
    oldest: Option<f64>,
}

/// The recent past of one pipeline, oldest first; nothing where there was no figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Past {
    /// Events that did their work, per second.
    pub(super) throughput: Vec<Option<f64>>,
    /// Attempts that failed, per second.
    pub(super) failures: Vec<Option<f64>>,
    /// Work that waits.
    pub(super) backlog: Vec<Option<f64>>,
    /// The age of the oldest letter that waits, in seconds.
    pub(super) oldest: Vec<Option<f64>>,
    /// How long all of this is.
    pub(super) length: Duration,
}

impl Series {
    /// Takes a sample from the text of `/metrics`, if the last one is old enough.
    pub(crate) fn sample(&self, metrics: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.lock().back().is_some_and(|last| now.duration_since(last.at) < EVERY) {
            return;
        }
        let pipelines = read(&metrics());
        let mut samples = self.lock();
        if samples.len() >= MOST {
            samples.pop_front();
        }
        samples.push_back(Sample { at: now, pipelines });
    }

    /// The recent past of this pipeline.
    pub(super) fn of(&self, pipeline: &str) -> Past {
        let samples = self.lock();
        let mut past = Past::default();
        for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
            let seconds = after.at.duration_since(before.at).as_secs_f64();
            let (old, new) = (before.pipelines.get(pipeline), after.pipelines.get(pipeline));
            // A counter that is not there yet has counted nothing.
            let old = old.copied().unwrap_or_default();
            let rate =
                |count: fn(&Numbers) -> f64| new.map(|new| ((count(new) - count(&old)) / seconds).max(0.0));
            past.throughput.push(rate(|numbers| numbers.done));
            past.failures.push(rate(|numbers| numbers.failed));
            past.backlog.push(new.and_then(|new| new.backlog));
            past.oldest.push(new.and_then(|new| new.oldest));
            past.length += after.at.duration_since(before.at);
        }
        past
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(metrics: &str) -> BTreeMap<String, Numbers> {
    let mut pipelines: BTreeMap<String, Numbers> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((name, labels, value)) = line_of(line) else { continue };
        let Some(pipeline) = label(labels, "pipeline") else { continue };
        if pipelines.len() >= MOST_PIPELINES && !pipelines.contains_key(&pipeline) {
            continue;
        }
        let numbers = pipelines.entry(pipeline).or_default();
        match name {
            "redrive_events_total" => match label(labels, "outcome").as_deref() {
                Some("delivered" | "recovered") => numbers.done += value,
                Some("retried" | "dead" | "dropped") => numbers.failed += value,
                _ => {}
            },
            "redrive_backlog" => numbers.backlog = Some(value),
            _ => numbers.oldest = Some(value),
        }
    }
    pipelines
}

/// One line of interest: `name{labels} value`.
fn line_of(line: &str) -> Option<(&str, &str, f64)> {
    const OF_INTEREST: [&str; 3] =
        ["redrive_events_total", "redrive_backlog", "redrive_oldest_dead_letter_seconds"];
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once('}')?;
    OF_INTEREST.contains(&name).then_some(())?;
    Some((name, labels, value.trim().parse().ok()?))
}

/// The value of a label; types of events are among the others, so it is read with care.
fn label(labels: &str, wanted: &str) -> Option<String> {
    let mut rest = labels;
    loop {
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        if name.trim_start_matches(',') == wanted {
            return Some(value);
        }
        rest = &quoted[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE redrive_events_total counter
redrive_events_total{pipeline="orders",type="a",outcome="delivered"} 100
redrive_events_total{pipeline="orders",type="b\",pipeline=\"x",outcome="dead"} 7
redrive_events_total{pipeline="orders",type="b",outcome="accepted"} 1000
redrive_backlog{pipeline="orders"} 12
redrive_oldest_dead_letter_seconds{pipeline="orders"} 60.5
redrive_attempt_seconds_bucket{pipeline="orders",le="1"} 5
"#;

    #[test]
    fn the_numbers_are_read_off_the_metrics() {
        let pipelines = read(METRICS);
        assert_eq!(pipelines.len(), 1);
        let expected = Numbers { done: 100.0, failed: 7.0, backlog: Some(12.0), oldest: Some(60.5) };
        assert_eq!(pipelines["orders"], expected);
    }

    #[tokio::test(start_paused = true)]
    async fn counters_become_rates() {
        let series = Series::default();
        series.sample(|| METRICS.to_owned());
        tokio::time::advance(EVERY / 2).await;
        series.sample(|| panic!("too early"));
        tokio::time::advance(EVERY / 2).await;
        series.sample(|| METRICS.replace("} 100", "} 150"));
        let past = series.of("orders");
        assert_eq!(past.throughput, [Some(5.0)]);
        assert_eq!((past.failures, past.backlog), (vec![Some(0.0)], vec![Some(12.0)]));
        assert_eq!(past.length, EVERY);
        assert_eq!(series.of("mails").throughput, [None]);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let series = Series::default();
        for _ in 0..MOST + 10 {
            series.sample(|| METRICS.to_owned());
            tokio::time::advance(EVERY).await;
        }
        assert_eq!(series.of("orders").throughput.len(), MOST - 1);
    }
}
