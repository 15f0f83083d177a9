//! A store that refuses one settlement, or is away while workers elsewhere hold leases: nobody else is
//! kept waiting, and nobody's attempts are burnt.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use common::{event, eventually, outbox};
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::policy::Policy;
use redrive_core::trouble::Reason;
use redrive_engine::{Engine, Pace, Pipeline, Remote, Reported, Route, Routes, WatchOptions};
use redrive_store::{Claim, Dialect, Error, Outbox, Turn, WorkStore};
use redrive_testkit::{PATIENCE, TestDatabase, sqlite};

/// A real store that refuses to settle one event, and can be switched off.
struct Faulty {
    store: Arc<Outbox>,
    refuses: Option<WorkId>,
    off: AtomicBool,
}

impl Faulty {
    async fn over(database: &TestDatabase, events: usize) -> (Self, Vec<WorkId>) {
        let store = Arc::new(outbox(database).await);
        store.migrate().await.unwrap();
        let ids = store.append(vec![event(); events]).await.unwrap();
        (Self { store, refuses: None, off: AtomicBool::new(false) }, ids)
    }

    fn answers(&self) -> Result<(), Error> {
        let error =
            || Error::Unavailable { dialect: Dialect::Sqlite, source: sqlx::Error::PoolTimedOut.into() };
        if self.off.load(Ordering::Relaxed) { Err(error()) } else { Ok(()) }
    }
}

#[async_trait]
impl WorkStore for Faulty {
    async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error> {
        self.answers()?;
        if settled.iter().any(|(lease, _)| Some(lease.work()) == self.refuses) {
            return Err(Error::Rejected {
                dialect: Dialect::Sqlite,
                source: sqlx::Error::RowNotFound.into(),
            });
        }
        self.store.turn(settled, claim).await
    }

    async fn extend(&self, leases: &mut [&mut Lease], lease: Duration) -> Result<Vec<WorkId>, Error> {
        self.answers()?;
        self.store.extend(leases, lease).await
    }

    async fn recall(&self, lease: &Lease) -> Result<Option<Work>, Error> {
        self.answers()?;
        self.store.recall(lease).await
    }

    async fn settle_unexpired(&self, lease: Lease, settlement: Settlement) -> Result<bool, Error> {
        self.answers()?;
        if Some(lease.work()) == self.refuses {
            return Err(Error::Rejected {
                dialect: Dialect::Sqlite,
                source: sqlx::Error::RowNotFound.into(),
            });
        }
        self.store.settle_unexpired(lease, settlement).await
    }

    async fn extend_unexpired(&self, lease: &mut Lease, by: Duration) -> Result<bool, Error> {
        self.answers()?;
        self.store.extend_unexpired(lease, by).await
    }

    async fn backlog(&self) -> Result<u64, Error> {
        self.answers()?;
        self.store.backlog().await
    }
}

struct Fine;

#[async_trait]
impl Handler for Fine {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        vec![Ok(()); batch.len()]
    }
}

fn pipeline(store: &Arc<Faulty>, lease: Duration) -> Pipeline {
    let backoff = Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap();
    let (letters, policy) = (Arc::clone(&store.store), Policy::new(6, backoff));
    let pace = Pace { lease, poll_interval: Duration::from_millis(50), batch_size: 1, ..Pace::default() };
    Pipeline::new("orders", PipelineKind::Outbox, store.clone(), letters, policy).at(pace)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_that_is_refused_keeps_nobody_else_waiting() {
    let database = sqlite();
    let (mut store, ids) = Faulty::over(&database, 5).await;
    store.refuses = Some(ids[0]);
    let store = Arc::new(store);
    let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("fine", Arc::new(Fine)))]);
    let pipeline = pipeline(&store, Duration::from_secs(60)).handled_by(Routes::ByType(routes));
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    let settled = || async { store.backlog().await.unwrap() == 1 };
    eventually(PATIENCE, "all but the refused one are settled", settled).await;
    engine.stop().await;
}

