//! The worker loop with a real store: what it delivers, retries, buries, hands back, and survives.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Page, PipelineKind, Status, Summary};
use redrive_core::event::{Event, NewEvent, WorkId};
use redrive_core::failure::{Code, Failure};
use redrive_core::handler::Handler;
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::policy::Policy;
use redrive_core::state::OutboxState;
use redrive_engine::alerts::{AlertService, DeadLetterAlert, Level};
use redrive_engine::{Engine, Pace, Pipeline, Remote, Route, Routes, WatchOptions};
use redrive_store::{
    Claim, Database, Dialect, Error, Jobs, JobsOptions, NewJob, Outbox, OutboxOptions, TakeOver, Turn,
    WorkStore,
};
use redrive_testkit::{PATIENCE, TestDatabase, sqlite};
use tokio::sync::Semaphore;

type Answer = dyn Fn(&Event) -> Result<(), Failure> + Send + Sync;

/// A handler that answers as it is told and remembers what it saw.
struct Script {
    answer: Box<Answer>,
    seen: Mutex<Vec<WorkId>>,
}

impl Script {
    fn new(answer: impl Fn(&Event) -> Result<(), Failure> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), seen: Mutex::default() })
    }

    fn seen(&self) -> Vec<WorkId> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Handler for Script {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        self.seen.lock().unwrap().extend(batch.iter().map(|event| event.id));
        batch.iter().map(|event| (self.answer)(event)).collect()
    }
}

struct Fixture {
    outbox: Arc<Outbox>,
    _database: TestDatabase,
}

async fn fixture() -> Fixture {
    let database = sqlite();
    let outbox =
        Outbox::new(Database::connect(&database.url).await.unwrap(), OutboxOptions::new("orders")).unwrap();
    outbox.migrate().await.unwrap();
    Fixture { outbox: Arc::new(outbox), _database: database }
}

fn event(event_type: &str, payload: &str) -> NewEvent {
    NewEvent {
        event_type: event_type.into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        payload: payload.into(),
    }
}

fn quick() -> Policy {
    Policy::new(6, Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap())
}

fn pace() -> Pace {
    Pace {
        poll_interval: Duration::from_millis(50),
        handler_timeout: PATIENCE,
        grace: PATIENCE,
        ..Pace::default()
    }
}

impl Fixture {
    fn pipeline(&self, handler: Arc<dyn Handler>) -> Pipeline {
        let routes =
            Routes::ByType(HashMap::from([("OrderCreated".to_owned(), Route::new("script", handler))]));
        let store: Arc<dyn WorkStore> = self.outbox.clone();
        Pipeline::new("orders", PipelineKind::Outbox, store, self.outbox.clone(), quick())
            .handled_by(routes)
            .at(pace())
    }

    fn start(&self, pipeline: Pipeline) -> (Engine, Arc<Pipeline>) {
        let engine = Engine::new();
        let pipeline = Arc::new(pipeline);
        engine.start(&pipeline, WatchOptions::default());
        (engine, pipeline)
    }

    async fn letters(&self) -> Vec<Summary> {
        self.outbox.list(&Filter::default(), Page::first(500)).await.unwrap().letters
    }

    async fn all_are(&self, ids: &[WorkId], state: OutboxState) -> bool {
        for id in ids {
            if self.outbox.state(*id).await.unwrap() != Some(state) {
                return false;
            }
        }
        true
    }
}

