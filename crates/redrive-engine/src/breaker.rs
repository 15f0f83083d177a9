//! The breaker of one handler: an outage is not poison, and poison is not an outage.
//!
//! When nobody answers, or several different events in a row fail transiently and none succeeds, it is the
//! handler that is down, not the events that are bad. The breaker then opens: events are put off without being
//! counted, and a few are let through now and then to see whether the handler is back.
//!
//! ```text
//!   closed ──(nobody answers, or different events fail in a row)──▶ open ──(cool-down over)──▶ half-open
//!     ▲                                                              ▲                          (probes)
//!     └──────────────────────────── any other answer ────────────────┼──────── all fail again ────┘
//!                                                                    └──────── with a longer cool-down
//! ```
//!
//! Poison that looks like an outage (a service that answers 500, or dies, whenever it sees one event) must neither
//! hold up the others nor live for ever:
//! - an event that has failed is not the next probe, as long as there is one that has not;
//! - there are twice as many probes each time, so that among many bad events a good one is soon found;
//! - whoever failed, and has seen another succeed since, is suspect: its further failures are its own. They are
//!   counted, and open nothing.
//!
//! Pure: the time comes in as an argument.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use redrive_core::classify::http::LONGEST_RETRY_AFTER;
use redrive_core::event::WorkId;
use redrive_core::failure::{Class, Code, Failure};

/// How many different events must fail in a row.
const DEFAULT_THRESHOLD: usize = 5;
/// The first and the longest cool-down.
const FIRST_COOL_DOWN: Duration = Duration::from_secs(1);
const LONGEST_COOL_DOWN: Duration = Duration::from_secs(60);
/// The most probes at a time.
const MOST_PROBES: usize = 16;
/// Probes that never answer are given up after this long.
const PROBE_PATIENCE: Duration = Duration::from_secs(300);
/// How many events are remembered for having failed.
const MOST_REMEMBERED: usize = 10_000;

/// Whether an event may be handled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes.
    Yes,
    /// Not before this long.
    After(Duration),
}

/// What an outcome changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The handler is down.
    Opened,
    /// The handler is back.
    Closed,
}

/// Since when a handler is down, and what it failed with then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    pub(crate) failure: Failure,
}

/// What an outcome says about the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is there: it did its work, or blamed the event.
    Present,
    /// It may be down: it failed in a way that may pass.
    Doubtful,
    /// It is down: nobody answered, or somebody in front of it said so.
    Absent,
    /// It did not answer in time: whose fault that is, nobody knows.
    Silent,
}

/// The breaker of one handler.
#[derive(Debug)]
pub(crate) struct Breaker {
    threshold: usize,
    state: State,
    outage: Option<Outage>,
    cool_down: Duration,
    /// How many probes the next look has.
    probes: usize,
    /// Who failed, and how often others had succeeded then.
    failed: HashMap<WorkId, u64>,
    successes: u64,
}

#[derive(Debug)]
enum State {
    /// The different events that failed since the last success.
    Closed {
        in_a_row: HashSet<WorkId>,
    },
    Open {
        until: Instant,
    },
    HalfOpen {
        probes: HashSet<WorkId>,
        left: usize,
        since: Instant,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(DEFAULT_THRESHOLD)
    }
}

impl Breaker {
    /// A breaker that opens when this many different events fail in a row.
    #[must_use]
    pub(crate) fn new(threshold: usize) -> Self {
        Self {
            threshold: threshold.max(2),
            state: State::Closed { in_a_row: HashSet::new() },
            outage: None,
            cool_down: FIRST_COOL_DOWN,
            probes: 1,
            failed: HashMap::new(),
            successes: 0,
        }
    }

