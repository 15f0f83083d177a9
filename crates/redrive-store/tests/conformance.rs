//! One suite for every store and every backend.

use std::future::Future;

use redrive_core::dead_letter::PipelineKind;
use redrive_core::state::{FailedEventState, JobState, LetterState, OutboxState};
use redrive_store::conformance::{
    self, FailedEventsSubject, JobsSubject, LettersSubject, MemorySubject, OutboxSubject,
};
use redrive_store::{
    Database, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, Letters, Memory, Outbox, OutboxOptions,
    Processed,
};
use redrive_testkit as testkit;

#[tokio::test]
async fn memory_conforms_as_every_machine() {
    conformance::run(&MemorySubject(Memory::<OutboxState>::new())).await;
    conformance::run(&MemorySubject(Memory::<JobState>::new())).await;
    conformance::run(&MemorySubject(Memory::<FailedEventState>::new())).await;
    conformance::run(&MemorySubject(Memory::<LetterState>::new())).await;
}

async fn outbox(database: Database) {
    let outbox = Outbox::new(database, OutboxOptions::new("orders")).unwrap();
    outbox.migrate().await.unwrap();
    conformance::run(&OutboxSubject(outbox)).await;
}

async fn jobs(database: Database) {
    let options = JobsOptions { max_retries: 1_000, ..JobsOptions::new("summarize") };
    let jobs = Jobs::new(database, options).unwrap();
    jobs.migrate().await.unwrap();
    conformance::run(&JobsSubject(jobs)).await;
}

async fn failed_events(database: Database) {
    let failed = FailedEvents::new(database, FailedEventsOptions::new("urls")).unwrap();
    failed.migrate().await.unwrap();
    conformance::run(&FailedEventsSubject(failed)).await;
}

async fn letters(database: Database) {
    let letters = Letters::new(database, "intake", PipelineKind::Intake);
    letters.migrate().await.unwrap();
    conformance::run(&LettersSubject(letters)).await;
}

async fn on_sqlite<F: Future<Output = ()>>(suite: impl FnOnce(Database) -> F) {
    let database = testkit::sqlite();
    suite(Database::connect(&database.url).await.unwrap()).await;
}

async fn on_postgres<F: Future<Output = ()>>(suite: impl FnOnce(Database) -> F) {
    if let Some(database) = testkit::postgres(file!()).await {
        suite(Database::connect(&database.url).await.unwrap()).await;
    }
}

async fn on_mysql<F: Future<Output = ()>>(suite: impl FnOnce(Database) -> F) {
    if let Some(database) = testkit::mysql(file!()).await {
        suite(Database::connect(&database.url).await.unwrap()).await;
    }
}

macro_rules! conforms {
    ($($name:ident: $on:ident($suite:ident);)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $on($suite).await;
        })+
    };
}

conforms! {
    the_outbox_conforms_on_sqlite: on_sqlite(outbox);
    the_outbox_conforms_on_postgres: on_postgres(outbox);
    the_outbox_conforms_on_mysql: on_mysql(outbox);
    jobs_conform_on_sqlite: on_sqlite(jobs);
    jobs_conform_on_postgres: on_postgres(jobs);
    jobs_conform_on_mysql: on_mysql(jobs);
    failed_events_conform_on_sqlite: on_sqlite(failed_events);
    failed_events_conform_on_postgres: on_postgres(failed_events);
    failed_events_conform_on_mysql: on_mysql(failed_events);
    letters_conform_on_sqlite: on_sqlite(letters);
    letters_conform_on_postgres: on_postgres(letters);
    letters_conform_on_mysql: on_mysql(letters);
}
