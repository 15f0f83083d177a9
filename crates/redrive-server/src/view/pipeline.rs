//! Pipelines, as the API shows them.

use jiff::Timestamp;
use redrive_core::dead_letter::{Stats, Status};
use redrive_engine::console::Overview;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::KindName;

/// The most types that are shown one by one.
const MOST_TYPES: usize = 50;

/// Every pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PipelinesView {
    /// The pipelines, by name.
    pub pipelines: Vec<PipelineView>,
}

/// One pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PipelineView {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: KindName,
    /// Whether its workers are paused; null when nobody works on it in this process.
    pub paused: Option<bool>,
    /// What is wrong with it, in words.
    pub trouble: Option<String>,
    /// Its letters; null while its store does not answer.
    pub letters: Option<LettersView>,
    /// When those were counted: counting many takes long, and is done now and then.
    pub letters_at: Option<Timestamp>,
    /// Work that waits or is being done; null until it has been counted.
    pub backlog: Option<u64>,
    /// When that was counted; null where it is known at any time, and until it has been counted.
    pub backlog_at: Option<Timestamp>,
    /// Where its events go: 1 the target, 2 the dead-letter store, 3 the local disk, 4 nowhere durable; null
    /// for a pipeline without a ladder.
    pub rung: Option<u8>,
    /// What it did in the last minute; null until that is known.
    pub rates: Option<RatesView>,
}

/// How many letters there are.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LettersView {
    /// Open or failed: they wait for a person.
    pub waiting: u64,
    /// Waiting for a person or a policy.
    pub open: u64,
    /// On their way back.
    pub retrying: u64,
    /// Sent back to work.
    pub redriven: u64,
    /// Closed.
    pub resolved: u64,
    /// Redriving them failed, too.
    pub failed: u64,
    /// How many wait, by event type.
    pub by_type: Vec<TypeView>,
    /// When the oldest of those that wait failed.
    pub oldest_waiting: Option<Timestamp>,
}

/// How many letters of one type wait.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TypeView {
    /// The type.
    pub event_type: String,
    /// How many.
    pub waiting: u64,
}

/// Events per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RatesView {
    /// Done.
    pub delivered: f64,
    /// Failed, and tried again.
    pub failed: f64,
    /// Dead.
    pub dead: f64,
}

/// A pipeline whose store did not answer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Unanswered {
    /// The pipeline.
    pub pipeline: String,
    /// What its store said.
    pub reason: String,
}

impl Unanswered {
    pub(crate) fn all(pipelines: Vec<(String, String)>) -> Vec<Self> {
        pipelines.into_iter().map(|(pipeline, reason)| Self { pipeline, reason }).collect()
    }
}

impl PipelineView {
    /// A pipeline, without what only its numbers say.
    pub(crate) fn of(overview: Overview) -> Self {
        Self {
            name: overview.name,
            kind: overview.kind.into(),
            paused: overview.paused,
            trouble: overview.trouble,
            letters: overview.stats.map(LettersView::from),
            letters_at: overview.counted_at,
            backlog: None,
            backlog_at: None,
            rung: None,
            rates: None,
        }
    }
}

impl From<Stats> for LettersView {
    fn from(stats: Stats) -> Self {
        let count = |status| stats.count(status);
        Self {
            waiting: stats.waiting(),
            open: count(Status::Open),
            retrying: count(Status::Retrying),
            redriven: count(Status::Redriven),
            resolved: count(Status::Resolved),
            failed: count(Status::Failed),
            by_type: by_type(&stats.waiting_by_type),
            oldest_waiting: stats.oldest_waiting,
        }
    }
}

/// The types with the most letters, and all others as one: a producer can make up types without end.
fn by_type(counts: &[(String, u64)]) -> Vec<TypeView> {
    let (shown, rest) = counts.split_at(counts.len().min(MOST_TYPES));
    let view = |(event_type, waiting): &(String, u64)| TypeView {
        event_type: event_type.clone(),
        waiting: *waiting,
    };
    let mut views: Vec<TypeView> = shown.iter().map(view).collect();
    if !rest.is_empty() {
        views.push(view(&("other".to_owned(), rest.iter().map(|(_, waiting)| waiting).sum())));
    }
    views
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_end_are_one() {
        let counts: Vec<(String, u64)> = (0..600).map(|number| (number.to_string(), 2)).collect();
        let shown = by_type(&counts);
        let last = shown.last().unwrap();
        assert_eq!((shown.len(), last.event_type.as_str(), last.waiting), (MOST_TYPES + 1, "other", 1_100));
        assert_eq!(by_type(&counts[..2]).len(), 2);
    }
}