/// It was reported as a lost lease, as if another worker had it, and `/ready` said that all was well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_that_drops_settlements_in_silence_is_reported_as_a_refusal_of_the_table() {
    let drops_on_sqlite = "CREATE TRIGGER silent BEFORE UPDATE ON outbox_event WHEN NEW.processed \
                           BEGIN SELECT RAISE(IGNORE); END";
    let drops_on_postgres = "CREATE FUNCTION silent() RETURNS trigger LANGUAGE plpgsql AS \
                             $$BEGIN IF NEW.processed THEN RETURN NULL; END IF; RETURN NEW; END$$; \
                             CREATE TRIGGER silent BEFORE UPDATE ON outbox_event \
                             FOR EACH ROW EXECUTE FUNCTION silent()";
    let postgres = redrive_testkit::postgres(file!()).await.map(|database| (database, drops_on_postgres));
    for (database, drops) in postgres.into_iter().chain([(sqlite(), drops_on_sqlite)]) {
        let (store, _) = Faulty::over(&database, 3).await;
        redrive_testkit::Client::connect(&database).await.run(drops).await;
        let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("fine", Arc::new(Fine)))]);
        let pipeline = pipeline(&Arc::new(store), Duration::from_secs(60)).handled_by(Routes::ByType(routes));
        let pipeline = Arc::new(pipeline);
        let engine = Engine::new();
        engine.start(&pipeline, WatchOptions::default());
        let reported = || async {
            let trouble = pipeline.health.get().err();
            trouble.is_some_and(|trouble| {
                trouble.reason == Reason::TableRefused
                    && trouble.detail.contains("3 of its rows")
                    && trouble.detail.contains("trigger")
            })
        };
        eventually(PATIENCE, "all three are reported", reported).await;
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_elsewhere_keeps_its_lease_when_the_store_was_away_for_longer() {
    // Reports are accepted for as long, once the store is back.
    let lease = Duration::from_secs(3);
    let database = sqlite();
    let (store, ids) = Faulty::over(&database, 1).await;
    let store = Arc::new(store);
    let remote = Remote::new(Arc::new(pipeline(&store, lease)));
    let claimed = remote.claim("holder", 1, lease).await.unwrap();
    store.off.store(true, Ordering::Relaxed);
    let fence = claimed[0].0.fence();
    assert!(remote.heartbeat(ids[0], fence, lease).await.is_err());
    tokio::time::sleep(lease * 3 / 2).await;
    store.off.store(false, Ordering::Relaxed);
    assert!(remote.claim("other", 1, lease).await.unwrap().is_empty(), "the holder could not extend it");
    assert_eq!(remote.complete(ids[0], fence).await.unwrap(), Reported::Accepted);
}

/// A refusal was taken for an outage, and the deaths of workers were excused for as long as it came again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_refused_excuses_no_dead_worker() {
    let database = sqlite();
    let (mut store, ids) = Faulty::over(&database, 2).await;
    store.refuses = Some(ids[0]);
    let remote = Remote::new(Arc::new(pipeline(&Arc::new(store), Duration::from_secs(60))));
    let claimed = remote.claim("reports", 1, Duration::from_secs(60)).await.unwrap();
    assert!(remote.complete(ids[0], claimed[0].0.fence()).await.is_err());
    let claimed = remote.claim("dies", 1, Duration::ZERO).await.unwrap();
    assert_eq!(claimed[0].1.retry_count, 0);
    let next = remote.claim_patiently("next", 1, Duration::from_secs(60), Duration::from_secs(10)).await;
    assert_eq!(next.unwrap()[0].1.retry_count, 1, "the attempt of the one that died counts");
}

/// Fails everything for good, and counts.
#[derive(Default)]
struct Hopeless(std::sync::atomic::AtomicUsize);

#[async_trait]
impl Handler for Hopeless {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        self.0.fetch_add(batch.len(), Ordering::Relaxed);
        vec![Err(Failure::permanent("Declined", "no")); batch.len()]
    }
}

/// A table that will not hold a letter: the event was handled again after each lease, and everybody said that all was
/// well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_letter_the_table_refuses_is_set_aside_and_reported() {
    let database = sqlite();
    let (store, _) = Faulty::over(&database, 1).await;
    let store = Arc::new(store);
    let mut client = redrive_testkit::Client::connect(&database).await;
    client
        .run(
            "CREATE TRIGGER refuse BEFORE INSERT ON outbox_event_dlq \
             BEGIN SELECT RAISE(ABORT, 'letters must not be'); END",
        )
        .await;
    let handler = Arc::new(Hopeless::default());
    let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("hopeless", handler.clone()))]);
    let pipeline = Arc::new(pipeline(&store, Duration::from_secs(60)).handled_by(Routes::ByType(routes)));
    let engine = Engine::new();
    engine.start(&pipeline, WatchOptions::default());
    let is_reported = || async {
        pipeline
            .health
            .get()
            .is_err_and(|why| why.detail.contains("letters must not be") && why.detail.contains("set aside"))
    };
    eventually(PATIENCE, "it is reported", is_reported).await;
    let waits = "SELECT count(*) FROM outbox_event WHERE leased_by IS NULL AND retry_count = 0 \
                 AND due_at > strftime('%Y-%m-%d %H:%M:%f', 'now', '30 seconds')";
    let is_set_aside =
        || async { redrive_testkit::Client::connect(&database).await.number(waits).await == 1 };
    eventually(PATIENCE, "it waits, uncounted", is_set_aside).await;
    assert_eq!(handler.0.load(Ordering::Relaxed), 1, "it was handled once");

    client.run("DROP TRIGGER refuse").await;
    client.run("UPDATE outbox_event SET due_at = '1970-01-01 00:00:00.000'").await;
    pipeline.bell.ring();
    let is_well = || async { pipeline.health.get().is_ok() && store.backlog().await.unwrap() == 0 };
    eventually(PATIENCE, "its letter is there, and all is well", is_well).await;
    engine.stop().await;
}
