//! One sample of a pipeline, and samples in steps.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Levels;
use crate::view::PointView;

/// What happened to a pipeline since the sample before, and how it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "[i64; 7]", from = "[i64; 7]")]
pub(super) struct Point {
    /// Seconds since 1970.
    pub(super) at: i64,
    pub(super) delivered: u32,
    pub(super) failed: u32,
    pub(super) dead: u32,
    pub(super) backlog: u32,
    pub(super) waiting: u32,
    pub(super) oldest: u32,
}

impl Point {
    /// What happened from `last` until `now`.
    pub(super) fn between(last: &Levels, levels: &Levels, now: Timestamp) -> Self {
        let grown = |now: u64, then: u64| u32::try_from(now.saturating_sub(then)).unwrap_or(u32::MAX);
        Self {
            at: now.as_second(),
            delivered: grown(levels.delivered, last.delivered),
            failed: grown(levels.failed, last.failed),
            dead: grown(levels.dead, last.dead),
            backlog: whole(levels.backlog.unwrap_or(0.0)),
            waiting: whole(levels.waiting),
            oldest: whole(levels.oldest),
        }
    }
}

impl From<Point> for [i64; 7] {
    fn from(point: Point) -> Self {
        let counts = [point.delivered, point.failed, point.dead, point.backlog, point.waiting, point.oldest];
        let [delivered, failed, dead, backlog, waiting, oldest] = counts.map(i64::from);
        [point.at, delivered, failed, dead, backlog, waiting, oldest]
    }
}

impl From<[i64; 7]> for Point {
    fn from([at, counts @ ..]: [i64; 7]) -> Self {
        let whole = |count: i64| u32::try_from(count.max(0)).unwrap_or(u32::MAX);
        let [delivered, failed, dead, backlog, waiting, oldest] = counts.map(whole);
        Self { at, delivered, failed, dead, backlog, waiting, oldest }
    }
}

/// A gauge as a whole number.
pub(super) fn whole(number: f64) -> u32 {
    // `as` keeps within the range.
    number.max(0.0).round() as u32
}

/// The samples of several instances, in steps.
pub(super) struct Steps {
    since: i64,
    step: i64,
    steps: BTreeMap<i64, PointView>,
}

impl Steps {
    pub(super) fn new(since: i64, step: Duration) -> Self {
        let step = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
        Self { since, step, steps: BTreeMap::new() }
    }

    /// Adds the samples of one instance, oldest first: what happened adds up. Each instance sees the same letters and
    /// the same backlog, or a part of it, so the largest is taken.
    pub(super) fn add<'a>(&mut self, points: impl IntoIterator<Item = &'a Point>) {
        let mut last: BTreeMap<i64, Point> = BTreeMap::new();
        for point in points.into_iter().filter(|point| point.at >= self.since) {
            let begins = point.at - point.at.rem_euclid(self.step);
            let step = self.steps.entry(begins).or_insert_with(|| empty(begins));
            step.delivered += u64::from(point.delivered);
            step.failed += u64::from(point.failed);
            step.dead += u64::from(point.dead);
            last.insert(begins, *point);
        }
        for (begins, point) in last {
            let Some(step) = self.steps.get_mut(&begins) else { continue };
            step.backlog = step.backlog.max(point.backlog.into());
            step.waiting = step.waiting.max(point.waiting.into());
            step.oldest = step.oldest.max(point.oldest.into());
        }
    }

    pub(super) fn views(self) -> Vec<PointView> {
        self.steps.into_values().collect()
    }
}

fn empty(begins: i64) -> PointView {
    let at = Timestamp::from_second(begins).unwrap_or_default();
    PointView { at, delivered: 0, failed: 0, dead: 0, backlog: 0, waiting: 0, oldest: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: i64, delivered: u32, backlog: u32) -> Point {
        Point { at, delivered, failed: 0, dead: 0, backlog, waiting: 0, oldest: 0 }
    }

    #[test]
    fn what_two_instances_did_adds_up_and_what_both_see_does_not() {
        let mut steps = Steps::new(60, Duration::from_secs(60));
        steps.add(&[point(50, 9, 9), point(60, 1, 5), point(70, 2, 3)]);
        steps.add(&[point(65, 4, 4), point(120, 1, 2)]);
        let steps: Vec<_> =
            steps.views().iter().map(|step| (step.at.as_second(), step.delivered, step.backlog)).collect();
        assert_eq!(steps, [(60, 7, 4), (120, 1, 2)]);
    }

    #[test]
    fn a_point_survives_its_stored_form() {
        let point = Point {
            at: 1_700_000_000,
            delivered: u32::MAX,
            failed: 1,
            dead: 2,
            backlog: 3,
            waiting: 4,
            oldest: 5,
        };
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(text, "[1700000000,4294967295,1,2,3,4,5]");
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
    }
}
