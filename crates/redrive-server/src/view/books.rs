//! The books of the pipelines.

use redrive_core::books::Balance;
use redrive_core::dead_letter::PipelineKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::KindName;

/// The books of every pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BooksView {
    /// Whether nothing is missing, nothing is in two places, and every store answered.
    pub balanced: bool,
    /// One line for each pipeline.
    pub books: Vec<BalanceView>,
}

/// Where the events of one pipeline are; each is counted once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BalanceView {
    /// The pipeline's name.
    pub pipeline: String,
    /// Its kind.
    pub kind: KindName,
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
    /// How many are missing; below zero, so many are in two places.
    pub gap: i64,
    /// What the store said, if it did not answer: then the numbers say nothing.
    pub error: Option<String>,
}

impl BooksView {
    pub(crate) fn of(lines: Vec<(String, PipelineKind, Result<Balance, String>)>) -> Self {
        let books: Vec<BalanceView> = lines
            .into_iter()
            .map(|(pipeline, kind, answer)| {
                let error = answer.as_ref().err().cloned();
                BalanceView::of(pipeline, kind, answer.unwrap_or_default(), error)
            })
            .collect();
        Self { balanced: books.iter().all(|line| line.gap == 0 && line.error.is_none()), books }
    }
}

impl BalanceView {
    fn of(pipeline: String, kind: PipelineKind, balance: Balance, error: Option<String>) -> Self {
        let Balance { accepted, in_flight, delivered, open, parked, resolved, expired, dropped } = balance;
        Self {
            pipeline,
            kind: kind.into(),
            accepted,
            in_flight,
            delivered,
            open,
            parked,
            resolved,
            expired,
            dropped,
            gap: balance.gap(),
            error,
        }
    }
}
