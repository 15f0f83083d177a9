//! One suite for every store and every backend.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use async_trait::async_trait;
use common::{failed_events, jobs, letters, outbox};
use redrive_core::event::WorkId;
use redrive_core::state::{FailedEventState, JobState, LetterState, OutboxState};
use redrive_store::conformance::{
    self, FailedEventsSubject, JobsSubject, LettersSubject, MemorySubject, OutboxSubject, Subject,
};
use redrive_store::{JobsOptions, Memory, OutboxOptions, Processed, WorkStore};
use redrive_testkit as testkit;

#[tokio::test]
async fn memory_conforms_as_every_machine() {
    conformance::run(&MemorySubject(Memory::<OutboxState>::new())).await;
    conformance::run(&MemorySubject(Memory::<JobState>::new())).await;
    conformance::run(&MemorySubject(Memory::<FailedEventState>::new())).await;
    conformance::run(&MemorySubject(Memory::<LetterState>::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_conforms() {
    for database in testkit::backends(file!()).await {
        conformance::run(&OutboxSubject(outbox(&database, OutboxOptions::new("orders")).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_that_deletes_what_it_delivered_conforms() {
    for database in testkit::backends(file!()).await {
        let options = OutboxOptions { processed: Processed::Delete, ..OutboxOptions::new("orders") };
        conformance::run(&Deleting(OutboxSubject(outbox(&database, options).await))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_conform() {
    for database in testkit::backends(file!()).await {
        let options = JobsOptions { max_retries: 1_000, ..JobsOptions::new("summarize") };
        conformance::run(&JobsSubject(jobs(&database, options).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_events_conform() {
    for database in testkit::backends(file!()).await {
        conformance::run(&FailedEventsSubject(failed_events(&database).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_conform() {
    for database in testkit::backends(file!()).await {
        conformance::run(&LettersSubject(letters(&database, "intake").await)).await;
    }
}

/// An event that is gone was delivered: this outbox loses no other.
struct Deleting(OutboxSubject);

#[async_trait]
impl Subject for Deleting {
    type State = OutboxState;

    fn store(&self) -> &dyn WorkStore {
        self.0.store()
    }

    async fn add(&self, count: usize) -> Vec<WorkId> {
        self.0.add(count).await
    }

    async fn state(&self, id: WorkId) -> Option<OutboxState> {
        self.0.state(id).await.or(Some(OutboxState::Processed))
    }

    async fn place(&self, id: WorkId, state: OutboxState) {
        self.0.place(id, state).await;
    }

    async fn redrive(&self, id: WorkId) -> bool {
        self.0.redrive(id).await
    }

    async fn resolve(&self, id: WorkId) -> bool {
        self.0.resolve(id).await
    }
}
