//! Operations on many letters, as the API shows them.

use jiff::Timestamp;
use redrive_engine::console::{Preview, Request};
use redrive_store::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OperationStateName;

/// A page of operations.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OperationPage {
    /// The operations, newest first.
    pub operations: Vec<OperationView>,
    /// Where the next page starts, as `before`; null at the end.
    pub next: Option<i64>,
}

/// An operation and how far it is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OperationView {
    /// Its number.
    pub id: i64,
    /// What it does: `redrive` or `resolve`.
    pub action: String,
    /// Whose operation it is.
    pub operator: String,
    /// Why.
    pub note: String,
    /// Which letters it is about, for people.
    pub subject: String,
    /// The most letters per second; null for no limit.
    pub rate: Option<u32>,
    /// How many letters each step of its ramp sends; empty without one.
    pub canary: Vec<u32>,
    /// How far it is.
    pub state: OperationStateName,
    /// Why it is in that state, if there is more to say.
    pub reason: String,
    /// How many letters it was confirmed for.
    pub total: u64,
    /// How many are done.
    pub done: u64,
    /// How many were refused, because somebody was faster or it cannot be done to them.
    pub refused: u64,
    /// How many of those that were followed have failed again.
    pub failed: u64,
    /// When it was confirmed.
    pub created_at: Timestamp,
    /// When something about it last changed.
    pub updated_at: Timestamp,
    /// Some of the letters that were refused, with the reasons; only when one operation is asked for.
    #[serde(default)]
    pub refusals: Vec<String>,
}

/// What an operation would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PreviewView {
    /// How many letters of each pipeline wait and are meant.
    pub letters: Vec<CountView>,
    /// How many in all.
    pub total: u64,
    /// When they were counted.
    pub as_of: Timestamp,
}

/// How many letters of one pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CountView {
    /// The pipeline.
    pub pipeline: String,
    /// How many.
    pub count: u64,
}

/// What was done to one letter.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// The letter.
    pub id: String,
    /// What was done: `redrive`, `resolve`, or `take in`.
    pub action: String,
}

impl From<Operation> for OperationView {
    fn from(operation: Operation) -> Self {
        let request = Request::of(&operation.request).ok();
        let (rate, canary) = match &request {
            Some(request) => (request.rate, request.canary.as_ref().map(|canary| canary.steps.clone())),
            None => (None, None),
        };
        Self {
            id: operation.id,
            action: operation.action,
            operator: operation.operator,
            note: operation.note,
            subject: request.map(|request| request.subject()).unwrap_or_default(),
            rate,
            canary: canary.unwrap_or_default(),
            state: operation.state.into(),
            reason: operation.reason,
            total: operation.total,
            done: operation.done,
            refused: operation.refused,
            failed: operation.failed,
            created_at: operation.created_at,
            updated_at: operation.updated_at,
            refusals: Vec::new(),
        }
    }
}

impl From<Preview> for PreviewView {
    fn from(preview: Preview) -> Self {
        let total = preview.total();
        let count = |(pipeline, count)| CountView { pipeline, count };
        Self { letters: preview.letters.into_iter().map(count).collect(), total, as_of: preview.as_of }
    }
}
