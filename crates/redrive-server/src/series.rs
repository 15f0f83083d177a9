//! The numbers of `/metrics` over time, for charts: sampled every ten seconds, kept for a day.
//!
//! They are read from the text that Prometheus would get, so every kind of pipeline is covered and no number
//! is counted twice. A day of one pipeline takes some 300 kB; nothing grows beyond that.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::Metrics;
use crate::view::{PointView, RatesView, SeriesView};

/// How often the numbers are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);
/// A day of them.
const KEPT: usize = 24 * 60 * 6;
/// Rates are those of the last minute.
const RECENT: usize = 6;
/// More pipelines than this are not followed: nobody configures so many, and labels must not fill the memory.
const MOST_PIPELINES: usize = 500;

/// The numbers over time. Clones are one series.
#[derive(Clone, Default)]
pub struct Series(Arc<Mutex<HashMap<String, Pipeline>>>);

#[derive(Default)]
struct Pipeline {
    /// The counters at the last look.
    last: Option<Levels>,
    points: VecDeque<Point>,
}

/// The counters and gauges of one pipeline at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Levels {
    delivered: f64,
    failed: f64,
    dead: f64,
    backlog: Option<f64>,
    /// When the backlog was counted, in seconds since 1970; none where it is known at any time.
    backlog_at: Option<f64>,
    waiting: f64,
    oldest: f64,
    rung: Option<f64>,
}

#[derive(Clone, Copy)]
struct Point {
    /// Seconds since 1970.
    at: i64,
    delivered: u32,
    failed: u32,
    dead: u32,
    backlog: u32,
    waiting: u32,
    oldest: u32,
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
    /// Looks at the numbers until it is told to stop.
    pub async fn keep(self, metrics: Metrics, stop: CancellationToken) {
        loop {
            self.sample(&metrics.render(), Timestamp::now());
            if stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Takes the numbers of one moment in.
    fn sample(&self, text: &str, now: Timestamp) {
        let mut pipelines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, levels) in levels(text) {
            if !pipelines.contains_key(&name) && pipelines.len() >= MOST_PIPELINES {
                continue;
            }
            pipelines.entry(name).or_default().add(levels, now);
        }
    }

    /// What is known of a pipeline now.
    pub(crate) fn latest(&self, pipeline: &str) -> Latest {
        let pipelines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pipelines.get(pipeline).map(Pipeline::latest).unwrap_or_default()
    }

    /// The numbers since then, in steps.
    pub(crate) fn since(&self, since: Timestamp, step: Duration, only: Option<&str>) -> Vec<SeriesView> {
        let pipelines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = pipelines.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        let meant: BTreeMap<&String, &Pipeline> = meant.collect();
        let series = |(name, pipeline): (&String, &Pipeline)| SeriesView {
            pipeline: name.clone(),
            points: pipeline.since(since.as_second(), step),
        };
        meant.into_iter().map(series).collect()
    }
}

impl Pipeline {
    fn add(&mut self, levels: Levels, now: Timestamp) {
        let last = self.last.replace(levels).unwrap_or(levels);
        let grown = |now: f64, then: f64| whole(now - then);
        if self.points.len() >= KEPT {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            at: now.as_second(),
            delivered: grown(levels.delivered, last.delivered),
            failed: grown(levels.failed, last.failed),
            dead: grown(levels.dead, last.dead),
            backlog: whole(levels.backlog.unwrap_or(0.0)),
            waiting: whole(levels.waiting),
            oldest: whole(levels.oldest),
        });
    }

    fn latest(&self) -> Latest {
        let levels = self.last.unwrap_or_default();
        // The first look has nothing to be compared with.
        let recent: Vec<&Point> = self.points.iter().skip(1).rev().take(RECENT).collect();
        let seconds = INTERVAL.as_secs_f64() * recent.len() as f64;
        let rate =
            |of: fn(&Point) -> u32| recent.iter().map(|point| f64::from(of(point))).sum::<f64>() / seconds;
        Latest {
            backlog: levels.backlog.map(|backlog| whole(backlog).into()),
            backlog_at: levels.backlog_at.and_then(|at| Timestamp::from_second(at as i64).ok()),
            rung: levels.rung.map(|rung| rung.clamp(0.0, 255.0) as u8),
            rates: (!recent.is_empty()).then(|| RatesView {
                delivered: rate(|point| point.delivered),
                failed: rate(|point| point.failed),
                dead: rate(|point| point.dead),
            }),
        }
    }

