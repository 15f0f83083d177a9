//! Groups, as the API shows them.

use jiff::Timestamp;
use redrive_engine::console::PipelineGroup;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FailureView, KindName, Unanswered};

/// The groups of letters that wait.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GroupsPage {
    /// The groups, the largest first.
    pub groups: Vec<GroupView>,
    /// The pipelines whose store did not answer: their groups are missing here.
    pub unavailable: Vec<Unanswered>,
}

/// Letters that failed for the same reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GroupView {
    /// Its name.
    pub fingerprint: String,
    /// The pipeline's name.
    pub pipeline: String,
    /// The pipeline's kind.
    pub kind: KindName,
    /// The type of its events.
    pub event_type: String,
    /// One of its failures, to read.
    pub failure: FailureView,
    /// How many letters wait in it.
    pub count: u64,
    /// When the first of them failed.
    pub first_seen: Timestamp,
    /// When the latest of them failed.
    pub last_seen: Timestamp,
    /// How many of its letters died in each of the last 24 hours, oldest first.
    pub history: Vec<u64>,
}

impl From<PipelineGroup> for GroupView {
    fn from(PipelineGroup { pipeline, kind, group, history }: PipelineGroup) -> Self {
        Self {
            fingerprint: group.fingerprint.to_string(),
            pipeline,
            kind: kind.into(),
            event_type: group.event_type,
            failure: group.failure.into(),
            count: group.count,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
            history,
        }
    }
}
