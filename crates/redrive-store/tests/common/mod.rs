//! What several suites of this crate say often.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::dead_letter::{Operator, Order, PipelineKind};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::failure::Failure;
use redrive_core::lease::{Failed, Lease, Settlement, Work};
use redrive_store::{
    Claim, Database, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, Letters, Outbox, OutboxOptions,
    TakeOver, Turn, WorkStore,
};
use redrive_testkit::TestDatabase;

/// Long enough that nothing expires during a test.
pub(crate) const LONG: Duration = Duration::from_secs(3600);
/// Due, or expired, at once.
pub(crate) const NOW: Duration = Duration::ZERO;

pub(crate) async fn open(database: &TestDatabase) -> Database {
    Database::connect(&database.url).await.unwrap()
}

/// The outbox `orders` with its tables, after the founding names unless `options` says otherwise.
pub(crate) async fn outbox(database: &TestDatabase, options: OutboxOptions) -> Outbox {
    let outbox = Outbox::new(open(database).await, options).unwrap();
    outbox.migrate().await.unwrap();
    outbox
}

pub(crate) async fn jobs(database: &TestDatabase, options: JobsOptions) -> Jobs {
    let jobs = Jobs::new(open(database).await, options).unwrap();
    jobs.migrate().await.unwrap();
    jobs
}

pub(crate) async fn failed_events(database: &TestDatabase) -> FailedEvents {
    let failed = FailedEvents::new(open(database).await, FailedEventsOptions::new("urls")).unwrap();
    failed.migrate().await.unwrap();
    failed
}

pub(crate) async fn letters(database: &TestDatabase, pipeline: &str) -> Letters {
    let letters = Letters::new(open(database).await, pipeline, PipelineKind::Intake);
    letters.migrate().await.unwrap();
    letters
}

pub(crate) fn operator() -> Operator {
    Operator::new("alice")
}

/// An order of its own, each time.
pub(crate) fn order() -> Order {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    Order::new(&operator(), &format!("order {}", NUMBER.fetch_add(1, Ordering::Relaxed)))
}

pub(crate) fn event(aggregate: &str) -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: aggregate.into(),
        payload: "{}".into(),
    }
}

pub(crate) fn claim(limit: u32, lease: Duration) -> Claim {
    Claim { worker: "worker".into(), limit, lease, take_over: TakeOver::Expired }
}

pub(crate) async fn take(store: &dyn WorkStore, limit: u32, lease: Duration) -> Vec<(Lease, Work)> {
    store.turn(&mut Vec::new(), Some(&claim(limit, lease))).await.unwrap().claimed
}

/// Claims the one piece of work that is due.
pub(crate) async fn take_one(store: &dyn WorkStore) -> (Lease, Work) {
    let mut claimed = take(store, 10, LONG).await;
    assert_eq!(claimed.len(), 1, "exactly one is due");
    claimed.remove(0)
}

pub(crate) async fn settle(store: &dyn WorkStore, settlements: Vec<(Lease, Settlement)>) -> Turn {
    let mut settlements = settlements;
    store.turn(&mut settlements, None).await.unwrap()
}

pub(crate) fn done(claimed: Vec<(Lease, Work)>) -> Vec<(Lease, Settlement)> {
    claimed.into_iter().map(|(lease, _)| (lease, Settlement::Done)).collect()
}

pub(crate) fn dead(claimed: Vec<(Lease, Work)>, failure: &Failure) -> Vec<(Lease, Settlement)> {
    let dead = |(lease, work)| (lease, Settlement::Dead { failed: failed(&work, failure) });
    claimed.into_iter().map(dead).collect()
}

pub(crate) fn failed(work: &Work, failure: &Failure) -> Failed {
    Failed::new("orders", work, failure.clone(), Timestamp::now())
}

pub(crate) fn timeout() -> Failure {
    Failure::transient("Timeout", "after 5 s")
}

pub(crate) fn ids(claimed: &[(Lease, Work)]) -> Vec<WorkId> {
    claimed.iter().map(|(lease, _)| lease.work()).collect()
}
