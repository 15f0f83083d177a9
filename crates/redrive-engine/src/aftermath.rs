//! The aftermath of an outage of the store: who could not settle or extend in time is not to blame.
//!
//! While the store was away or hung, leases ran out although their holders live. And a claim may have been
//! written down whose answer never arrived: its leases belong to nobody who knows. So afterwards
//!
//! - *patience*: for the time of one lease nothing is taken over, so that holders can settle and extend;
//! - *excuse*: what is taken over then is handled at once, and no attempt is counted, until one look
//!   has found everything that was left behind.
//!
//! An outage too short for leases to run out needs no patience: a store that stumbles now and then must not
//! keep the work of dead workers waiting. Shared by everybody in this process who works on a pipeline,
//! as one may find what another left. Pure: the time comes in as an argument.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redrive_store::TakeOver;

/// What a pipeline knows about the last outage of its store.
#[derive(Debug, Default)]
pub(crate) struct Aftermath(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the first call was begun that has failed, as long as none has succeeded since.
    failing_since: Option<Instant>,
    /// Until when nothing is taken over.
    patient_until: Option<Instant>,
    /// From when on a look finds everything that was left behind.
    left_behind_until: Option<Instant>,
}

/// The terms of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) take_over: TakeOver,
    asked: Instant,
    excused: bool,
}

impl Aftermath {
    /// On which terms to claim now.
    pub(crate) fn terms(&self, now: Instant, lease: Duration) -> Terms {
        let state = self.state();
        // Whoever asks first once the store is back does not know yet that it is.
        let long_away = state.failing_since.is_some_and(|since| is_long(now.duration_since(since), lease));
        let patient = long_away || state.patient_until.is_some_and(|until| now < until);
        Terms {
            take_over: if patient { TakeOver::Never } else { TakeOver::Expired },
            asked: now,
            excused: state.left_behind_until.is_some(),
        }
    }

    /// A call that was begun at `asked` has failed; what it claimed, if anything, is not known.
    pub(crate) fn failed(&self, asked: Instant, now: Instant, lease: Duration) {
        let mut state = self.state();
        state.failing_since.get_or_insert(asked);
        state.left_behind_until = Some(now + lease);
    }

    /// A call that was begun at `asked` has succeeded.
    pub(crate) fn answered(&self, asked: Instant, now: Instant, lease: Duration) {
        let mut state = self.state();
        let away = now.duration_since(state.failing_since.take().unwrap_or(asked));
        if is_long(away, lease) {
            state.patient_until = Some(now + lease);
            state.left_behind_until = Some(now + lease);
        }
    }

    /// Whether work that is taken over on these terms may have been left behind by the store's outage.
    pub(crate) fn excuses(&self, terms: Terms) -> bool {
        terms.excused || self.state().left_behind_until.is_some()
    }

    /// A claim on these terms has found less than it had asked for: there is nothing more to find.
    pub(crate) fn found_all(&self, terms: Terms) {
        let mut state = self.state();
        let expired = state.left_behind_until.is_some_and(|until| terms.asked >= until);
        if expired && terms.take_over == TakeOver::Expired {
            state.left_behind_until = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether leases may have run out meanwhile. Holders extend them at every third of a lease.
fn is_long(away: Duration, lease: Duration) -> bool {
    away >= lease / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(20);
    const MOMENT: Duration = Duration::from_millis(10);

    fn after_an_outage_of(length: Duration) -> (Aftermath, Instant) {
        let (aftermath, begun) = (Aftermath::default(), Instant::now());
        aftermath.failed(begun, begun + MOMENT, LEASE);
        let back = begun + length;
        aftermath.answered(back - MOMENT, back, LEASE);
        (aftermath, back)
    }

    #[test]
    fn without_an_outage_expired_leases_are_taken_over_and_counted() {
        let (aftermath, now) = (Aftermath::default(), Instant::now());
        aftermath.answered(now, now + MOMENT, LEASE);
        let terms = aftermath.terms(now, LEASE);
        assert_eq!(terms.take_over, TakeOver::Expired);
        assert!(!aftermath.excuses(terms));
    }

    #[test]
    fn after_a_long_outage_holders_get_the_time_of_a_lease() {
        let (aftermath, back) = after_an_outage_of(LEASE * 2);
        assert_eq!(aftermath.terms(back, LEASE).take_over, TakeOver::Never);
        assert_eq!(aftermath.terms(back + LEASE, LEASE).take_over, TakeOver::Expired);
    }

    #[test]
    fn the_first_to_ask_after_a_long_outage_takes_nothing_over() {
        let (aftermath, begun) = (Aftermath::default(), Instant::now());
        aftermath.failed(begun, begun + MOMENT, LEASE);
        assert_eq!(aftermath.terms(begun + MOMENT, LEASE).take_over, TakeOver::Expired);
        assert_eq!(aftermath.terms(begun + LEASE, LEASE).take_over, TakeOver::Never);
    }

    #[test]
    fn a_short_outage_delays_no_take_over_but_excuses() {
        let (aftermath, back) = after_an_outage_of(LEASE / 4);
        let terms = aftermath.terms(back, LEASE);
        assert_eq!(terms.take_over, TakeOver::Expired);
        assert!(aftermath.excuses(terms));
    }

    #[test]
    fn a_call_that_hung_is_an_outage() {
        let (aftermath, asked) = (Aftermath::default(), Instant::now());
        aftermath.answered(asked, asked + LEASE, LEASE);
        let terms = aftermath.terms(asked + LEASE, LEASE);
        assert_eq!(terms.take_over, TakeOver::Never);
        assert!(aftermath.excuses(terms));
    }

    #[test]
    fn the_excuse_ends_with_a_look_that_found_everything() {
        let (aftermath, back) = after_an_outage_of(LEASE * 2);
        let early = aftermath.terms(back + LEASE / 2, LEASE);
        aftermath.found_all(early);
        assert!(aftermath.excuses(aftermath.terms(back + LEASE, LEASE)), "leases had not run out then");
        let (late, beside) = (aftermath.terms(back + LEASE, LEASE), aftermath.terms(back + LEASE, LEASE));
        aftermath.found_all(late);
        assert!(aftermath.excuses(beside), "what was asked for meanwhile is excused, too");
        assert!(!aftermath.excuses(aftermath.terms(back + LEASE, LEASE)));
    }
}
