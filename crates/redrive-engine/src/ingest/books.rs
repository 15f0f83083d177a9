//! The books of an ingest pipeline, since the process started: what it accepted is somewhere.
//!
//! Files that an earlier process left on disk are taken into the books when something becomes of them.

use std::sync::atomic::{AtomicU64, Ordering};

use redrive_core::books::Balance;

/// Counts events.
#[derive(Debug, Default)]
pub(super) struct Books {
    accepted: AtomicU64,
    delivered: AtomicU64,
    /// On disk, of those that were accepted.
    spooled: AtomicU64,
    resolved: AtomicU64,
    expired: AtomicU64,
    dropped: AtomicU64,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Delivered,
    Resolved,
    Expired,
}

/// Whose file it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// This process, which has counted its events.
    Ours,
    /// An earlier one, or somebody else.
    Other,
}

impl Books {
    pub(super) fn accepted(&self, events: u64) {
        self.accepted.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn delivered(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, events: u64) {
        self.dropped.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn spooled(&self, events: u64) {
        self.spooled.fetch_add(events, Ordering::Relaxed);
    }

    /// A file left the disk.
    pub(super) fn left_disk(&self, fate: Fate, events: u64, author: Author) {
        match author {
            Author::Ours => self.spooled.fetch_sub(events, Ordering::Relaxed),
            Author::Other => self.accepted.fetch_add(events, Ordering::Relaxed),
        };
        let place = match fate {
            Fate::Delivered => &self.delivered,
            Fate::Resolved => &self.resolved,
            Fate::Expired => &self.expired,
        };
        place.fetch_add(events, Ordering::Relaxed);
    }

    /// With so many events in memory.
    pub(super) fn balance(&self, in_flight: u64) -> Balance {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Balance {
            accepted: of(&self.accepted),
            in_flight,
            delivered: of(&self.delivered),
            open: of(&self.spooled),
            parked: 0,
            resolved: of(&self.resolved),
            expired: of(&self.expired),
            dropped: of(&self.dropped),
        }
    }
}
