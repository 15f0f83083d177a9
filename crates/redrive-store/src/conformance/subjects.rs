//! The stores of this crate as subjects of the suite.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Operator, Order, Origin, Status};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::failure::Failure;
use redrive_core::lease::{Failed, Lease, Settlement, Work};
use redrive_core::state::{FailedEventState, JobState, LetterState, Machine, OutboxState, Step};

use super::pairs::LONG;
use super::{Dead, DeadLetterSubject, Subject};
use crate::failed_events::{FailedEvent, FailedEvents};
use crate::jobs::{Enqueued, Jobs, NewJob};
use crate::letters::{Letters, NewLetter};
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::work::{Claim, TakeOver, WorkStore};

/// An in-memory store.
pub struct MemorySubject<M>(pub Memory<M>);
/// An outbox.
pub struct OutboxSubject(pub Outbox);
/// A job queue.
pub struct JobsSubject(pub Jobs);
/// Failed events.
pub struct FailedEventsSubject(pub FailedEvents);
/// Letters of redrive's own.
pub struct LettersSubject(pub Letters);

fn events(count: usize) -> Vec<NewEvent> {
    let event = |number: usize| NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: number.to_string(),
        payload: format!("{{\"n\":{number}}}"),
    };
    (0..count).map(event).collect()
}

/// An order of its own, each time.
pub(super) fn order() -> Order {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Order::new(&operator(), &format!("order {number}"))
}

fn operator() -> Operator {
    Operator::new("conformance")
}

async fn redrive(queue: &dyn DeadLetterQueue, id: Option<String>) -> bool {
    let Some(id) = id else { return false };
    !queue.redrive(&[id], &order()).await.expect("redrive").done.is_empty()
}

/// The payload of the work with this key that waits; all of it waits again afterwards.
async fn sent(store: &dyn WorkStore, key: &str) -> Option<String> {
    let claim = Claim {
        worker: "conformance".into(),
        limit: 10_000,
        lease: std::time::Duration::ZERO,
        take_over: TakeOver::Expired,
    };
    let claimed = store.turn(&mut Vec::new(), Some(&claim)).await.expect("claim").claimed;
    claimed
        .into_iter()
        .find(|(_, work)| work.event.key == key)
        .map(|(_, work)| String::from_utf8_lossy(&work.event.payload).into_owned())
}

async fn resolve(queue: &dyn DeadLetterQueue, id: Option<String>) -> bool {
    let Some(id) = id else { return false };
    !queue.resolve(&[id], &operator(), "dealt with").await.expect("resolve").done.is_empty()
}

#[async_trait]
impl<M: Machine + Send + Sync> Subject for MemorySubject<M> {
    type State = M;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        self.0.append(events(count))
    }

    async fn state(&self, id: WorkId) -> Option<M> {
        self.0.state(id)
    }

    async fn place(&self, id: WorkId, state: M) {
        self.0.place(id, state);
    }

    async fn redrive(&self, id: WorkId) -> bool {
        self.0.act(id, Step::Redrive)
    }

    async fn resolve(&self, id: WorkId) -> bool {
        self.0.act(id, Step::Resolve)
    }
}

#[async_trait]
impl Subject for OutboxSubject {
    type State = OutboxState;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        self.0.append(events(count)).await.expect("append")
    }

    async fn state(&self, id: WorkId) -> Option<OutboxState> {
        self.0.state(id).await.expect("state")
    }

    async fn place(&self, id: WorkId, state: OutboxState) {
        unreachable!("every state of an outbox can be reached, {state:?} of {id} too");
    }

    async fn redrive(&self, id: WorkId) -> bool {
        redrive(&self.0, self.letter(id).await).await
    }

    async fn resolve(&self, id: WorkId) -> bool {
        resolve(&self.0, self.letter(id).await).await
    }
}

impl OutboxSubject {
    /// The letter of the event.
    async fn letter(&self, event: WorkId) -> Option<String> {
        self.0.letter_of(event).await.expect("letter").map(|letter| letter.to_string())
    }
}