    /// Whether it lets events through as usual.
    #[must_use]
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// The outage that it is open for.
    #[must_use]
    pub(crate) const fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// Asks whether this event may be handled now.
    pub(crate) fn admit(&mut self, event: WorkId, now: Instant) -> Admission {
        let has_failed = self.failed.contains_key(&event);
        match &mut self.state {
            State::Closed { .. } => return Admission::Yes,
            State::Open { until } => {
                // Another one, if there is any, tells more than one that failed before.
                let begin = if has_failed { *until + self.cool_down / 4 } else { *until };
                if now < begin {
                    return Admission::After(begin - now);
                }
            }
            State::HalfOpen { probes, left, since } if now < *since + PROBE_PATIENCE => {
                let is_early = has_failed && now < *since + self.cool_down / 4;
                if *left == 0 || is_early {
                    return Admission::After(self.cool_down);
                }
                *left -= 1;
                probes.insert(event);
                return Admission::Yes;
            }
            State::HalfOpen { .. } => {}
        }
        let left = self.probes - 1;
        self.state = State::HalfOpen { probes: HashSet::from([event]), left, since: now };
        Admission::Yes
    }

    /// Notes how an event ended.
    pub(crate) fn note(&mut self, event: WorkId, failure: Option<&Failure>, now: Instant) -> Change {
        let (answer, retry_after) = (Answer::of(failure), retry_after(failure));
        let is_suspect = self.is_suspect(event);
        match failure {
            None => self.remember_success(event),
            Some(_) if answer.is_down() => self.remember_failure(event),
            Some(_) => {}
        }
        match (&mut self.state, answer) {
            (State::Closed { in_a_row }, Answer::Present) => in_a_row.clear(),
            (State::Closed { .. }, Answer::Silent) => {}
            (State::Closed { .. }, _) if is_suspect => {}
            (State::Closed { in_a_row }, _) => {
                in_a_row.insert(event);
                if answer == Answer::Absent || in_a_row.len() >= self.threshold {
                    (self.cool_down, self.probes) = (FIRST_COOL_DOWN, 1);
                    self.state = State::Open { until: now + self.cool_down.max(retry_after) };
                    self.outage = failure.map(|failure| Outage { since: now, failure: failure.clone() });
                    return Change::Opened;
                }
            }
            (State::Open { .. } | State::HalfOpen { .. }, Answer::Present) => {
                self.state = State::Closed { in_a_row: HashSet::new() };
                self.outage = None;
                return Change::Closed;
            }
            (State::Open { until }, _) => *until = (*until).max(now + retry_after),
            (State::HalfOpen { probes, left, .. }, _) => {
                if probes.remove(&event) && probes.is_empty() && *left == 0 {
                    self.cool_down = (self.cool_down * 2).min(LONGEST_COOL_DOWN);
                    self.probes = (self.probes * 2).min(MOST_PROBES);
                    self.state = State::Open { until: now + self.cool_down.max(retry_after) };
                }
            }
        }
        Change::None
    }

    /// How long an event that failed so should stay away without being counted; nothing when it counts.
    #[must_use]
    pub(crate) fn excuse(&self, failure: &Failure, now: Instant) -> Option<Duration> {
        if !Answer::of(Some(failure)).is_down() {
            return None;
        }
        match &self.state {
            State::Closed { .. } => None,
            State::Open { until } => Some(until.saturating_duration_since(now)),
            State::HalfOpen { .. } => Some(self.cool_down),
        }
    }

    /// Whether it failed, and another one has succeeded since.
    fn is_suspect(&self, event: WorkId) -> bool {
        self.failed.get(&event).is_some_and(|successes| *successes < self.successes)
    }

    fn remember_success(&mut self, event: WorkId) {
        self.successes += 1;
        self.failed.remove(&event);
    }

    fn remember_failure(&mut self, event: WorkId) {
        if self.failed.len() >= MOST_REMEMBERED {
            self.failed.clear();
        }
        self.failed.insert(event, self.successes);
    }
}

impl Answer {
    fn of(failure: Option<&Failure>) -> Self {
        let Some(failure) = failure else { return Self::Present };
        match (failure.class, &failure.code) {
            (Class::Transient, Some(Code::Http(502..=504) | Code::Kafka(_))) => Self::Absent,
            (Class::Transient, Some(Code::Io(kind))) if is_refusal(kind) => Self::Absent,
            (Class::Transient, _) if failure.kind == "CommandNotStarted" => Self::Absent,
            (Class::Transient | Class::Throttled { .. }, _) => Self::Doubtful,
            (Class::Unclassified, _) if failure.kind == "Timeout" => Self::Silent,
            _ => Self::Present,
        }
    }

