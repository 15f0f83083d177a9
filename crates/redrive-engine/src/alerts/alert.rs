//! An alert: one thing that people are told.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::failure::Failure;
use redrive_core::fingerprint::Fingerprint;
use serde::{Serialize, Serializer};

use super::inert::Inert;
use crate::ladder::Rung;

/// One thing that people are told.
///
/// As JSON, `kind` names the variant in snake case (`dead_letter`, `more_letters` …) and the fields
/// stand beside it; times are RFC 3339, durations seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Alert {
    /// An event became a dead letter; the first of its group for a while.
    DeadLetter(DeadLetterAlert),
    /// More letters of a group that was already told.
    MoreLetters(MoreLetters),
    /// As many letters are unresolved as the threshold says, or more.
    ThresholdReached(Level),
    /// Fewer letters are unresolved than the threshold says, after there were more.
    ThresholdRecovered(Level),
    /// A handler is down: its events wait.
    HandlerDown(HandlerDown),
    /// A handler that was down is back.
    HandlerUp(HandlerUp),
    /// A pipeline's events go somewhere else than before.
    LadderMoved(LadderMoved),
    /// Events were lost.
    Dropped(Dropped),
    /// How a pipeline's unresolved letters are made up.
    Report(Report),
    /// What this channel was not told.
    HeldBack(HeldBack),
}

/// An event became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetterAlert {
    /// The pipeline.
    pub pipeline: Inert,
    /// The event's number, or what its pipeline calls it.
    pub event_id: Inert,
    /// Its type.
    pub event_type: Inert,
    /// To what kind of thing it happened; empty for a job.
    pub aggregate_type: Inert,
    /// To which one.
    pub aggregate_id: Inert,
    /// How often it was tried again.
    pub retry_count: u32,
    /// What went wrong at last.
    pub error: Inert,
    /// When.
    pub failed_at: Timestamp,
    /// The group it belongs to.
    pub fingerprint: Fingerprint,
}

/// More letters of a group that was already told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoreLetters {
    /// The latest of them.
    pub latest: DeadLetterAlert,
    /// How many.
    pub count: u64,
    /// In how long.
    #[serde(serialize_with = "seconds")]
    pub within: Duration,
    /// Whether they are of one group, or of many that could not be told apart any more.
    pub groups: Grouping,
}

/// What the letters of a count have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// The same failure.
    Same,
    /// Nothing: there are more groups than are kept apart.
    Mixed,
}

/// How many letters of a pipeline are unresolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Level {
    /// The pipeline.
    pub pipeline: Inert,
    /// How many are unresolved.
    pub count: u64,
    /// How many are too many.
    pub threshold: u64,
}

/// A handler is down: its breaker opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandlerDown {
    /// The pipeline.
    pub pipeline: Inert,
    /// The handler's name.
    pub handler: Inert,
    /// The failure that decided it.
    pub error: Inert,
}

/// A handler that was down is back: its breaker closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandlerUp {
    /// The pipeline.
    pub pipeline: Inert,
    /// The handler's name.
    pub handler: Inert,
}

/// A pipeline's events go somewhere else than before: down the ladder, or up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LadderMoved {
    /// The pipeline.
    pub pipeline: Inert,
    /// Where they went.
    pub from: Rung,
    /// Where they go now.
    pub to: Rung,
    /// What the rung above said; empty on the way up.
    pub why: Inert,
}

/// Events were lost: nothing could take them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The pipeline.
    pub pipeline: Inert,
    /// How many; 0 when nobody can tell.
    pub events: u64,
    /// In how many files or batches; 0 when they were in none.
    pub files: u64,
    /// Why.
    pub why: Inert,
}

/// How a pipeline's unresolved letters are made up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The pipeline.
    pub pipeline: Inert,
    /// How many are unresolved.
    pub unresolved: u64,
    /// How many of each event type, the most frequent first.
    pub by_type: Vec<TypeCount>,
    /// When the oldest of them failed.
    pub oldest: Option<Timestamp>,
}

/// How many unresolved letters are of one event type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    /// The type.
    pub event_type: Inert,
    /// How many.
    pub count: u64,
}

/// What a channel was not told, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HeldBack {
    /// Alerts over the channel's limit.
    pub limited: u64,
    /// Alerts that found the channel's queue full.
    pub dropped: u64,
    /// Alerts that the channel did not take, however often it was tried.
    pub failed: u64,
    /// The dead letters that these alerts stood for.
    pub letters: u64,
}

/// How much an alert matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Events are lost, or will be: somebody must look now.
    Critical,
    /// Somebody should look.
    Warning,
    /// Good to know.
    Notice,
}

impl DeadLetterAlert {
    /// The error's text, from a failure.
    #[must_use]
    pub fn error_of(failure: &Failure) -> Inert {
        Inert::new(&failure.to_string())
    }
}

impl Report {
    /// A report over counts in any order.
    pub fn new(
        pipeline: &str,
        counts: impl IntoIterator<Item = (String, u64)>,
        oldest: Option<Timestamp>,
    ) -> Self {
        let mut by_type: Vec<TypeCount> = counts
            .into_iter()
            .map(|(event_type, count)| TypeCount { event_type: event_type.into(), count })
            .collect();
        by_type.sort_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| one.event_type.cmp(&other.event_type))
        });
        let unresolved = by_type.iter().map(|row| row.count).sum();
        Self { pipeline: pipeline.into(), unresolved, by_type, oldest }
    }
}

impl HeldBack {
    /// How many alerts.
    #[must_use]
    pub fn alerts(&self) -> u64 {
        self.limited + self.dropped + self.failed
    }
}

impl Alert {
    /// How much it matters.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Dropped(_) => Severity::Critical,
            Self::LadderMoved(moved) if moved.to == Rung::Nowhere => Severity::Critical,
            Self::DeadLetter(_)
            | Self::MoreLetters(_)
            | Self::ThresholdReached(_)
            | Self::HandlerDown(_)
            | Self::HeldBack(_) => Severity::Warning,
            Self::LadderMoved(moved) if moved.to > moved.from => Severity::Warning,
            Self::LadderMoved(_) | Self::ThresholdRecovered(_) | Self::HandlerUp(_) | Self::Report(_) => {
                Severity::Notice
            }
        }
    }

    /// How many dead letters it stands for.
    #[must_use]
    pub fn letters(&self) -> u64 {
        match self {
            Self::DeadLetter(_) => 1,
            Self::MoreLetters(more) => more.count,
            Self::HeldBack(held) => held.letters,
            _ => 0,
        }
    }

    /// Whether a channel keeps room for it: a pipeline's state matters more than one more letter.
    pub(super) fn is_urgent(&self) -> bool {
        matches!(
            self,
            Self::ThresholdReached(_)
                | Self::ThresholdRecovered(_)
                | Self::HandlerDown(_)
                | Self::HandlerUp(_)
                | Self::LadderMoved(_)
                | Self::Dropped(_)
                | Self::HeldBack(_)
        )
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}
