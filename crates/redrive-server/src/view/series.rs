//! Numbers over time, as the API shows them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Numbers over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatsView {
    /// When they begin.
    pub since: Timestamp,
    /// How many seconds each point stands for.
    pub step: u64,
    /// One for each pipeline.
    pub pipelines: Vec<SeriesView>,
}

/// The numbers of one pipeline over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeriesView {
    /// The pipeline.
    pub pipeline: String,
    /// The points, oldest first; a step in which nothing was sampled has none.
    pub points: Vec<PointView>,
}

/// One step of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PointView {
    /// When the step begins.
    pub at: Timestamp,
    /// Events that were done in it.
    pub delivered: u64,
    /// Attempts that failed in it and were to be tried again.
    pub failed: u64,
    /// Events that died in it.
    pub dead: u64,
    /// Work that waited at its end.
    pub backlog: u64,
    /// Letters that waited for a person at its end.
    pub waiting: u64,
    /// The age of the oldest of those, in seconds.
    pub oldest: u64,
}