    /// Whether it speaks of an outage.
    const fn is_down(self) -> bool {
        matches!(self, Self::Doubtful | Self::Absent)
    }
}

/// How long the other side asked to be left alone: for a day at most, as a handler may say anything.
fn retry_after(failure: Option<&Failure>) -> Duration {
    match failure.map(|failure| failure.class) {
        Some(Class::Throttled { retry_after }) => retry_after.min(LONGEST_RETRY_AFTER),
        _ => Duration::ZERO,
    }
}

/// Whether nobody was there. A connection that breaks later may be the event's doing.
fn is_refusal(kind: &str) -> bool {
    matches!(
        kind,
        "ConnectionRefused" | "HostUnreachable" | "NetworkUnreachable" | "NetworkDown" | "TimedOut"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Failure {
        Failure::transient("HttpStatus", "500").with_code(Code::Http(500))
    }

    fn gone() -> Failure {
        Failure::transient("Connection", "refused").with_code(Code::Io("ConnectionRefused".into()))
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3);
        assert_eq!(breaker.note(WorkId(1), Some(&down()), now), Change::None);
        assert_eq!(breaker.note(WorkId(2), Some(&down()), now), Change::None);
        assert_eq!(breaker.note(WorkId(3), Some(&down()), now), Change::Opened);
        breaker
    }

    #[test]
    fn one_event_that_always_fails_does_not_open_it() {
        let (mut breaker, now) = (Breaker::new(3), Instant::now());
        for _ in 0..100 {
            assert_eq!(breaker.note(WorkId(1), Some(&down()), now), Change::None);
            assert_eq!(breaker.excuse(&down(), now), None, "it counts");
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn nobody_there_opens_it_at_once_and_no_attempt_is_counted() {
        for failure in [
            gone(),
            Failure::transient("HttpStatus", "503").with_code(Code::Http(503)),
            Failure::transient("Kafka", "all brokers down").with_code(Code::Kafka("AllBrokersDown".into())),
            // As its handler says it, with a code: its events were counted, and buried where few waited.
            Failure::transient("CommandNotStarted", "no such file").with_code(Code::Io("NotFound".into())),
        ] {
            let (mut breaker, now) = (Breaker::default(), Instant::now());
            assert_eq!(breaker.note(WorkId(1), Some(&failure), now), Change::Opened, "{failure}");
            assert_eq!(breaker.excuse(&failure, now), Some(FIRST_COOL_DOWN));
        }
    }

    #[test]
    fn a_success_in_between_starts_the_count_again() {
        let (mut breaker, now) = (Breaker::new(3), Instant::now());
        for round in 0..100 {
            breaker.note(WorkId(round), Some(&down()), now);
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
    fn who_failed_is_no_probe_while_others_may_come_and_is_one_when_they_do_not() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + FIRST_COOL_DOWN;
        assert_eq!(breaker.admit(WorkId(1), later), Admission::After(FIRST_COOL_DOWN / 4));
        assert_eq!(breaker.admit(WorkId(1), later + FIRST_COOL_DOWN / 4), Admission::Yes);
    }

    #[test]
    fn a_failed_probe_doubles_the_cool_down_and_the_probes_up_to_their_caps() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        let mut next = 10;
        for round in 0..20 {
            now += LONGEST_COOL_DOWN;
            let probes: Vec<WorkId> = std::iter::from_fn(|| {
                next += 1;
                (breaker.admit(WorkId(next), now) == Admission::Yes).then_some(WorkId(next))
            })
            .collect();
            assert_eq!(probes.len(), MOST_PROBES.min(1 << round.min(10)));
            for probe in probes {
                assert_eq!(breaker.note(probe, Some(&down()), now), Change::None);
            }
        }
        assert_eq!(breaker.excuse(&down(), now), Some(LONGEST_COOL_DOWN));
    }

    #[test]
    fn any_answer_that_is_no_outage_closes_it_but_silence_does_not() {
        for answer in
            [None, Some(Failure::permanent("Http", "422")), Some(Failure::unclassified("Panic", ""))]
        {
            let now = Instant::now();
            let mut breaker = opened(now);
            breaker.admit(WorkId(4), now + FIRST_COOL_DOWN);
            assert_eq!(breaker.outage(), Some(&Outage { since: now, failure: down() }));
            assert_eq!(breaker.note(WorkId(4), answer.as_ref(), now), Change::Closed);
            assert!(breaker.is_closed() && breaker.outage().is_none());
        }
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.admit(WorkId(4), now + FIRST_COOL_DOWN);
        let silence = Failure::unclassified("Timeout", "after 30 s");
        assert_eq!(breaker.note(WorkId(4), Some(&silence), now), Change::None);
        assert!(!breaker.is_closed());
        assert_eq!(breaker.excuse(&silence, now), None, "a time-out is a failure like any other");
    }

    #[test]
    fn when_the_other_side_says_when_to_come_back_that_is_kept() {
        let long = Duration::from_secs(600);
        let throttled = Failure::new(Class::Throttled { retry_after: long }, "HttpStatus", "429");
        let (mut breaker, now) = (Breaker::new(2), Instant::now());
        breaker.note(WorkId(1), Some(&throttled), now);
        assert_eq!(breaker.note(WorkId(2), Some(&throttled), now), Change::Opened);
        assert_eq!(breaker.excuse(&throttled, now), Some(long));
        assert_eq!(breaker.admit(WorkId(3), now + long / 2), Admission::After(long / 2));
    }

    /// There is no such moment: the worker ended in a panic.
    #[test]
    fn a_handler_that_never_wants_to_be_asked_again_is_asked_after_a_day() {
        let never = Failure::new(Class::Throttled { retry_after: Duration::MAX }, "Throttled", "");
        let (mut breaker, now) = (Breaker::new(2), Instant::now());
        for event in 1..=3 {
            breaker.note(WorkId(event), Some(&never), now);
        }
        assert_eq!(breaker.excuse(&never, now), Some(LONGEST_RETRY_AFTER));
    }

    #[test]
    fn a_probe_that_never_answers_is_given_up() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.admit(WorkId(4), now + FIRST_COOL_DOWN);
        let much_later = now + FIRST_COOL_DOWN + PROBE_PATIENCE;
        assert_eq!(breaker.admit(WorkId(5), much_later), Admission::Yes);
    }

    /// Twenty events make the service answer 500, or die; thirty are good. Everybody asks again and again.
    #[test]
    fn among_poison_that_looks_like_an_outage_the_good_get_through_and_the_poison_is_counted() {
        for failure in [down(), gone()] {
            let mut now = Instant::now();
            let mut breaker = Breaker::default();
            let mut good: Vec<i64> = (21..=50).collect();
            let mut attempts: HashMap<i64, u32> = (1..=20).map(|event| (event, 0)).collect();
            let begun = now;
            while !good.is_empty() || attempts.values().any(|attempts| *attempts < 5) {
                now += Duration::from_millis(100);
                assert!(now - begun < Duration::from_secs(600), "{good:?} {attempts:?}");
                for event in 1..=20 {
                    if attempts[&event] < 5 && breaker.admit(WorkId(event), now) == Admission::Yes {
                        breaker.note(WorkId(event), Some(&failure), now);
                        let counts = breaker.excuse(&failure, now).is_none();
                        *attempts.entry(event).or_default() += u32::from(counts);
                    }
                }
                good.retain(|event| match breaker.admit(WorkId(*event), now) {
                    Admission::Yes => {
                        breaker.note(WorkId(*event), None, now);
                        false
                    }
                    Admission::After(_) => true,
                });
                if now - begun > Duration::from_secs(60) {
                    assert!(good.is_empty(), "{good:?}");
                    // Others keep coming.
                    if breaker.admit(WorkId(1_000), now) == Admission::Yes {
                        breaker.note(WorkId(1_000), None, now);
                    }
                }
            }
        }
    }
}
