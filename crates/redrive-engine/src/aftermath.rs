//! The aftermath of an outage of the store: who could not settle or extend in time is not to blame.
//!
//! While the store was away or hung, leases ran out although their holders live. And a claim may have been
//! written down whose answer never arrived: its leases belong to nobody who knows. So afterwards
//!
//! - *patience*: for the time of one lease nothing is taken over, so that holders can settle and extend;
//! - *excuse*: what is taken over then is handled at once, and no attempt is counted, until one look
//!   has found everything that was left behind.
//!
//! Another process may have seen nothing of the outage: it was started after it, or had nothing to ask for meanwhile.
//! So whoever has not heard from the store for half a lease waits for a third of one before taking anything over:
//! holders that live extend their leases as often as that.
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
    /// When the store last answered.
    heard_at: Option<Instant>,
    /// When the first call was begun that has failed, as long as none has succeeded since.
    failing_since: Option<Instant>,
    /// Until when nothing is taken over.
    patient_until: Option<Instant>,
    /// Until when workers take nothing over, because an outage may have passed unseen.
    strange_until: Option<Instant>,
    /// From when on a look finds everything that was left behind.
    left_behind_until: Option<Instant>,
}

impl State {
    /// Whether an outage may have passed unseen.
    fn is_stranger(&self, now: Instant, lease: Duration) -> bool {
        self.heard_at.is_none_or(|heard| is_long(now.saturating_duration_since(heard), lease))
    }
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

    /// The same for a worker of this process, who asks again when it is told to wait.
    pub(crate) fn terms_of_worker(&self, now: Instant, lease: Duration) -> Terms {
        let terms = self.terms(now, lease);
        let state = self.state();
        let waits = state.is_stranger(now, lease) || state.strange_until.is_some_and(|until| now < until);
        Terms { take_over: if waits { TakeOver::Never } else { terms.take_over }, ..terms }
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
        if state.is_stranger(asked, lease) {
            state.strange_until = Some(now + lease / 3);
        }
        state.heard_at = state.heard_at.max(Some(now));
    }

    /// How long a worker takes nothing over from now on.
    pub(crate) fn patience(&self, now: Instant) -> Duration {
        let state = self.state();
        let until = state.patient_until.max(state.strange_until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
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

    /// It took over at once what others had been kept from extending, and counted an attempt for each.
    #[test]
    fn a_worker_that_may_have_missed_an_outage_gives_holders_a_third_of_a_lease() {
        let (aftermath, started) = (Aftermath::default(), Instant::now());
        let take_over = |at| aftermath.terms_of_worker(at, LEASE).take_over;
        assert_eq!(take_over(started), TakeOver::Never, "it was started just now");
        aftermath.answered(started, started, LEASE);
        assert_eq!(take_over(started + MOMENT), TakeOver::Never);
        assert_eq!(aftermath.patience(started), LEASE / 3);
        assert_eq!(take_over(started + LEASE / 3), TakeOver::Expired);
        aftermath.answered(started + LEASE / 3, started + LEASE / 3, LEASE);
        assert_eq!(take_over(started + LEASE / 2), TakeOver::Expired);
        assert_eq!(take_over(started + LEASE), TakeOver::Never, "it has asked for nothing for long");
        assert_eq!(
            aftermath.terms(started + LEASE, LEASE).take_over,
            TakeOver::Expired,
            "workers elsewhere do not ask again"
        );
    }
}
