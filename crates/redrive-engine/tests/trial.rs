//! An event that may kill its process is tried alone.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod counters;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use counters::Counters;
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

struct Healthy(tokio::sync::mpsc::UnboundedSender<String>);

#[async_trait]
impl Handler for Healthy {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        for event in batch {
            self.0.send(event.key.clone()).ok();
        }
        vec![Ok(()); batch.len()]
    }
}

async fn queue(database: &redrive_testkit::TestDatabase, name: &str) -> Arc<Jobs> {
    let jobs = Jobs::new(Database::connect(&database.url).await.unwrap(), JobsOptions::new(name)).unwrap();
    jobs.migrate().await.unwrap();
    Arc::new(jobs)
}

fn pipeline(name: &str, jobs: &Arc<Jobs>, handler: Arc<dyn Handler>, lease: Duration) -> Arc<Pipeline> {
    let backoff = Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap();
    let pipeline =
        Pipeline::new(name, PipelineKind::Jobs, jobs.clone(), jobs.clone(), Policy::new(2, backoff))
            .handled_by(Routes::All(Route::new("handler", handler)))
            .at(Pace { poll_interval: Duration::from_millis(10), lease, ..Pace::default() });
    Arc::new(pipeline)
}

/// Every pipeline of the process stood still for up to two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_whose_work_was_never_interrupted_goes_on_during_a_trial_elsewhere() {
    let paused: &Counters = Box::leak(Box::default());
    metrics::set_global_recorder(paused).expect("no other test of this suite counts");
    let lease = Duration::from_millis(300);
    let database = redrive_testkit::sqlite();
    let (healthy, deadly) = (queue(&database, "healthy").await, queue(&database, "deadly").await);
    let engine = Engine::new();
    let (handled, mut signals) = tokio::sync::mpsc::unbounded_channel();
    let neighbour = pipeline("healthy", &healthy, Arc::new(Healthy(handled)), lease);
    engine.start(&neighbour, WatchOptions::default());
    // From then on nothing can come up that an earlier process left behind.
    tokio::time::sleep(lease * 2).await;

    deadly.enqueue(vec![NewJob { max_retries: Some(2), ..NewJob::new("suspect", "{}") }]).await.unwrap();
    let lost = Claim {
        worker: "dead".into(),
        limit: 1,
        lease: Duration::from_millis(1),
        take_over: TakeOver::Never,
    };
    assert_eq!(deadly.turn(&mut Vec::new(), Some(&lost)).await.unwrap().claimed.len(), 1);
    let court = Arc::new(Court { seen: Mutex::default(), verdict: Semaphore::new(0) });
    engine
        .start(&pipeline("deadly", &deadly, court.clone(), Duration::from_secs(20)), WatchOptions::default());
    let tried = async || court.seen.lock().unwrap().len() == 1;
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "the suspect is tried", tried).await;
    healthy.enqueue(vec![NewJob::new("1", "{}")]).await.unwrap();
    assert_eq!(signals.recv().await.unwrap(), "1");
    assert_eq!(paused.get("redrive_claims_paused_milliseconds_total healthy"), 0, "it did not wait");
    court.verdict.add_permits(1);
    engine.stop().await;
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
        redrive_testkit::eventually(redrive_testkit::PATIENCE, "the handler is called", is_so).await;
    };
    saw(1).await;
    let tried = Instant::now();
    jobs.enqueue(vec![NewJob::new("neighbour", "{}")]).await.unwrap();
    // Twenty times as long as it looks for work; claims are paused ten times as long as this, unless the machine was
    // too busy to come here in that time.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let taken = seen();
    assert!(taken == 1 || tried.elapsed() > Duration::from_millis(1_500), "somebody is taken beside it");
    court.verdict.add_permits(1);
    // The neighbour, and one of the others.
    saw(3).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(seen(), 3, "the third waits for its turn");
    court.verdict.add_permits(2);
    saw(4).await;
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "all are done", async || {
        jobs.backlog().await.unwrap() == 0
    })
    .await;
    assert_eq!(jobs.delivered().await.unwrap(), 4, "nobody is buried, nobody is tried twice");
    engine.stop().await;
}

/// Whatever a process held when it died was dead with it, if it had no further attempt: most of it had never been begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_was_held_when_its_process_died_gets_its_only_attempt() {
    let database = redrive_testkit::sqlite();
    let jobs = queue(&database, "mails").await;
    let once = |name: &str| NewJob { max_retries: Some(1), ..NewJob::new(name, "{}") };
    jobs.enqueue(vec![once("1"), once("2"), once("3")]).await.unwrap();
    let dead_worker = Claim {
        worker: "dead".into(),
        limit: 3,
        lease: Duration::from_millis(1),
        take_over: TakeOver::Never,
    };
    assert_eq!(jobs.turn(&mut Vec::new(), Some(&dead_worker)).await.unwrap().claimed.len(), 3);

    let (handled, mut signals) = tokio::sync::mpsc::unbounded_channel();
    let engine = Engine::new();
    let pipeline = pipeline("mails", &jobs, Arc::new(Healthy(handled)), Duration::from_secs(1));
    engine.start(&pipeline, WatchOptions::default());
    let mut seen = Vec::new();
    for _ in 0..3 {
        let next = tokio::time::timeout(redrive_testkit::PATIENCE, signals.recv()).await;
        seen.push(next.expect("each is handled").unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, ["1", "2", "3"]);
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "all are done", async || {
        jobs.delivered().await.unwrap() == 3
    })
    .await;
    engine.stop().await;
}

/// It claimed a whole batch for two handlers, and what waited lost an attempt when the process died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_claimed_than_slow_handlers_can_begin_with() {
    let database = redrive_testkit::sqlite();
    let jobs = queue(&database, "mails").await;
    jobs.enqueue((0..100).map(|n| NewJob::new(format!("suspect {n}"), "{}")).collect()).await.unwrap();
    let court = Arc::new(Court { seen: Mutex::default(), verdict: Semaphore::new(0) });
    let mut pipeline =
        Arc::into_inner(pipeline("mails", &jobs, court.clone(), Duration::from_secs(60))).unwrap();
    pipeline.pace.concurrency = 2;
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    let begun = async || court.seen.lock().unwrap().len() == 2;
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "two are begun", begun).await;
    let free = Claim {
        worker: "other".into(),
        limit: 100,
        lease: Duration::from_secs(60),
        take_over: TakeOver::Never,
    };
    assert_eq!(jobs.turn(&mut Vec::new(), Some(&free)).await.unwrap().claimed.len(), 98);
    court.verdict.add_permits(2);
    engine.stop().await;
}