fn added(enqueued: Vec<Enqueued>) -> Vec<WorkId> {
    let added = |one| if let Enqueued::Added(id) = one { Some(id) } else { None };
    enqueued.into_iter().filter_map(added).collect()
}

#[async_trait]
impl Subject for JobsSubject {
    type State = JobState;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        let jobs = (0..count).map(|number| NewJob::new(format!("article-{number}"), "{}")).collect();
        added(self.0.enqueue(jobs).await.expect("enqueue"))
    }

    async fn state(&self, id: WorkId) -> Option<JobState> {
        self.0.state(id).await.expect("state")
    }

    async fn place(&self, id: WorkId, state: JobState) {
        self.0.place(id, state).await.expect("place");
    }

    async fn redrive(&self, id: WorkId) -> bool {
        redrive(&self.0, Some(id.to_string())).await
    }

    async fn resolve(&self, id: WorkId) -> bool {
        resolve(&self.0, Some(id.to_string())).await
    }
}

#[async_trait]
impl Subject for FailedEventsSubject {
    type State = FailedEventState;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        let at = Timestamp::UNIX_EPOCH;
        let event = |number: usize| {
            FailedEvent::new(
                &format!("k{number}"),
                "https://example.org",
                at,
                at,
                Failure::transient("Timeout", ""),
            )
        };
        self.0.append(&(0..count).map(event).collect::<Vec<_>>()).await.expect("append")
    }

    async fn state(&self, id: WorkId) -> Option<FailedEventState> {
        self.0.state(id).await.expect("state")
    }

    async fn place(&self, id: WorkId, state: FailedEventState) {
        unreachable!("every state of a failed event can be reached, {state:?} of {id} too");
    }

    async fn redrive(&self, id: WorkId) -> bool {
        redrive(&self.0, Some(id.to_string())).await
    }

    async fn resolve(&self, id: WorkId) -> bool {
        resolve(&self.0, Some(id.to_string())).await
    }
}

#[async_trait]
impl Subject for LettersSubject {
    type State = LetterState;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        self.add_letters((0..count).map(|_| new_letter()).collect()).await
    }

    async fn state(&self, id: WorkId) -> Option<LetterState> {
        self.0.state(id).await.expect("state")
    }

    async fn place(&self, id: WorkId, state: LetterState) {
        unreachable!("every state of a letter can be reached, {state:?} of {id} too");
    }

    async fn redrive(&self, id: WorkId) -> bool {
        redrive(&self.0, Some(id.to_string())).await
    }

    async fn resolve(&self, id: WorkId) -> bool {
        resolve(&self.0, Some(id.to_string())).await
    }
}

impl LettersSubject {
    async fn add_letters(&self, letters: Vec<NewLetter>) -> Vec<WorkId> {
        let added = self.0.add(&letters).await.expect("add");
        assert_eq!(added, letters.len());
        let mut ids = Vec::new();
        for letter in &letters {
            ids.extend(self.0.number_of(&letter.source).await.expect("number"));
        }
        ids
    }
}

/// A letter that has not come in yet.
fn new_letter() -> NewLetter {
    static OFFSET: AtomicI64 = AtomicI64::new(0);
    let offset = OFFSET.fetch_add(1, Ordering::Relaxed);
    NewLetter {
        source: format!("topic/0/{offset:012}"),
        event_type: "OrderCreated".into(),
        key: offset.to_string(),
        payload: vec![0, 159, 146, 150],
        headers: vec![("trace".into(), vec![255, 0])],
        origin: Origin::Topic { topic: "topic".into(), partition: 0, offset },
        target: Some("somewhere".into()),
        failure: Failure::permanent("Refused", "no"),
        attempts: 1,
        first_failed_at: Timestamp::UNIX_EPOCH,
        failed_at: Timestamp::UNIX_EPOCH,
    }
}

