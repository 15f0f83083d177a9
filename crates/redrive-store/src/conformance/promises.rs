//! What the state table cannot say: batches, fences, delays.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::event::WorkId;
use redrive_core::failure::{Code, Failure};
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::state::{Machine, Step};

use super::Subject;
use super::pairs::{LONG, drain, failed, failed_with};
use crate::work::{Claim, TakeOver, Turn};

pub(super) async fn all<S: Subject>(subject: &S) {
    a_claim_hands_out_each_piece_of_work_once(subject).await;
    claims_that_run_together_never_share_work(subject).await;
    a_stale_lease_cannot_settle_work_that_was_taken_over(subject).await;
    an_extended_lease_is_not_taken_over_and_a_lost_one_is_reported(subject).await;
    a_retry_is_counted_remembered_and_not_due_before_its_time(subject).await;
    a_release_burns_no_attempt(subject).await;
    what_may_have_killed_its_holder_is_remembered_and_burns_no_attempt(subject).await;
    work_is_recalled_by_its_lease_as_long_as_it_is_held(subject).await;
    a_report_is_accepted_until_its_lease_runs_out_and_not_after(subject).await;
    one_turn_settles_every_kind_and_claims_anew(subject).await;
    a_hostile_message_does_not_fail_its_batch(subject).await;
    a_letter_is_redriven_once_however_many_ask(subject).await;
}

fn request(limit: u32, lease: Duration) -> Claim {
    Claim { worker: "conformance".into(), limit, lease, take_over: TakeOver::Expired }
}

async fn claim<S: Subject>(subject: &S, limit: u32, lease: Duration) -> Vec<(Lease, Work)> {
    subject.store().turn(&mut Vec::new(), Some(&request(limit, lease))).await.expect("claim").claimed
}

async fn settle<S: Subject>(subject: &S, settlements: Vec<(Lease, Settlement)>) -> Turn {
    let mut settlements = settlements;
    let turn = subject.store().turn(&mut settlements, None).await.expect("settle");
    assert!(settlements.is_empty(), "what is durable is taken out of the vector");
    turn
}

/// New work that can be claimed, whatever the machine starts with.
async fn ready<S: Subject>(subject: &S, count: usize) -> Vec<WorkId> {
    drain(subject).await;
    let ids = subject.add(count).await;
    if S::State::ALL[0].next(Step::Claim).is_none() {
        for id in &ids {
            assert!(subject.redrive(*id).await);
        }
    }
    ids
}

fn numbers(claimed: &[(Lease, Work)]) -> Vec<WorkId> {
    claimed.iter().map(|(lease, _)| lease.work()).collect()
}

async fn a_claim_hands_out_each_piece_of_work_once<S: Subject>(subject: &S) {
    let backlog = async || subject.store().backlog().await.expect("backlog");
    let ids = ready(subject, 25).await;
    let waiting = backlog().await;
    let first = claim(subject, 10, LONG).await;
    let second = claim(subject, 100, LONG).await;
    assert_eq!(numbers(&first), ids[..10]);
    assert_eq!(numbers(&second), ids[10..]);
    assert!(claim(subject, 100, LONG).await.is_empty());
    assert_eq!(backlog().await, waiting, "what is being handled still counts");
    let both = first.into_iter().chain(second).map(|(lease, _)| (lease, Settlement::Done)).collect();
    assert!(settle(subject, both).await.lost.is_empty());
    assert_eq!(backlog().await, waiting - 25);
}

async fn claims_that_run_together_never_share_work<S: Subject>(subject: &S) {
    let ids = ready(subject, 60).await;
    let (a, b, c) =
        tokio::join!(claim(subject, 30, LONG), claim(subject, 30, LONG), claim(subject, 30, LONG));
    let mut all: Vec<_> = a.into_iter().chain(b).chain(c).collect();
    // Rows that another claim has locked are skipped: what is left comes with the next one.
    all.extend(claim(subject, 100, LONG).await);
    let unique: BTreeSet<WorkId> = numbers(&all).into_iter().collect();
    assert_eq!((all.len(), unique), (60, ids.into_iter().collect()));
    settle(subject, all.into_iter().map(|(lease, _)| (lease, Settlement::Done)).collect()).await;
}

