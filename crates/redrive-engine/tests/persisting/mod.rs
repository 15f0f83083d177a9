//! A persister on fresh tables: what the suites about it share.
#![allow(dead_code, reason = "each suite uses a part of it")]
#![allow(clippy::unwrap_used, reason = "it fails as the tests do")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::backoff::Backoff;
use redrive_engine::persist::Schedule;
use redrive_engine::{Engine, PersistOptions, Persister, WatchOptions};
use redrive_store::{Database, FailedEvents, FailedEventsOptions, Record, Target, TargetOptions};
use redrive_testkit::{Client, PATIENCE, TestDatabase};

/// A persister on fresh tables.
pub(crate) struct Stand {
    pub(crate) database: TestDatabase,
    pub(crate) target: Arc<Target>,
    pub(crate) failed: Arc<FailedEvents>,
    pub(crate) persister: Persister<Record>,
    pub(crate) engine: Engine,
}

impl Stand {
    pub(crate) async fn new(database: TestDatabase, options: PersistOptions) -> Self {
        let stand = Self::without_tables(database, options);
        stand.target.migrate().await.unwrap();
        stand.failed.migrate().await.unwrap();
        stand
    }

    pub(crate) fn without_tables(database: TestDatabase, options: PersistOptions) -> Self {
        let connections = Database::open(&database.url).unwrap();
        let target = Arc::new(Target::new(connections.clone(), &TargetOptions::new("urls")).unwrap());
        let failed = Arc::new(FailedEvents::new(connections, FailedEventsOptions::new("urls")).unwrap());
        let persister = Persister::builder(target.clone(), failed.clone()).build(options);
        Self { database, target, failed, persister, engine: Engine::new() }
    }

    /// The same table for another instance, with connections of its own.
    pub(crate) async fn another_failed(&self) -> Arc<FailedEvents> {
        let connections = Database::connect(&self.database.url).await.unwrap();
        Arc::new(FailedEvents::new(connections, FailedEventsOptions::new("urls")).unwrap())
    }

    pub(crate) fn start(&self) {
        self.engine.persist(&self.persister, WatchOptions::default());
    }

    pub(crate) async fn stop(&self) {
        self.engine.stop().await;
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.database).await
    }

    /// How many rows the target has.
    pub(crate) async fn saved(&self) -> i64 {
        self.client().await.number("SELECT count(*) FROM urls").await
    }

    /// How many failed events are in this state.
    pub(crate) async fn failed_count(&self, status: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM failed_events WHERE status = '{status}'");
        self.client().await.number(&sql).await
    }

    /// Waits until so many failed events are in this state.
    pub(crate) async fn reaches(&self, status: &str, count: i64) {
        let what = format!("{count} failed events are {status}");
        eventually(&what, async || self.failed_count(status).await == count).await;
    }
}

pub(crate) fn record(key: &str, payload: &str) -> Record {
    Record { key: key.into(), payload: payload.into(), created_at: Timestamp::UNIX_EPOCH }
}

pub(crate) fn records(range: Range<usize>) -> Vec<Record> {
    range.map(|n| record(&format!("k{n}"), &format!("v{n}"))).collect()
}

/// A persister in a hurry.
pub(crate) fn quick() -> PersistOptions {
    let (start, pause) = (Duration::from_millis(1), Duration::from_millis(10));
    PersistOptions {
        backoff: Backoff::new(start, 2.0, pause).unwrap(),
        schedule: Schedule {
            initial_delay: Duration::from_millis(50),
            fixed_delay: Duration::from_millis(100),
            ..Schedule::default()
        },
        ..PersistOptions::default()
    }
}

/// As [`quick`], but the first run of the schedule waits for the bell.
pub(crate) fn on_demand() -> PersistOptions {
    let options = quick();
    let schedule = Schedule { initial_delay: Duration::from_secs(600), ..options.schedule };
    PersistOptions { schedule, ..options }
}

pub(crate) async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    redrive_testkit::eventually(PATIENCE, what, holds).await;
}