async fn eventually(holds: impl AsyncFnMut() -> bool) {
    redrive_testkit::eventually(PATIENCE, "what the test waits for", holds).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_events_are_delivered_once_each() {
    let fixture = fixture().await;
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}"); 1_000]).await.unwrap();
    let script = Script::new(|_| Ok(()));
    let (engine, _) = fixture.start(fixture.pipeline(script.clone()));
    eventually(|| async { fixture.outbox.backlog().await.unwrap() == 0 }).await;
    engine.stop().await;
    let mut seen = script.seen();
    seen.sort_unstable();
    assert_eq!(seen, ids);
    assert!(fixture.all_are(&ids, OutboxState::Processed).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_event_is_tried_six_times_and_then_dead_with_its_history() {
    let fixture = fixture().await;
    fixture.outbox.append(vec![event("OrderCreated", "{}")]).await.unwrap();
    let script = Script::new(|_| Err(Failure::unclassified("Boom", "it broke")));
    let (engine, _) = fixture.start(fixture.pipeline(script.clone()));
    eventually(|| async { !fixture.letters().await.is_empty() }).await;
    engine.stop().await;
    assert_eq!(script.seen().len(), 6);
    let letter = &fixture.letters().await[0];
    assert_eq!((letter.attempts, letter.failure.kind.as_str(), letter.status), (6, "Boom", Status::Open));
    let letter = fixture.outbox.get(&letter.id.local).await.unwrap().unwrap();
    assert_eq!(letter.history.attempts().len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_failure_and_a_missing_handler_are_dead_at_once() {
    let fixture = fixture().await;
    fixture.outbox.append(vec![event("OrderCreated", "{}"), event("Unknown", "{}")]).await.unwrap();
    let script = Script::new(|_| Err(Failure::permanent("Refused", "never")));
    let (engine, _) = fixture.start(fixture.pipeline(script.clone()));
    eventually(|| async { fixture.letters().await.len() == 2 }).await;
    engine.stop().await;
    assert_eq!(script.seen().len(), 1);
    let letters = fixture.letters().await;
    assert!(letters.iter().all(|letter| letter.attempts == 1));
    let unhandled = letters.iter().find(|letter| letter.event_type == "Unknown").unwrap();
    assert!(unhandled.failure.message.contains("\"Unknown\""), "the message names the type");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_and_a_time_out_are_failures_of_their_own_event_only() {
    struct Moody;
    #[async_trait]
    impl Handler for Moody {
        async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
            match batch[0].payload.as_slice() {
                b"panic" => panic!("a handler may panic"),
                b"hang" => std::future::pending().await,
                _ => vec![Ok(())],
            }
        }
    }
    let fixture = fixture().await;
    let payloads = ["panic", "ok", "hang", "ok"];
    let events = payloads.iter().map(|payload| event("OrderCreated", payload)).collect();
    let ids = fixture.outbox.append(events).await.unwrap();
    let mut pipeline = fixture.pipeline(Arc::new(Moody));
    pipeline.pace.handler_timeout = Duration::from_millis(20);
    let (engine, _) = fixture.start(pipeline);
    eventually(|| async { fixture.letters().await.len() == 2 }).await;
    engine.stop().await;
    assert!(fixture.all_are(&[ids[1], ids[3]], OutboxState::Processed).await);
    let mut kinds: Vec<_> = fixture.letters().await.into_iter().map(|letter| letter.failure.kind).collect();
    kinds.sort();
    assert_eq!(kinds, ["Panic", "Timeout"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_handler_burns_no_attempts_and_ends_by_itself() {
    let fixture = fixture().await;
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}"); 40]).await.unwrap();
    let down = Arc::new(AtomicBool::new(true));
    let script = Script::new({
        let down = Arc::clone(&down);
        move |_| match down.load(Ordering::Relaxed) {
            true => Err(Failure::transient("ConnectionRefused", "nobody is there")),
            false => Ok(()),
        }
    });
    let (engine, pipeline) = fixture.start(fixture.pipeline(script.clone()));
    let Some(Routes::ByType(routes)) = &pipeline.routes else { unreachable!() };
    let route = &routes["OrderCreated"];
    eventually(|| async { route.is_down() }).await;
    let tried = script.seen().len();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(script.seen().len() <= tried + 40, "the handler is not hammered while it is down");
    down.store(false, Ordering::Relaxed);
    eventually(|| async { fixture.all_are(&ids, OutboxState::Processed).await }).await;
    engine.stop().await;
    assert!(fixture.letters().await.is_empty(), "an outage is not poison");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_buries_nobody_also_when_few_events_wait() {
    let fixture = fixture().await;
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}"); 2]).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let script = Script::new({
        let calls = Arc::clone(&calls);
        move |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(Failure::transient("HttpStatus", "503").with_code(Code::Http(503))),
            _ => Ok(()),
        }
    });
    let mut pipeline = fixture.pipeline(script);
    pipeline.policy = Policy::new(1, Backoff::new(Duration::ZERO, 1.0, Duration::ZERO).unwrap());
    let (engine, _) = fixture.start(pipeline);
    eventually(|| async { fixture.all_are(&ids, OutboxState::Processed).await }).await;
    engine.stop().await;
    assert!(fixture.letters().await.is_empty(), "an outage is not poison");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_ends_in_a_defect_is_replaced_and_readiness_says_so() {
    let fixture = fixture().await;
    let script = Script::new(|_| Ok(()));
    let mut pipeline = fixture.pipeline(script);
    pipeline.pace.workers = 1;
    pipeline.pace.lease = Duration::from_millis(300);
    // The third turn ends in a panic.
    let store = Arc::new(Unplugged { defect_in: AtomicU32::new(3), ..Unplugged::new(&fixture.outbox) });
    pipeline.store = store.clone();
    let (engine, pipeline) = fixture.start(pipeline);
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}"); 10]).await.unwrap();
    pipeline.bell.ring();
    eventually(|| async { pipeline.health.get().is_err_and(|said| said.detail.contains("defect")) }).await;
    store.goes_on.add_permits(1);
    eventually(|| async { fixture.all_are(&ids, OutboxState::Processed).await }).await;
    eventually(|| async { pipeline.health.get().is_ok() }).await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_what_runs_and_hands_back_the_rest() {
    struct Slow(AtomicUsize);
    #[async_trait]
    impl Handler for Slow {
        async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
            vec![Ok(()); batch.len()]
        }
    }
    let fixture = fixture().await;
    fixture.outbox.append(vec![event("OrderCreated", "{}"); 50]).await.unwrap();
    let slow = Arc::new(Slow(AtomicUsize::new(0)));
    let mut pipeline = fixture.pipeline(slow.clone());
    pipeline.pace.concurrency = 4;
    let (engine, _) = fixture.start(pipeline);
    eventually(|| async { slow.0.load(Ordering::Relaxed) >= 4 }).await;
    engine.stop().await;
    let begun = slow.0.load(Ordering::Relaxed);
    assert_eq!(fixture.outbox.backlog().await.unwrap(), 50 - begun as u64, "what was begun is done");
    let claim = Claim {
        worker: "next".into(),
        limit: 100,
        lease: Duration::from_secs(60),
        take_over: TakeOver::Never,
    };
    let turn = fixture.outbox.turn(&mut Vec::new(), Some(&claim)).await.unwrap();
    assert_eq!(turn.claimed.len(), 50 - begun, "the rest is free at once");
    assert!(turn.claimed.iter().all(|(_, work)| work.retry_count == 0), "and no attempt was burnt");
}

/// A store that can be switched off, around a real one.
struct Unplugged {
    store: Arc<Outbox>,
    off: AtomicBool,
    /// The next settlement is made, and the answer to it is lost.
    loses_answer: AtomicBool,
    /// After so many turns one ends in a panic; 0 is never.
    defect_in: AtomicU32,
    /// After the panic, turns wait for a permit of this.
    goes_on: Semaphore,
    has_panicked: AtomicBool,
}

impl Unplugged {
    fn new(store: &Arc<Outbox>) -> Self {
        Self {
            store: Arc::clone(store),
            off: AtomicBool::new(false),
            loses_answer: AtomicBool::new(false),
            defect_in: AtomicU32::new(0),
            goes_on: Semaphore::new(0),
            has_panicked: AtomicBool::new(false),
        }
    }

    fn silence() -> Error {
        Error::Unavailable { dialect: Dialect::Sqlite, source: sqlx::Error::PoolTimedOut.into() }
    }

    fn plugged(&self) -> Result<(), Error> {
        match self.off.load(Ordering::Relaxed) {
            true => Err(Self::silence()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl WorkStore for Unplugged {
    async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error> {
        self.plugged()?;
        if self.has_panicked.load(Ordering::Relaxed) {
            drop(self.goes_on.acquire().await);
        }
        let is_last = self.defect_in.fetch_sub(1, Ordering::Relaxed) == 1;
        self.has_panicked.fetch_or(is_last, Ordering::Relaxed);
        assert!(!is_last, "a defect");
        if !settled.is_empty() && self.loses_answer.swap(false, Ordering::Relaxed) {
            let same = |(lease, settlement): &(Lease, Settlement)| {
                (Lease::new(lease.work(), lease.fence(), lease.until()), settlement.clone())
            };
            self.store.turn(&mut settled.iter().map(same).collect(), None).await?;
            return Err(Self::silence());
        }
        self.store.turn(settled, claim).await
    }

    async fn extend(&self, leases: &mut [&mut Lease], lease: Duration) -> Result<Vec<WorkId>, Error> {
        self.plugged()?;
        self.store.extend(leases, lease).await
    }

    async fn recall(&self, lease: &Lease) -> Result<Option<Work>, Error> {
        self.plugged()?;
        self.store.recall(lease).await
    }

    async fn settle_unexpired(&self, lease: Lease, settlement: Settlement) -> Result<bool, Error> {
        self.plugged()?;
        self.store.settle_unexpired(lease, settlement).await
    }

    async fn extend_unexpired(&self, lease: &mut Lease, by: Duration) -> Result<bool, Error> {
        self.plugged()?;
        self.store.extend_unexpired(lease, by).await
    }

    async fn backlog(&self) -> Result<u64, Error> {
        self.plugged()?;
        self.store.backlog().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_store_burns_no_attempts_and_nothing_is_done_twice() {
    let fixture = fixture().await;
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}"); 200]).await.unwrap();
    let store = Arc::new(Unplugged::new(&fixture.outbox));
    let pulled = Arc::new(AtomicU32::new(0));
    let script = Script::new({
        let (store, pulled) = (Arc::clone(&store), Arc::clone(&pulled));
        // Pulls the plug in the middle of the work, while outcomes are on their way.
        move |_| {
            if pulled.fetch_add(1, Ordering::Relaxed) == 60 {
                store.off.store(true, Ordering::Relaxed);
            }
            Ok(())
        }
    });
    let mut pipeline = fixture.pipeline(script.clone());
    pipeline.store = store.clone();
    let (engine, pipeline) = fixture.start(pipeline);
    eventually(|| async { pipeline.health.get().is_err() }).await;
    store.off.store(false, Ordering::Relaxed);
    eventually(|| async { fixture.all_are(&ids, OutboxState::Processed).await }).await;
    eventually(|| async { pipeline.health.get().is_ok() }).await;
    engine.stop().await;
    assert_eq!(script.seen().len(), 200, "outcomes waited for the store: nothing was handled again");
    assert!(fixture.letters().await.is_empty());
}

/// Hears of dead letters.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl AlertService for Ear {
    fn dead_letter(&self, letter: DeadLetterAlert) {
        self.0.lock().unwrap().push(letter.event_id.to_string());
    }

    fn unresolved(&self, _: Level) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_told_once_even_if_the_answer_to_its_burial_was_lost() {
    let fixture = fixture().await;
    let ids = fixture.outbox.append(vec![event("OrderCreated", "{}")]).await.unwrap();
    let store = Arc::new(Unplugged::new(&fixture.outbox));
    store.loses_answer.store(true, Ordering::Relaxed);
    let ear = Arc::new(Ear::default());
    let script = Script::new(|_| Err(Failure::permanent("Boom", "for good")));
    let mut pipeline = fixture.pipeline(script.clone()).alerting(ear.clone());
    pipeline.store = store.clone();
    let (engine, pipeline) = fixture.start(pipeline);
    eventually(|| async { !ear.0.lock().unwrap().is_empty() }).await;
    eventually(|| async { pipeline.health.get().is_ok() }).await;
    engine.stop().await;
    assert!(!store.loses_answer.load(Ordering::Relaxed), "the answer was lost");
    assert_eq!(*ear.0.lock().unwrap(), [ids[0].to_string()]);
    assert_eq!((fixture.letters().await.len(), script.seen().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_kills_its_worker_ends_as_a_dead_letter() {
    // Faktory #99, NexJob #143: the attempt of a process that died must count.
    let fixture = fixture().await;
    fixture.outbox.append(vec![event("OrderCreated", "{}")]).await.unwrap();
    let at_once = Policy::new(6, Backoff::new(Duration::ZERO, 1.0, Duration::ZERO).unwrap());
    let outbox = &fixture.outbox;
    let pipeline = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), at_once);
    let next = Remote::new(Arc::new(pipeline));
    for attempt in 0..6 {
        // Whoever claims it dies, and the next one finds that before it is given it.
        let claimed = next.claim("dies", 1, Duration::ZERO).await.unwrap();
        assert_eq!(claimed[0].1.retry_count, attempt, "the attempt is counted before it is tried again");
    }
    assert!(next.claim("next", 1, Duration::from_secs(60)).await.unwrap().is_empty());
    let letters = fixture.letters().await;
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].attempts, letters[0].failure.kind.as_str()), (6, "Interrupted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_has_its_own_limit_of_attempts() {
    let database = sqlite();
    let jobs =
        Jobs::new(Database::connect(&database.url).await.unwrap(), JobsOptions::new("summarize")).unwrap();
    jobs.migrate().await.unwrap();
    let jobs = Arc::new(jobs);
    let two = NewJob { max_retries: Some(2), ..NewJob::new("article-1", "{}") };
    jobs.enqueue(vec![two, NewJob::new("article-2", "{}")]).await.unwrap();
    let script = Script::new(|_| Err(Failure::unclassified("Boom", "")));
    let pipeline = Pipeline::new("summarize", PipelineKind::Jobs, jobs.clone(), jobs.clone(), quick())
        .handled_by(Routes::All(Route::new("script", script.clone())))
        .at(pace());
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    eventually(|| async { jobs.stats().await.unwrap().waiting() == 2 }).await;
    engine.stop().await;
    assert_eq!(script.seen().len(), 2 + 3);
}
