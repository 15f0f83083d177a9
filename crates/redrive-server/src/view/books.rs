//! The books of the pipelines, as the API shows them.

use redrive_core::books::Balance;
use redrive_core::dead_letter::PipelineKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::KindName;

/// The books of every pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BooksView {
    /// One for each pipeline, by name.
    pub pipelines: Vec<BookView>,
}

/// The books of one pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BookView {
    /// The pipeline.
    pub pipeline: String,
    /// Its kind.
    pub kind: KindName,
    /// Where its events are; null when its store does not answer.
    pub balance: Option<BalanceView>,
    /// How many events are missing; below zero, so many are in two places. Zero is right.
    pub gap: Option<i64>,
    /// Why there are no books.
    pub trouble: Option<String>,
}

/// Where the events of a pipeline are, each counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalanceView {
    /// Events that came in.
    pub accepted: u64,
    /// Waiting, or being worked on.
    pub in_flight: u64,
    /// Done.
    pub delivered: u64,
    /// Dead letters that wait for somebody.
    pub open: u64,
    /// Set aside, to be tried again by themselves.
    pub parked: u64,
    /// Closed by a person.
    pub resolved: u64,
    /// Deleted because of their age.
    pub expired: u64,
    /// Lost: nothing took them.
    pub dropped: u64,
}

impl BookView {
    /// The books of this pipeline.
    pub(crate) fn of(pipeline: String, kind: PipelineKind, books: Result<Balance, String>) -> Self {
        let (balance, gap, trouble) = match books {
            Ok(balance) => (Some(balance.into()), Some(balance.gap()), None),
            Err(trouble) => (None, None, Some(trouble)),
        };
        Self { pipeline, kind: kind.into(), balance, gap, trouble }
    }
}

impl From<Balance> for BalanceView {
    fn from(balance: Balance) -> Self {
        let Balance { accepted, in_flight, delivered, open, parked, resolved, expired, dropped } = balance;
        Self { accepted, in_flight, delivered, open, parked, resolved, expired, dropped }
    }
}
