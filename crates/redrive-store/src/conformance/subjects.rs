//! The stores of this crate as subjects of the suite.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Operator, Origin, Page};
use redrive_core::event::{NewEvent, WorkId};
use redrive_core::failure::Failure;
use redrive_core::state::{FailedEventState, JobState, LetterState, Machine, OutboxState, Step};

use super::Subject;
use crate::failed_events::{FailedEvent, FailedEvents};
use crate::jobs::{Enqueued, Jobs, NewJob};
use crate::letters::{Letters, NewLetter};
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::work::WorkStore;

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

fn operator() -> Operator {
    Operator::new("conformance")
}

async fn redrive(queue: &dyn DeadLetterQueue, id: Option<String>) -> bool {
    let Some(id) = id else { return false };
    !queue.redrive(&[id], &operator()).await.expect("redrive").done.is_empty()
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
    /// The letter of the event, by its origin.
    async fn letter(&self, event: WorkId) -> Option<String> {
        let listing = self.0.list(&Filter::default(), Page::first(500)).await.expect("list");
        for summary in listing.letters {
            let letter = self.0.get(&summary.id.local).await.expect("get").expect("it was listed");
            if matches!(letter.origin, Origin::Table { id, .. } if id == event.0) {
                return Some(summary.id.local);
            }
        }
        None
    }
}

#[async_trait]
impl Subject for JobsSubject {
    type State = JobState;

    fn store(&self) -> &dyn WorkStore {
        &self.0
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        let jobs = (0..count).map(|number| NewJob::new(format!("article-{number}"), "{}")).collect();
        let added = self.0.enqueue(jobs).await.expect("enqueue");
        added.into_iter().filter_map(|one| if let Enqueued::Added(id) = one { Some(id) } else { None }).collect()
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
            FailedEvent::new(&format!("k{number}"), "https://example.org", at, at, Failure::transient("Timeout", ""))
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
        let at = Timestamp::UNIX_EPOCH;
        let before = self.newest().await;
        let letter = |number: usize| NewLetter {
            source: format!("topic/0/{}", before + 1 + number as i64),
            event_type: "OrderCreated".into(),
            key: number.to_string(),
            payload: vec![0, 159, 146, 150],
            headers: vec![("trace".into(), vec![255, 0])],
            origin: Origin::Topic { topic: "topic".into(), partition: 0, offset: number as i64 },
            target: None,
            failure: Failure::permanent("Refused", "no"),
            attempts: 1,
            first_failed_at: at,
            failed_at: at,
        };
        let added = self.0.add(&(0..count).map(letter).collect::<Vec<_>>()).await.expect("add");
        assert_eq!(added, count);
        let newest = self.newest().await;
        (newest - count as i64 + 1..=newest).map(WorkId).collect()
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
    /// The highest number given out so far.
    async fn newest(&self) -> i64 {
        let listing = self.0.list(&Filter::default(), Page::first(1)).await.expect("list");
        listing.letters.first().and_then(|letter| letter.id.local.parse().ok()).unwrap_or(0)
    }
}
