//! Every (state, step) pair, against the table.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::failure::Failure;
use redrive_core::lease::{Failed, Lease, Settlement, Work};
use redrive_core::state::{Machine, Step};

use super::Subject;
use crate::work::{Claim, TakeOver};

/// Long enough that nothing expires during a test.
pub(super) const LONG: Duration = Duration::from_secs(3600);

/// A piece of work under test, with the lease that was last given out for it.
#[derive(Debug)]
pub struct Subjected {
    /// Its number.
    pub id: WorkId,
    /// The latest lease on it, if it has not been used up.
    pub lease: Option<Lease>,
}

/// Drives every pair of the subject's machine through its store.
pub async fn every_pair<S: Subject>(subject: &S) {
    for &state in S::State::ALL {
        for step in Step::ALL {
            let mut work = reach(subject, state).await;
            let before = subject.state(work.id).await;
            assert_eq!(before, Some(state), "the suite could not reach {state:?}");
            apply(subject, &mut work, step).await;
            let expected = state.next(step).unwrap_or(state);
            assert_eq!(
                subject.state(work.id).await,
                Some(expected),
                "{}: {state:?} {step:?}",
                S::State::NAME
            );
            drain(subject).await;
        }
    }
}

/// New work, brought into this state by the shortest way of allowed steps.
async fn reach<S: Subject>(subject: &S, state: S::State) -> Subjected {
    let id = subject.add(1).await[0];
    let mut work = Subjected { id, lease: None };
    match path(state) {
        Some(steps) => {
            for step in steps {
                apply(subject, &mut work, step).await;
            }
        }
        None => subject.place(id, state).await,
    }
    work
}

/// The shortest way from the first state, or nothing when no step leads there.
fn path<M: Machine>(to: M) -> Option<Vec<Step>> {
    let mut seen = vec![M::ALL[0]];
    let mut queue = VecDeque::from([(M::ALL[0], Vec::new())]);
    while let Some((state, steps)) = queue.pop_front() {
        if state == to {
            return Some(steps);
        }
        for step in Step::ALL {
            if let Some(next) = state.next(step).filter(|next| !seen.contains(next)) {
                seen.push(next);
                queue.push_back((next, [steps.clone(), vec![step]].concat()));
            }
        }
    }
    None
}

/// Does the step to the work through the store, whether it is allowed or not.
pub(super) async fn apply<S: Subject>(subject: &S, work: &mut Subjected, step: Step) {
    match step {
        Step::Claim => claim(subject, work, TakeOver::Never).await,
        Step::TakeOver => {
            expire(subject, work).await;
            claim(subject, work, TakeOver::Expired).await;
        }
        Step::Succeed => settle(subject, work, Settlement::Done).await,
        Step::Retry => {
            settle(subject, work, Settlement::Retry { after: Duration::ZERO, failed: failed() }).await;
        }
        Step::Bury => settle(subject, work, Settlement::Dead { failed: failed() }).await,
        Step::Release => settle(subject, work, Settlement::Release { after: Duration::ZERO }).await,
        Step::Redrive => drop(subject.redrive(work.id).await),
        Step::Resolve => drop(subject.resolve(work.id).await),
    }
}

async fn claim<S: Subject>(subject: &S, work: &mut Subjected, take_over: TakeOver) {
    let waiting = subject.state(work.id).await;
    // Work that only waits would be claimed by a take-over, too: that is a claim, not this step.
    if take_over == TakeOver::Expired && waiting.is_some_and(|state| state.next(Step::TakeOver).is_none()) {
        return;
    }
    let claim = Claim { worker: "conformance".into(), limit: 1_000, lease: LONG, take_over };
    let turn = subject.store().turn(&mut Vec::new(), Some(&claim)).await.expect("claim");
    for (lease, claimed) in turn.claimed {
        if lease.work() == work.id {
            assert_eq!(
                claimed.interrupted,
                take_over == TakeOver::Expired,
                "interrupted says how it was claimed"
            );
            work.lease = Some(lease);
        } else {
            subject.store().turn(&mut vec![(lease, Settlement::Done)], None).await.expect("clean up");
        }
    }
}

/// Lets the lease run out, if there is one.
async fn expire<S: Subject>(subject: &S, work: &mut Subjected) {
    if let Some(lease) = &mut work.lease {
        subject.store().extend(&mut [lease], Duration::ZERO).await.expect("extend");
    }
}

/// Settles with the lease at hand, or with one that nobody was given.
async fn settle<S: Subject>(subject: &S, work: &mut Subjected, settlement: Settlement) {
    let held = subject.state(work.id).await.is_some_and(|state| state.next(Step::Succeed).is_some());
    let lease = work.lease.take().unwrap_or(Lease::new(work.id, 1, Timestamp::MAX));
    let turn = subject.store().turn(&mut vec![(lease, settlement)], None).await.expect("settle");
    assert_eq!(turn.lost.is_empty(), held, "a settlement without the lease is reported as lost");
}

/// Finishes whatever can still be claimed, so that the next case starts with nothing.
pub(super) async fn drain<S: Subject>(subject: &S) {
    let claim = Claim { worker: "drain".into(), limit: 1_000, lease: LONG, take_over: TakeOver::Expired };
    loop {
        let turn = subject.store().turn(&mut Vec::new(), Some(&claim)).await.expect("claim");
        if turn.claimed.is_empty() {
            return;
        }
        let mut done = turn.claimed.into_iter().map(|(lease, _)| (lease, Settlement::Done)).collect();
        subject.store().turn(&mut done, None).await.expect("settle");
    }
}

/// A failure to settle with.
pub(super) fn failed() -> Failed {
    failed_with(&Failure::transient("Timeout", "after 5 s"))
}

pub(super) fn failed_with(failure: &Failure) -> Failed {
    let event = redrive_core::event::Event {
        id: WorkId(0),
        origin: WorkId(0),
        event_type: "OrderCreated".into(),
        aggregate_type: String::new(),
        key: String::new(),
        payload: Vec::new(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: 1,
    };
    let work =
        Work { event, retry_count: 0, max_retries: None, interrupted: false, history: Default::default() };
    Failed::new("conformance", &work, failure.clone(), Timestamp::UNIX_EPOCH)
}