async fn a_stale_lease_cannot_settle_work_that_was_taken_over<S: Subject>(subject: &S) {
    let kinds = || {
        [
            Settlement::Done,
            Settlement::Retry { after: Duration::ZERO, failed: failed() },
            Settlement::Dead { failed: failed() },
            Settlement::Release { after: Duration::ZERO },
        ]
    };
    let ids = ready(subject, kinds().len()).await;
    let stale = claim(subject, 100, Duration::ZERO).await;
    let fresh = claim(subject, 100, LONG).await;
    assert!(fresh.iter().all(|(_, work)| work.interrupted), "an expired lease is a failed attempt");
    assert!(stale.iter().zip(&fresh).all(|((old, _), (new, _))| new.fence() > old.fence()));
    let late = stale.into_iter().map(|(lease, _)| lease).zip(kinds()).collect();
    assert_eq!(settle(subject, late).await.lost, ids);
    for id in ids {
        let state = subject.state(id).await.expect("it is still there");
        assert!(state.next(Step::Succeed).is_some(), "its new holder still has it, not {state:?}");
    }
    settle(subject, fresh.into_iter().map(|(lease, _)| (lease, Settlement::Done)).collect()).await;
}

async fn an_extended_lease_is_not_taken_over_and_a_lost_one_is_reported<S: Subject>(subject: &S) {
    let ids = ready(subject, 2).await;
    let mut held = claim(subject, 1, Duration::ZERO).await;
    let (lease, _) = &mut held[0];
    let before = lease.until();
    assert!(subject.store().extend(&mut [lease], LONG).await.expect("extend").is_empty());
    assert!(lease.until() > before);
    let mut other = claim(subject, 100, Duration::ZERO).await;
    assert_eq!(numbers(&other), ids[1..]);
    let third = claim(subject, 100, LONG).await;
    let (lost, _) = &mut other[0];
    assert_eq!(subject.store().extend(&mut [lost], LONG).await.expect("extend"), ids[1..]);
    let both = held.into_iter().chain(third).map(|(lease, _)| (lease, Settlement::Done)).collect();
    assert!(settle(subject, both).await.lost.is_empty());
}

async fn a_retry_is_counted_remembered_and_not_due_before_its_time<S: Subject>(subject: &S) {
    ready(subject, 1).await;
    let (lease, work) = claim(subject, 1, LONG).await.remove(0);
    assert_eq!((work.retry_count, work.interrupted), (0, false));
    settle(subject, vec![(lease, Settlement::Retry { after: Duration::ZERO, failed: failed() })]).await;
    let (lease, work) = claim(subject, 1, LONG).await.remove(0);
    assert_eq!((work.retry_count, work.history), (1, failed().history));
    settle(subject, vec![(lease, Settlement::Retry { after: LONG, failed: failed() })]).await;
    assert!(claim(subject, 1, LONG).await.is_empty(), "it is not due for an hour");
}

async fn a_release_burns_no_attempt<S: Subject>(subject: &S) {
    ready(subject, 1).await;
    let (lease, before) = claim(subject, 1, LONG).await.remove(0);
    settle(subject, vec![(lease, Settlement::Release { after: Duration::ZERO })]).await;
    let (lease, after) = claim(subject, 1, LONG).await.remove(0);
    assert_eq!((after.retry_count, after.interrupted), (before.retry_count, false));
    settle(subject, vec![(lease, Settlement::Release { after: LONG })]).await;
    assert!(claim(subject, 1, LONG).await.is_empty(), "it was put off for an hour");
}

async fn what_may_have_killed_its_holder_is_remembered_and_burns_no_attempt<S: Subject>(subject: &S) {
    ready(subject, 1).await;
    let (lease, _) = claim(subject, 1, LONG).await.remove(0);
    settle(subject, vec![(lease, Settlement::Suspect { after: Duration::ZERO, failed: failed() })]).await;
    let (lease, work) = claim(subject, 1, LONG).await.remove(0);
    assert_eq!((work.retry_count, work.interrupted, work.history), (0, false, failed().history));
    settle(subject, vec![(lease, Settlement::Release { after: Duration::ZERO })]).await;
    let (lease, work) = claim(subject, 1, LONG).await.remove(0);
    assert_eq!(work.history, failed().history, "a plain release forgets nothing");
    settle(subject, vec![(lease, Settlement::Suspect { after: LONG, failed: failed() })]).await;
    assert!(claim(subject, 1, LONG).await.is_empty(), "it was put off for an hour");
}

