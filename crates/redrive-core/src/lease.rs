//! Leases and settlements: who may decide about a piece of work, and what they may decide.
//!
//! A claim hands out a [`Lease`]. It cannot be cloned, and settling takes it by value, so a program
//! can settle a claim once. The store repeats the check with the fencing number: when the lease
//! ran out and somebody else claimed the work, the late settlement changes nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::event::{Event, WorkId};
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;
use crate::history::History;

/// The right to settle one piece of work, until it runs out.
#[must_use = "a lease that is dropped leaves its work blocked until it expires: settle it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    work: WorkId,
    fence: i64,
    until: Timestamp,
}

impl Lease {
    /// For stores: the lease that a claim has just written down.
    pub const fn new(work: WorkId, fence: i64, until: Timestamp) -> Self {
        Self { work, fence, until }
    }

    /// The work it is about.
    #[must_use]
    pub const fn work(&self) -> WorkId {
        self.work
    }

    /// The fencing number: grows with every claim of the same work.
    #[must_use]
    pub const fn fence(&self) -> i64 {
        self.fence
    }

    /// When it runs out, by the store's clock.
    #[must_use]
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    /// For stores: the same lease, extended.
    pub const fn extend(&mut self, until: Timestamp) {
        self.until = until;
    }
}

/// A claimed piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// What to hand to the handler.
    pub event: Event,
    /// How many attempts have failed so far.
    pub retry_count: u32,
    /// The row's own limit of attempts, where rows have one (jobs).
    pub max_retries: Option<u32>,
    /// The previous holder never settled: its lease ran out. That attempt has failed and has not
    /// been counted yet.
    pub interrupted: bool,
    /// The attempts so far.
    pub history: History,
}

/// A failed attempt, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What went wrong.
    pub failure: Arc<Failure>,
    /// Which group it belongs to.
    pub fingerprint: Fingerprint,
    /// The attempts so far, this one included.
    pub history: History,
}

impl Failed {
    /// The attempt of `pipeline` at this work that ended in `failure`.
    #[must_use]
    pub fn new(pipeline: &str, work: &Work, failure: Failure, at: Timestamp) -> Self {
        Self::after(work.history.clone(), pipeline, &work.event.event_type, failure, at)
    }

    /// The same for work of this history and type.
    #[must_use]
    pub fn after(
        history: History,
        pipeline: &str,
        event_type: &str,
        failure: Failure,
        at: Timestamp,
    ) -> Self {
        let failure = Arc::new(failure);
        Self {
            fingerprint: Fingerprint::of(pipeline, event_type, &failure),
            history: history.with(Arc::clone(&failure), at),
            failure,
        }
    }
}

/// What became of a piece of work.
///
/// Delays are relative: the store adds them to its own clock, so a worker whose clock is wrong
/// cannot retry too early or never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It is delivered.
    Done,
    /// It failed and is tried again after the delay; counts as an attempt.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong.
        failed: Failed,
    },
    /// It failed for good and becomes a dead letter.
    Dead {
        /// What went wrong.
        failed: Failed,
    },
    /// Its holder died with it and with other work, and nobody knows whose fault that was: written down, not counted,
    /// and tried again after the delay.
    Suspect {
        /// How long to wait.
        after: Duration,
        /// That it was interrupted.
        failed: Failed,
    },
    /// It is handed back untried, for after the delay; burns no attempt.
    Release {
        /// How long nobody should take it.
        after: Duration,
    },
}
