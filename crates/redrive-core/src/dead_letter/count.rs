//! How many letters there are: in all, of each group, in each hour.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Status;
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;

/// Letters that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub fingerprint: Fingerprint,
    /// The type of its events.
    pub event_type: String,
    /// One of its failures, to read.
    pub failure: Failure,
    /// How many letters wait in it.
    pub count: u64,
    /// When the first of them failed.
    pub first_seen: Timestamp,
    /// When the latest of them failed.
    pub last_seen: Timestamp,
}

/// Letters of one group that died within one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    /// The group.
    pub fingerprint: Fingerprint,
    /// When the hour began.
    pub hour: Timestamp,
    /// How many of its letters died in it, whatever has become of them since.
    pub count: u64,
}

/// How many letters there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// How many are in each state.
    pub by_status: Vec<(Status, u64)>,
    /// How many wait for a person, by event type.
    pub waiting_by_type: Vec<(String, u64)>,
    /// When the oldest of those failed.
    pub oldest_waiting: Option<Timestamp>,
}

impl Stats {
    /// How many letters are in this state.
    #[must_use]
    pub fn count(&self, status: Status) -> u64 {
        self.by_status.iter().find(|(of, _)| *of == status).map_or(0, |(_, count)| *count)
    }

    /// How many letters wait for a person: open or failed.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.count(Status::Open) + self.count(Status::Failed)
    }
}