async fn work_is_recalled_by_its_lease_as_long_as_it_is_held<S: Subject>(subject: &S) {
    ready(subject, 1).await;
    let (lease, work) = claim(subject, 1, LONG).await.remove(0);
    let stale = Lease::new(lease.work(), lease.fence() + 1, lease.until());
    assert_eq!(subject.store().recall(&lease).await.expect("recall"), Some(work));
    assert_eq!(subject.store().recall(&stale).await.expect("recall"), None);
    let copy = Lease::new(lease.work(), lease.fence(), lease.until());
    settle(subject, vec![(lease, Settlement::Done)]).await;
    assert_eq!(subject.store().recall(&copy).await.expect("recall"), None);
}

async fn a_report_is_accepted_until_its_lease_runs_out_and_not_after<S: Subject>(subject: &S) {
    ready(subject, 1).await;
    let store = subject.store();
    // Expired, and nobody has claimed it since.
    let (mut lease, _) = claim(subject, 1, Duration::ZERO).await.remove(0);
    let copy = || Lease::new(lease.work(), lease.fence(), lease.until());
    for settlement in [
        Settlement::Done,
        Settlement::Dead { failed: failed() },
        Settlement::Release { after: Duration::ZERO },
    ] {
        assert!(!store.settle_unexpired(copy(), settlement).await.expect("settle"), "the lease has run out");
    }
    assert!(!store.extend_unexpired(&mut lease, LONG).await.expect("extend"), "the lease has run out");
    // Claimed by another worker since.
    let (mut held, work) = claim(subject, 1, LONG).await.remove(0);
    assert!(work.interrupted, "nothing was settled");
    let copy = Lease::new(lease.work(), lease.fence(), lease.until());
    assert!(!store.settle_unexpired(copy, Settlement::Done).await.expect("settle"), "another has it");
    assert!(!store.extend_unexpired(&mut lease, LONG).await.expect("extend"), "another has it");
    // Not expired.
    let before = held.until();
    assert!(store.extend_unexpired(&mut held, LONG * 2).await.expect("extend"));
    assert!(held.until() > before);
    let copy = Lease::new(held.work(), held.fence(), held.until());
    assert!(store.settle_unexpired(held, Settlement::Done).await.expect("settle"));
    assert!(!store.settle_unexpired(copy, Settlement::Done).await.expect("settle"), "it is settled already");
}

async fn one_turn_settles_every_kind_and_claims_anew<S: Subject>(subject: &S) {
    let ids = ready(subject, 6).await;
    let mut held = claim(subject, 5, LONG).await;
    let forged = Lease::new(held.pop().expect("five are held").0.work(), i64::MAX, jiff::Timestamp::MAX);
    let kinds = [
        Settlement::Done,
        Settlement::Retry { after: LONG, failed: failed() },
        Settlement::Dead { failed: failed() },
        Settlement::Release { after: LONG },
        Settlement::Done,
    ];
    let leases = held.into_iter().map(|(lease, _)| lease).chain([forged]);
    let mut settlements = leases.zip(kinds).collect();
    let turn = subject.store().turn(&mut settlements, Some(&request(10, LONG))).await.expect("turn");
    assert_eq!((turn.lost, numbers(&turn.claimed)), (vec![ids[4]], vec![ids[5]]));
    settle(subject, turn.claimed.into_iter().map(|(lease, _)| (lease, Settlement::Done)).collect()).await;
}

async fn a_hostile_message_does_not_fail_its_batch<S: Subject>(subject: &S) {
    ready(subject, 2).await;
    let hostile = Failure::transient("\0'; DROP TABLE x; --", "\u{1F4A9}\0\"\\ \u{202E}'".repeat(5_000))
        .with_code(Code::Other("ü".repeat(500)));
    let kinds = [
        Settlement::Retry { after: LONG, failed: failed_with(&hostile) },
        Settlement::Dead { failed: failed_with(&hostile) },
    ];
    let held = claim(subject, 2, LONG).await;
    let both = held.into_iter().map(|(lease, _)| lease).zip(kinds).collect();
    assert!(settle(subject, both).await.lost.is_empty());
}

async fn a_letter_is_redriven_once_however_many_ask<S: Subject>(subject: &S) {
    let id = ready(subject, 1).await[0];
    let (lease, _) = claim(subject, 1, LONG).await.remove(0);
    settle(subject, vec![(lease, Settlement::Dead { failed: failed() })]).await;
    let (a, b, c, d) =
        tokio::join!(subject.redrive(id), subject.redrive(id), subject.redrive(id), subject.redrive(id));
    assert_eq!([a, b, c, d].into_iter().filter(|won| *won).count(), 1, "exactly one wins");
    assert_eq!(claim(subject, 100, LONG).await.len(), 1, "and it comes back once");
}