    fn since(&self, since: i64, step: Duration) -> Vec<PointView> {
        let step = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
        let mut steps: Vec<PointView> = Vec::new();
        for point in self.points.iter().filter(|point| point.at >= since) {
            let begins = Timestamp::from_second(point.at - point.at.rem_euclid(step)).unwrap_or_default();
            if steps.last().is_none_or(|last| last.at != begins) {
                steps.push(PointView {
                    at: begins,
                    delivered: 0,
                    failed: 0,
                    dead: 0,
                    backlog: 0,
                    waiting: 0,
                    oldest: 0,
                });
            }
            if let Some(last) = steps.last_mut() {
                last.delivered += u64::from(point.delivered);
                last.failed += u64::from(point.failed);
                last.dead += u64::from(point.dead);
                last.backlog = point.backlog.into();
                last.waiting = point.waiting.into();
                last.oldest = point.oldest.into();
            }
        }
        steps
    }
}

/// A counter that began again counts as one that did not move.
fn whole(number: f64) -> u32 {
    // `as` keeps within the range.
    number.max(0.0).round() as u32
}

/// The numbers of every pipeline in the text format of Prometheus.
fn levels(text: &str) -> HashMap<String, Levels> {
    let mut found: HashMap<String, Levels> = HashMap::new();
    for line in text.lines().filter(|line| line.starts_with("redrive_")) {
        let Some((name, labels, value)) = parse(line) else { continue };
        let label = |wanted: &str| labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let Some(pipeline) = label("pipeline") else { continue };
        let outcome = label("outcome").or(label("status")).map_or("", String::as_str);
        let levels = found.entry(pipeline.clone()).or_default();
        match (name, outcome) {
            ("redrive_events_total", "delivered" | "recovered") => levels.delivered += value,
            ("redrive_events_total", "retried") => levels.failed += value,
            ("redrive_events_total", "dead") => levels.dead += value,
            ("redrive_dead_letters", "open" | "failed") => levels.waiting += value,
            ("redrive_oldest_dead_letter_seconds", _) => levels.oldest = value,
            ("redrive_ladder_rung", _) => levels.rung = Some(value),
            ("redrive_backlog_counted_timestamp_seconds", _) => levels.backlog_at = Some(value),
            ("redrive_backlog" | "redrive_kafka_lag" | "redrive_waiting_events", _) => {
                *levels.backlog.get_or_insert(0.0) += value;
            }
            _ => {}
        }
    }
    found
}

/// One line of the exposition: a name, its labels, a number.
type Sample<'a> = (&'a str, Vec<(&'a str, String)>, f64);

/// `name{label="value",…} number`.
fn parse(line: &str) -> Option<Sample<'_>> {
    let (name, rest) = line.split_once('{')?;
    let mut labels = Vec::new();
    let mut rest = rest;
    while !rest.starts_with('}') {
        let (label, after) = rest.split_once("=\"")?;
        let (value, after) = unquote(after)?;
        labels.push((label, value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    let value = rest.strip_prefix('}')?.trim().parse().ok().filter(|value: &f64| value.is_finite())?;
    Some((name, labels, value))
}

/// The text up to the closing quote, without its escapes, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn text(delivered: u32, waiting: u32) -> String {
        format!(
            "# HELP redrive_events_total x\nredrive_events_total{{pipeline=\"a\",type=\"T\",outcome=\"delivered\"}} {delivered}\n\
             redrive_events_total{{pipeline=\"a\",type=\"q\\\"}} 9\",outcome=\"dead\"}} 1\n\
             redrive_dead_letters{{pipeline=\"a\",status=\"open\"}} {waiting}\n\
             redrive_dead_letters{{pipeline=\"a\",status=\"resolved\"}} 77\nredrive_ladder_rung{{pipeline=\"a\"}} 2\n"
        )
    }

    #[test]
    fn counters_become_what_happened_and_gauges_what_was() {
        let series = Series::default();
        for (second, delivered, waiting) in [(1_000, 5, 1), (1_010, 8, 2), (1_020, 18, 0), (1_070, 2, 4)] {
            series.sample(&text(delivered, waiting), at(second));
        }
        let found = series.since(at(0), Duration::from_secs(60), None);
        assert_eq!(found.len(), 1);
        let counts: Vec<_> = found[0]
            .points
            .iter()
            .map(|point| (point.at.as_second(), point.delivered, point.waiting))
            .collect();
        assert_eq!(counts, [(960, 3, 2), (1_020, 10, 4)], "what began again did not move");
        let latest = series.latest("a");
        assert_eq!((latest.rung, latest.rates.map(|rates| rates.delivered)), (Some(2), Some(13.0 / 30.0)));
        assert!(series.since(at(0), Duration::from_secs(60), Some("b")).is_empty());
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        let series = Series::default();
        for second in 0..KEPT + 10 {
            series.sample(&text(0, 0), at(second as i64));
        }
        assert_eq!(series.0.lock().unwrap()["a"].points.len(), KEPT);
    }
}
