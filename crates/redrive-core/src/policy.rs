//! The policy: a failure and how often it happened in, a verdict out.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::classify::http::LONGEST_RETRY_AFTER;
use crate::failure::{Class, Failure};

/// What to do about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after this long.
    Retry {
        /// The delay, from now.
        after: Duration,
    },
    /// Set aside for a later, slower consumer (the Kafka parking lot).
    Park,
    /// Make it a dead letter.
    Bury,
}

/// What happens to an event whose attempts are used up while its failure is still retryable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// It becomes a dead letter.
    Bury,
    /// It is parked.
    Park,
}

/// How often to try, how long to wait in between, and what to do at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    attempts: u32,
    backoff: Backoff,
    exhausted: Exhausted,
}

impl Policy {
    /// At most `attempts` tries in all (at least one), with `backoff` between them.
    #[must_use]
    pub fn new(attempts: u32, backoff: Backoff) -> Self {
        Self { attempts: attempts.max(1), backoff, exhausted: Exhausted::Bury }
    }

    /// The same policy with another end for exhausted events.
    #[must_use]
    pub fn on_exhausted(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// The same policy with the limit that a row brings itself.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How many tries there are in all.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Decides about a failure that `failed_before` others came before.
    ///
    /// The seed only spreads the delay: the same arguments give the same verdict.
    #[must_use]
    pub fn decide(&self, failure: &Failure, failed_before: u32, seed: u64) -> Verdict {
        if !failure.class.is_retryable() {
            return Verdict::Bury;
        }
        let failed = failed_before.saturating_add(1);
        if failed >= self.attempts {
            return self.exhausted();
        }
        Verdict::Retry { after: self.delay(failure.class, failed, seed) }
    }

    fn exhausted(&self) -> Verdict {
        match self.exhausted {
            Exhausted::Bury => Verdict::Bury,
            Exhausted::Park => Verdict::Park,
        }
    }

    /// Never earlier than the other side asked for, even beyond the backoff's own cap; but a handler may ask for
    /// anything, and no store can write down a moment after the end of time.
    fn delay(&self, class: Class, failed: u32, seed: u64) -> Duration {
        let own = self.backoff.delay(failed, seed);
        match class {
            Class::Throttled { retry_after } => own.max(retry_after.min(LONGEST_RETRY_AFTER)),
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: u32) -> Policy {
        let backoff = Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(300)).unwrap();
        Policy::new(attempts, backoff)
    }

    #[test]
    fn an_outbox_event_is_retried_five_times_and_buried_by_the_sixth_failure() {
        let failure = Failure::unclassified("Error", "boom");
        let policy = policy(6);
        for failed_before in 0..5 {
            assert!(matches!(policy.decide(&failure, failed_before, 1), Verdict::Retry { .. }));
        }
        assert_eq!(policy.decide(&failure, 5, 1), Verdict::Bury);
        assert_eq!(policy.decide(&failure, u32::MAX, 1), Verdict::Bury);
    }

    #[test]
    fn a_permanent_failure_is_buried_at_once() {
        for failure in [
            Failure::permanent("Refused", "no"),
            Failure::malformed("NotJson", "no"),
            Failure::unhandled("OrderCreated"),
        ] {
            assert_eq!(policy(6).decide(&failure, 0, 1), Verdict::Bury);
        }
    }

    #[test]
    fn an_exhausted_transient_failure_is_parked_where_the_policy_says_so() {
        let policy = policy(2).on_exhausted(Exhausted::Park);
        assert_eq!(policy.decide(&Failure::transient("Timeout", ""), 1, 1), Verdict::Park);
        assert_eq!(policy.decide(&Failure::permanent("Refused", ""), 1, 1), Verdict::Bury);
    }

    #[test]
    fn a_throttled_event_waits_at_least_as_long_as_it_was_told() {
        let hour = Duration::from_secs(3600);
        let failure = Failure::new(Class::Throttled { retry_after: hour }, "429", "slow down");
        assert_eq!(policy(6).decide(&failure, 0, 1), Verdict::Retry { after: hour });
    }

    #[test]
    fn a_throttled_event_waits_for_a_day_at_most() {
        let failure = Failure::new(Class::Throttled { retry_after: Duration::MAX }, "429", "never");
        assert_eq!(policy(6).decide(&failure, 0, 1), Verdict::Retry { after: LONGEST_RETRY_AFTER });
    }
}
