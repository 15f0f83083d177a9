//! The books of a pipeline: everything that was accepted is somewhere.
//!
//! Only the sum: who counts, and when, is the pipeline's affair. One that counts while events move may be off
//! by those for a moment.

use serde::{Deserialize, Serialize};

/// Where the events of a pipeline are. Each is counted once: an event that was redriven is where it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
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

impl Balance {
    /// How many events are missing; below zero, so many are in two places. Zero is right.
    #[must_use]
    pub fn gap(&self) -> i64 {
        let Self { accepted, in_flight, delivered, open, parked, resolved, expired, dropped } = *self;
        let found = [in_flight, delivered, open, parked, resolved, expired, dropped];
        let found = found.into_iter().fold(0_u64, u64::saturating_add);
        i64::try_from(i128::from(accepted) - i128::from(found)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_event_and_one_in_two_places_are_seen() {
        let right = Balance { accepted: 3, delivered: 1, open: 1, in_flight: 1, ..Balance::default() };
        assert_eq!(right.gap(), 0);
        assert_eq!(Balance { open: 0, ..right }.gap(), 1);
        assert_eq!(Balance { resolved: 2, ..right }.gap(), -2);
    }
}
