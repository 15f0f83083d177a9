//! The breaker of one handler: an outage is not poison.
//!
//! When several different events in a row fail transiently and none succeeds, it is the handler that
//! is down, not the events that are bad. The breaker then opens: events are put off without being
//! counted, and one at a time is let through to see whether the handler is back. A single event that
//! fails for ever does not open it, so poison still ends as a dead letter.
//!
//! ```text
//!   closed ──(different events fail in a row)──▶ open ──(cool-down over)──▶ half-open (one probe)
//!     ▲                                           ▲                              │
//!     └──────────────── any other answer ─────────┼───────── transient again ────┘
//!                                                 └───────── with a longer cool-down
//! ```
//! Pure: the time comes in as an argument.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redrive_core::event::WorkId;
use redrive_core::failure::Class;

/// How many different events must fail in a row.
const DEFAULT_THRESHOLD: usize = 5;
/// The first and the longest cool-down.
const FIRST_COOL_DOWN: Duration = Duration::from_secs(1);
const LONGEST_COOL_DOWN: Duration = Duration::from_secs(60);
/// A probe that never answers is given up after this long.
const PROBE_PATIENCE: Duration = Duration::from_secs(300);

/// Whether an event may be handled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Yes,
    /// Not before this long.
    After(Duration),
}

/// What an outcome changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The handler is down.
    Opened,
    /// The handler is back.
    Closed,
}

/// The breaker of one handler.
#[derive(Debug)]
pub struct Breaker {
    threshold: usize,
    state: State,
    cool_down: Duration,
}

#[derive(Debug)]
enum State {
    Closed { failed: HashSet<WorkId> },
    Open { until: Instant },
    HalfOpen { probe: WorkId, since: Instant },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(DEFAULT_THRESHOLD)
    }
}

impl Breaker {
    /// A breaker that opens when this many different events fail in a row.
    #[must_use]
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold: threshold.max(2),
            state: State::Closed { failed: HashSet::new() },
            cool_down: FIRST_COOL_DOWN,
        }
    }

    /// Whether it lets events through as usual.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Asks whether this event may be handled now.
    pub fn admit(&mut self, event: WorkId, now: Instant) -> Admission {
        match self.state {
            State::Closed { .. } => Admission::Yes,
            State::Open { until } if now < until => Admission::After(until - now),
            State::HalfOpen { since, .. } if now < since + PROBE_PATIENCE => Admission::After(self.cool_down),
            State::Open { .. } | State::HalfOpen { .. } => {
                self.state = State::HalfOpen { probe: event, since: now };
                Admission::Yes
            }
        }
    }

    /// Notes how an event ended: with a failure of this class, or without one.
    pub fn note(&mut self, event: WorkId, failure: Option<Class>, now: Instant) -> Change {
        let outage = matches!(failure, Some(Class::Transient | Class::Throttled { .. }));
        match (&mut self.state, outage) {
            (State::Closed { failed }, false) => {
                failed.clear();
                Change::None
            }
            (State::Closed { failed }, true) => {
                failed.insert(event);
                if failed.len() < self.threshold {
                    return Change::None;
                }
                self.cool_down = FIRST_COOL_DOWN;
                self.state = State::Open { until: now + self.cool_down };
                Change::Opened
            }
            (State::Open { .. } | State::HalfOpen { .. }, false) => {
                self.state = State::Closed { failed: HashSet::new() };
                self.cool_down = FIRST_COOL_DOWN;
                Change::Closed
            }
            (State::HalfOpen { probe, .. }, true) if *probe == event => {
                self.cool_down = (self.cool_down * 2).min(LONGEST_COOL_DOWN);
                self.state = State::Open { until: now + self.cool_down };
                Change::None
            }
            (State::Open { .. } | State::HalfOpen { .. }, true) => Change::None,
        }
    }

    /// How long events should stay away, as long as it is not closed.
    #[must_use]
    pub fn put_off(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until } => Some(until.saturating_duration_since(now)),
            State::HalfOpen { .. } => Some(self.cool_down),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: Option<Class> = Some(Class::Transient);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3);
        assert_eq!(breaker.note(WorkId(1), DOWN, now), Change::None);
        assert_eq!(breaker.note(WorkId(2), DOWN, now), Change::None);
        assert_eq!(breaker.note(WorkId(3), DOWN, now), Change::Opened);
        breaker
    }

    #[test]
    fn one_event_that_always_fails_does_not_open_it() {
        let (mut breaker, now) = (Breaker::new(3), Instant::now());
        for _ in 0..100 {
            assert_eq!(breaker.note(WorkId(1), DOWN, now), Change::None);
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn a_success_in_between_starts_the_count_again() {
        let (mut breaker, now) = (Breaker::new(3), Instant::now());
        for round in 0..100 {
            breaker.note(WorkId(round), DOWN, now);
            breaker.note(WorkId(1000 + round), None, now);
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn an_open_one_puts_events_off_and_then_lets_one_probe_through() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(WorkId(4), now), Admission::After(FIRST_COOL_DOWN));
        let later = now + FIRST_COOL_DOWN;
        assert_eq!(breaker.admit(WorkId(4), later), Admission::Yes);
        assert_eq!(breaker.admit(WorkId(5), later), Admission::After(FIRST_COOL_DOWN));
    }

    #[test]
    fn a_failed_probe_doubles_the_cool_down_up_to_its_cap() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for _ in 0..20 {
            now += LONGEST_COOL_DOWN;
            assert_eq!(breaker.admit(WorkId(4), now), Admission::Yes);
            assert_eq!(breaker.note(WorkId(4), DOWN, now), Change::None);
        }
        assert_eq!(breaker.put_off(now), Some(LONGEST_COOL_DOWN));
    }

    #[test]
    fn any_answer_that_is_no_outage_closes_it() {
        for answer in [None, Some(Class::Permanent), Some(Class::Unclassified)] {
            let now = Instant::now();
            let mut breaker = opened(now);
            breaker.admit(WorkId(4), now + FIRST_COOL_DOWN);
            assert_eq!(breaker.note(WorkId(4), answer, now), Change::Closed);
            assert!(breaker.is_closed());
        }
    }

    #[test]
    fn a_probe_that_never_answers_is_given_up() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.admit(WorkId(4), now + FIRST_COOL_DOWN);
        let much_later = now + FIRST_COOL_DOWN + PROBE_PATIENCE;
        assert_eq!(breaker.admit(WorkId(5), much_later), Admission::Yes);
    }
}
