//! An outbox at work while its store misbehaves: what the suites about that share.
#![allow(dead_code, reason = "each suite uses a part of it")]
#![allow(clippy::unwrap_used, reason = "it fails as the tests do")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{DeadLetterQueue as _, PipelineKind};
use redrive_core::event::{Event, NewEvent, WorkId};
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_core::trouble::Trouble;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{Database, Outbox, OutboxOptions, WorkStore as _};
pub(crate) use redrive_testkit::eventually;
use redrive_testkit::{Client, PATIENCE, TestDatabase};

/// Short, so that a test can outlast it; long enough that a busy machine extends it in time.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// How many instances work on the same tables, as two servers would.
const INSTANCES: usize = 2;

/// An outbox with two instances at work on it.
pub(crate) struct Flow {
    pub(crate) database: TestDatabase,
    outbox: Outbox,
    instances: Vec<Instance>,
    delivered: Arc<Delivered>,
    accepted: u64,
}

/// What one server would be: its own connections, its own engine.
struct Instance {
    engine: Engine,
    pipeline: Arc<Pipeline>,
}

/// A handler that takes its time and remembers what it was given.
struct Delivered {
    takes: Duration,
    times: Mutex<HashMap<WorkId, u32>>,
}

#[async_trait]
impl Handler for Delivered {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        for event in batch {
            *self.times.lock().unwrap().entry(event.id).or_default() += 1;
        }
        tokio::time::sleep(self.takes).await;
        vec![Ok(()); batch.len()]
    }
}

impl Flow {
    /// Starts the instances on fresh tables, with a handler that takes so long.
    pub(crate) async fn start(database: TestDatabase, takes: Duration) -> Self {
        let outbox = outbox(&database).await;
        outbox.migrate().await.unwrap();
        let delivered = Arc::new(Delivered { takes, times: Mutex::default() });
        let mut instances = Vec::new();
        for _ in 0..INSTANCES {
            instances.push(Instance::start(&database, &delivered).await);
        }
        Self { database, outbox, instances, delivered, accepted: 0 }
    }

    /// Puts in so many events.
    pub(crate) async fn accept(&mut self, events: usize) {
        self.accepted += events as u64;
        self.outbox.append(vec![event(); events]).await.unwrap();
    }

    /// Waits until so many more of the events have been handed to the handler.
    pub(crate) async fn hands_out(&self, more: usize) {
        let before = self.handed_out();
        let flowing = || async { self.handed_out() >= before + more };
        eventually(PATIENCE, "events are handed out", flowing).await;
    }

    /// Waits until more events are settled than now.
    pub(crate) async fn makes_progress(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut before = None;
        while Instant::now() < deadline {
            match (self.outbox.backlog().await, before) {
                (Ok(backlog), Some(before)) if backlog < before => return,
                (Ok(backlog), None) => before = Some(backlog),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nothing was settled within {PATIENCE:?}; the stores say {:?}", self.health());
    }

    /// Waits until nothing is left to do.
    pub(crate) async fn drains(&self) {
        let drained = || async { self.outbox.backlog().await.is_ok_and(|backlog| backlog == 0) };
        eventually(PATIENCE, "the backlog is empty", drained).await;
    }

    /// Whether every event was delivered, and nothing speaks of a failure.
    pub(crate) async fn is_unharmed(&self) {
        let mut client = Client::connect(&self.database).await;
        let processed = "SELECT count(*) FROM outbox_event WHERE processed = TRUE";
        assert_eq!(client.number(processed).await, i64::try_from(self.accepted).unwrap());
        let burnt = "SELECT count(*) FROM outbox_event WHERE retry_count <> 0";
        assert_eq!(client.number(burnt).await, 0, "attempts were burnt");
        assert_eq!(self.outbox.stats().await.unwrap().waiting(), 0, "something was dead-lettered");
        for health in self.health() {
            assert_eq!(health, Ok(()), "and the store counts as back");
        }
    }

    /// How many were handed out more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.delivered.times.lock().unwrap().values().filter(|times| **times > 1).count()
    }

    /// Stops the instances.
    pub(crate) async fn stop(self) {
        for instance in &self.instances {
            instance.engine.stop().await;
        }
    }

    fn handed_out(&self) -> usize {
        self.delivered.times.lock().unwrap().len()
    }

    fn health(&self) -> Vec<Result<(), Trouble>> {
        self.instances.iter().map(|instance| instance.pipeline.health.get()).collect()
    }
}

impl Instance {
    async fn start(database: &TestDatabase, delivered: &Arc<Delivered>) -> Self {
        let outbox = Arc::new(outbox(database).await);
        let route = Route::new("delivered", delivered.clone());
        let routes = Routes::ByType(HashMap::from([("OrderCreated".to_owned(), route)]));
        let backoff = Backoff::new(Duration::from_millis(10), 1.0, Duration::from_millis(10)).unwrap();
        let pace = Pace { lease: LEASE, poll_interval: Duration::from_millis(100), ..Pace::default() };
        let pipeline =
            Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox, Policy::new(6, backoff));
        let pipeline = Arc::new(pipeline.handled_by(routes).at(pace));
        let engine = Engine::new();
        engine.start(&pipeline, WatchOptions::default());
        Self { engine, pipeline }
    }
}

pub(crate) async fn outbox(database: &TestDatabase) -> Outbox {
    let connections = Database::connect(&database.url).await.unwrap();
    Outbox::new(connections, OutboxOptions::new("orders")).unwrap()
}

pub(crate) fn event() -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        payload: "{}".into(),
    }
}
