//! An event that may kill its process is tried alone. In a binary of its own: the trial is the process's.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{Claim, Database, Jobs, JobsOptions, NewJob, TakeOver, WorkStore as _};
use tokio::sync::Semaphore;

/// Holds each suspect until it is let go; remembers whom it saw.
struct Court {
    seen: Mutex<Vec<String>>,
    verdict: Semaphore,
}

#[async_trait]
impl Handler for Court {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        for event in batch {
            self.seen.lock().unwrap().push(event.key.clone());
            if event.key.starts_with("suspect") {
                self.verdict.acquire().await.unwrap().forget();
            }
        }
        vec![Ok(()); batch.len()]
    }
}

/// Whatever was claimed beside it would have died with it, and its last attempt would have been gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_an_event_is_on_trial_nothing_else_is_claimed_and_each_has_its_turn() {
    let database = redrive_testkit::sqlite();
    let jobs = Jobs::new(Database::connect(&database.url).await.unwrap(), JobsOptions::new("mails")).unwrap();
    jobs.migrate().await.unwrap();
    let jobs = Arc::new(jobs);
    let suspect = |name: &str| NewJob { max_retries: Some(2), ..NewJob::new(name, "{}") };
    jobs.enqueue(vec![suspect("suspect 1"), suspect("suspect 2"), suspect("suspect 3")]).await.unwrap();
    let dead_worker = Claim {
        worker: "dead".into(),
        limit: 3,
        lease: Duration::from_millis(1),
        take_over: TakeOver::Never,
    };
    assert_eq!(jobs.turn(&mut Vec::new(), Some(&dead_worker)).await.unwrap().claimed.len(), 3);

    let court = Arc::new(Court { seen: Mutex::default(), verdict: Semaphore::new(0) });
    let backoff = Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap();
    let pipeline =
        Pipeline::new("mails", PipelineKind::Jobs, jobs.clone(), jobs.clone(), Policy::new(2, backoff))
            .handled_by(Routes::All(Route::new("court", court.clone())))
            .at(Pace { poll_interval: Duration::from_millis(10), ..Pace::default() });
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    let seen = || court.seen.lock().unwrap().len();
    let saw = async |count: usize| {
        let is_so = async || seen() == count;
        redrive_testkit::eventually(Duration::from_secs(20), "the handler is called", is_so).await;
    };
    saw(1).await;
    jobs.enqueue(vec![NewJob::new("neighbour", "{}")]).await.unwrap();
    // Twenty times as long as it looks for work; the hush lasts ten times as long as this.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(seen(), 1, "nobody is taken beside it");
    court.verdict.add_permits(1);
    // The neighbour, and one of the others.
    saw(3).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(seen(), 3, "the third waits for its turn");
    court.verdict.add_permits(2);
    saw(4).await;
    redrive_testkit::eventually(Duration::from_secs(10), "all are done", async || {
        jobs.backlog().await.unwrap() == 0
    })
    .await;
    assert_eq!(jobs.delivered().await.unwrap(), 4, "nobody is buried, nobody is tried twice");
    engine.stop().await;
}