/// Claims this work, and lets it die.
async fn kill(store: &dyn WorkStore, pipeline: &str, ids: &[WorkId], dead: &[Dead]) {
    let claim =
        Claim { worker: "conformance".into(), limit: 10_000, lease: LONG, take_over: TakeOver::Never };
    let turn = store.turn(&mut Vec::new(), Some(&claim)).await.expect("claim");
    let settle = |(lease, work): (Lease, Work)| {
        let settlement = match ids.iter().position(|id| *id == lease.work()) {
            Some(at) => Settlement::Dead {
                failed: Failed::new(pipeline, &work, dead[at].failure.clone(), Timestamp::now()),
            },
            None => Settlement::Done,
        };
        (lease, settlement)
    };
    let mut settled = turn.claimed.into_iter().map(settle).collect();
    let turn = store.turn(&mut settled, None).await.expect("settle");
    assert!(turn.lost.is_empty());
}

fn names(ids: &[WorkId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[async_trait]
impl DeadLetterSubject for OutboxSubject {
    fn queue(&self) -> &dyn DeadLetterQueue {
        &self.0
    }

    async fn sent(&self, key: &str) -> Option<String> {
        sent(&self.0, key).await
    }

    async fn bury(&self, dead: &[Dead]) -> Vec<String> {
        let event = |dead: &Dead| NewEvent {
            event_type: dead.event_type.clone(),
            aggregate_type: "Order".into(),
            aggregate_id: dead.key.clone(),
            payload: dead.payload.clone(),
        };
        let ids = self.0.append(dead.iter().map(event).collect()).await.expect("append");
        kill(&self.0, self.0.pipeline(), &ids, dead).await;
        let mut letters = Vec::new();
        for id in ids {
            letters.extend(self.letter(id).await);
        }
        letters
    }
}

#[async_trait]
impl DeadLetterSubject for JobsSubject {
    fn queue(&self) -> &dyn DeadLetterQueue {
        &self.0
    }

    async fn sent(&self, key: &str) -> Option<String> {
        sent(&self.0, key).await
    }

    async fn bury(&self, dead: &[Dead]) -> Vec<String> {
        let jobs = dead.iter().map(|dead| NewJob::new(&dead.key, &dead.payload)).collect();
        let ids = added(self.0.enqueue(jobs).await.expect("enqueue"));
        kill(&self.0, self.0.pipeline(), &ids, dead).await;
        names(&ids)
    }

    fn event_type(&self, _: &str) -> String {
        self.0.pipeline().to_owned()
    }
}

#[async_trait]
impl DeadLetterSubject for FailedEventsSubject {
    fn queue(&self) -> &dyn DeadLetterQueue {
        &self.0
    }

    async fn sent(&self, key: &str) -> Option<String> {
        sent(&self.0, key).await
    }

    async fn bury(&self, dead: &[Dead]) -> Vec<String> {
        let now = Timestamp::now();
        let event = |dead: &Dead| FailedEvent::new(&dead.key, &dead.payload, now, now, dead.failure.clone());
        let ids = self.0.append(&dead.iter().map(event).collect::<Vec<_>>()).await.expect("append");
        kill(&self.0, self.0.pipeline(), &ids, dead).await;
        names(&ids)
    }

    fn event_type(&self, _: &str) -> String {
        self.0.pipeline().to_owned()
    }

    fn status(&self) -> Status {
        Status::Failed
    }
}

#[async_trait]
impl DeadLetterSubject for LettersSubject {
    fn queue(&self) -> &dyn DeadLetterQueue {
        &self.0
    }

    async fn sent(&self, key: &str) -> Option<String> {
        sent(&self.0, key).await
    }

    async fn bury(&self, dead: &[Dead]) -> Vec<String> {
        let now = Timestamp::now();
        let letter = |dead: &Dead| NewLetter {
            event_type: dead.event_type.clone(),
            key: dead.key.clone(),
            payload: dead.payload.clone().into_bytes(),
            failure: dead.failure.clone(),
            first_failed_at: now,
            failed_at: now,
            ..new_letter()
        };
        names(&self.add_letters(dead.iter().map(letter).collect()).await)
    }
}
