//! A library user's engine hears of new work from Postgres.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::event::{Event, NewEvent};
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{Database, Jobs, JobsOptions, NewJob, Outbox, OutboxOptions, WorkStore};
use tokio::sync::mpsc;

/// Far beyond any test: what is handled before was announced.
const NEVER: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(60);

struct Signals(mpsc::UnboundedSender<String>);

#[async_trait]
impl Handler for Signals {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        batch.iter().for_each(|event| drop(self.0.send(event.key.clone())));
        vec![Ok(()); batch.len()]
    }
}

fn pipeline(
    kind: PipelineKind,
    store: Arc<impl WorkStore + redrive_core::dead_letter::DeadLetterQueue + 'static>,
) -> (Arc<Pipeline>, mpsc::UnboundedReceiver<String>) {
    let (handled, signals) = mpsc::unbounded_channel();
    let policy =
        Policy::new(3, Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap());
    let pipeline = Pipeline::new("orders", kind, store.clone(), store, policy)
        .handled_by(Routes::All(Route::new("signals", Arc::new(Signals(handled)))))
        .at(Pace { poll_interval: NEVER, ..Pace::default() });
    (Arc::new(pipeline), signals)
}

async fn expect(signals: &mut mpsc::UnboundedReceiver<String>, subject: &str) {
    let handled = tokio::time::timeout(LONG, signals.recv()).await;
    assert_eq!(handled.expect("it was announced, and nobody listened").unwrap(), subject);
}

/// Only the binary listened: with the library an event waited for the next poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_in_a_program_hears_of_events_without_polling() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let connection = Database::connect(&database.url).await.unwrap();
    let outbox = Arc::new(Outbox::new(connection, OutboxOptions::new("orders")).unwrap());
    outbox.migrate().await.unwrap();
    let (pipeline, mut signals) = pipeline(PipelineKind::Outbox, Arc::clone(&outbox));
    let engine = Engine::new();
    engine.start(&pipeline, WatchOptions::default());
    // The first may be found by the first claim or when listening begins, the others are not.
    for number in 0..4 {
        let event = NewEvent {
            event_type: "OrderCreated".into(),
            aggregate_type: "Order".into(),
            aggregate_id: number.to_string(),
            payload: "{}".into(),
        };
        outbox.append(vec![event]).await.unwrap();
        expect(&mut signals, &number.to_string()).await;
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_in_a_program_hears_of_jobs_without_polling() {
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let connection = Database::connect(&database.url).await.unwrap();
    let jobs = Arc::new(Jobs::new(connection, JobsOptions::new("orders")).unwrap());
    jobs.migrate().await.unwrap();
    let (pipeline, mut signals) = pipeline(PipelineKind::Jobs, Arc::clone(&jobs));
    let engine = Engine::new();
    engine.start(&pipeline, WatchOptions::default());
    for number in 0..4 {
        jobs.enqueue(vec![NewJob::new(number.to_string(), "{}")]).await.unwrap();
        expect(&mut signals, &number.to_string()).await;
    }
    engine.stop().await;
}
