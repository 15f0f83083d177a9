//! The fuse of one rule: letters that come back dead whenever they are sent are not sent on and on.
//!
//! The breaker of a handler does not see them: a service that answers each of them with a refusal is there, and a
//! letter that dies of it is one that its rule means, so it is sent again.
//!
//! ```text
//!   whole ──(nearly all of 300 failed again)──▶ blown ──(pause over)──▶ probing, with a few letters
//!     ▲                                           ▲                          │
//!     └─────────── a letter gets through ─────────┼──────────────────────────┤
//!                                                 └── all failed again ──────┘
//!                                                     for twice as long
//! ```
//!
//! As long as nobody knows what became of those that were sent, no more are sent than the fuse stands: else a look
//! would send a thousand before the first has failed.
//!
//! Pure: the time comes in as an argument.

use std::time::{Duration, Instant};

/// How many more failures than the successes make up for blow it.
const STANDS: usize = 300;
/// How many failures one success makes up for: one in twenty that gets through is no outage.
const MAKES_UP_FOR: usize = 20;
/// The most letters whose outcome is not known, once letters have got through of late.
const MOST: usize = 1_000;
/// How many letters see whether it works again.
const PROBES: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(2 * 60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// What an outcome changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// The rule rests for so long.
    Blown(Duration),
    /// It sends letters again as usual.
    Mended,
}

/// The fuse of one rule.
#[derive(Debug)]
pub(super) struct Fuse {
    state: State,
    /// Failures that no success has made up for.
    failures: usize,
    /// Whether letters have got through of late.
    is_proven: bool,
    /// How long it rests the next time.
    pause: Duration,
}

#[derive(Debug)]
enum State {
    Whole,
    Blown { until: Instant },
    Probing { sent: usize, failed: usize },
}

impl Default for Fuse {
    fn default() -> Self {
        Self { state: State::Whole, failures: 0, is_proven: false, pause: FIRST_PAUSE }
    }
}

impl Fuse {
    /// How many letters may be sent now, while it is not known what became of so many.
    pub(super) fn room(&mut self, unknown: usize, now: Instant) -> usize {
        match &self.state {
            State::Blown { until } if now < *until => 0,
            State::Blown { .. } => {
                self.state = State::Probing { sent: 0, failed: 0 };
                PROBES
            }
            State::Probing { sent, .. } => PROBES.saturating_sub(*sent),
            State::Whole if self.is_proven => MOST.saturating_sub(unknown),
            State::Whole => STANDS.saturating_sub(self.failures + unknown),
        }
    }

    /// Letters were sent.
    pub(super) fn sent(&mut self, letters: usize) {
        if let State::Probing { sent, .. } = &mut self.state {
            *sent += letters;
        }
    }

    /// A letter that was sent failed again.
    pub(super) fn note_failure(&mut self, now: Instant) -> Change {
        match &mut self.state {
            // One that was sent before it had blown says nothing of now.
            State::Blown { .. } | State::Probing { sent: 0, .. } => return Change::None,
            State::Probing { sent, failed } => {
                *failed += 1;
                if *failed < *sent {
                    return Change::None;
                }
            }
            State::Whole => {
                self.failures += 1;
                self.is_proven &= self.failures < MAKES_UP_FOR;
                if self.failures < STANDS {
                    return Change::None;
                }
            }
        }
        let pause = self.pause;
        self.state = State::Blown { until: now + pause };
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Change::Blown(pause)
    }

    /// A letter that was sent got through.
    pub(super) fn note_success(&mut self) -> Change {
        self.is_proven = true;
        if let State::Whole = self.state {
            self.failures = self.failures.saturating_sub(MAKES_UP_FOR);
            return Change::None;
        }
        *self = Self { is_proven: true, ..Self::default() };
        Change::Mended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blown(now: Instant) -> Fuse {
        let mut fuse = Fuse::default();
        for _ in 1..STANDS {
            assert_eq!(fuse.note_failure(now), Change::None);
        }
        assert_eq!(fuse.note_failure(now), Change::Blown(FIRST_PAUSE));
        fuse
    }

    #[test]
    fn no_more_are_sent_than_it_stands_until_one_gets_through() {
        let (mut fuse, now) = (Fuse::default(), Instant::now());
        assert_eq!((fuse.room(0, now), fuse.room(STANDS, now)), (STANDS, 0));
        fuse.note_failure(now);
        assert_eq!(fuse.room(10, now), STANDS - 11);
        fuse.note_success();
        assert_eq!((fuse.room(0, now), fuse.room(10, now)), (MOST, MOST - 10));
    }

    #[test]
    fn a_blown_one_sends_nothing_and_then_a_few() {
        let now = Instant::now();
        let mut fuse = blown(now);
        assert_eq!(fuse.room(0, now + FIRST_PAUSE - Duration::from_secs(1)), 0);
        assert_eq!(fuse.room(0, now + FIRST_PAUSE), PROBES);
        fuse.sent(2);
        assert_eq!(fuse.room(2, now + FIRST_PAUSE), PROBES - 2);
    }

    #[test]
    fn it_rests_longer_each_time_up_to_an_hour() {
        let mut now = Instant::now();
        let mut fuse = blown(now);
        let mut rested = FIRST_PAUSE;
        for _ in 0..10 {
            now += rested;
            let probes = fuse.room(0, now);
            fuse.sent(probes);
            for _ in 1..probes {
                assert_eq!(fuse.note_failure(now), Change::None);
            }
            let expected = (rested * 2).min(LONGEST_PAUSE);
            assert_eq!(fuse.note_failure(now), Change::Blown(expected));
            rested = expected;
        }
        assert_eq!(rested, LONGEST_PAUSE);
    }

    #[test]
    fn one_that_gets_through_mends_it_even_before_the_pause_is_over() {
        let now = Instant::now();
        for later in [Duration::ZERO, FIRST_PAUSE] {
            let mut fuse = blown(now);
            let probes = fuse.room(0, now + later);
            fuse.sent(probes);
            assert_eq!(fuse.note_success(), Change::Mended);
            assert_eq!(fuse.room(0, now), MOST);
            assert_eq!(fuse.pause, FIRST_PAUSE, "and the next pause is short again");
        }
    }

    #[test]
    fn a_few_that_get_through_do_not_hide_an_outage_and_a_tenth_is_none() {
        let now = Instant::now();
        let blows = |one_in: usize| {
            let mut fuse = Fuse::default();
            (1..10_000).any(|letter| match letter % one_in {
                0 => fuse.note_success() != Change::None,
                _ => fuse.note_failure(now) != Change::None,
            })
        };
        assert!(blows(100) && !blows(10));
    }
}
