//! The stores through PgBouncer, and with statements that have no names.
//!
//! In transaction mode a pooler gives a client another connection to the server for every transaction. With named
//! statements this said `sqlx_s_1 already exists` and ran other statements than it was asked to: events were
//! delivered twice, or never.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{LONG, claim, done, event, failed_events, jobs, letters, open, outbox};
use redrive_core::event::WorkId;
use redrive_store::conformance::{self, FailedEventsSubject, JobsSubject, LettersSubject, OutboxSubject};
use redrive_store::{Database, Jobs, JobsOptions, NewJob, Outbox, OutboxOptions, Reason, WorkStore};
use redrive_testkit::{self as testkit, Client, Pooler, TestDatabase};

/// Every way to Postgres that cannot remember a statement by its name, or need not.
async fn ways() -> Vec<TestDatabase> {
    let with = |parameters: &str, database: Option<TestDatabase>| database.map(|it| it.with(parameters));
    let ways = [
        testkit::pooled(file!(), Pooler::Transaction).await,
        testkit::pooled(file!(), Pooler::Session).await,
        with("pooler=transaction", testkit::pooled(file!(), Pooler::Transaction).await),
        with("pooler=session", testkit::pooled(file!(), Pooler::Session).await),
        with("statement_cache_capacity=0", testkit::postgres(file!()).await),
    ];
    ways.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_store_conforms_whatever_is_between_it_and_the_server() {
    for database in ways().await {
        conformance::run(&OutboxSubject(outbox(&database, OutboxOptions::new("orders")).await)).await;
        let options = JobsOptions { max_retries: 1_000, ..JobsOptions::new("summarize") };
        conformance::run(&JobsSubject(jobs(&database, options).await)).await;
        conformance::run(&FailedEventsSubject(failed_events(&database).await)).await;
        conformance::run(&LettersSubject(letters(&database, "intake").await)).await;
    }
}

const EVENTS: usize = 6_000;
const WORKERS: usize = 8;

/// Claims and settles until nothing is left; how often each was claimed.
async fn work(store: &dyn WorkStore) -> Vec<WorkId> {
    let (mut claimed, mut settled, request) = (Vec::new(), Vec::new(), claim(20, LONG));
    loop {
        let turn = store.turn(&mut settled, Some(&request)).await.unwrap();
        assert!(turn.lost.is_empty(), "{:?}", turn.lost);
        if turn.claimed.is_empty() && store.backlog().await.unwrap() == 0 {
            return claimed;
        }
        claimed.extend(turn.claimed.iter().map(|(lease, _)| lease.work()));
        settled = done(turn.claimed);
    }
}

/// As many processes, each with connections of its own.
async fn share<S: WorkStore + 'static>(of: impl Fn() -> S) {
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let store = of();
            tokio::spawn(async move { work(&store).await })
        })
        .collect();
    let mut times: HashMap<WorkId, usize> = HashMap::new();
    for worker in workers {
        for id in worker.await.unwrap() {
            *times.entry(id).or_default() += 1;
        }
    }
    let twice = times.values().filter(|times| **times > 1).count();
    assert_eq!((times.len(), twice), (EVENTS, 0), "each once, none stuck");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_share_a_few_connections_claim_each_event_once() {
    let Some(database) = testkit::pooled(file!(), Pooler::Transaction).await else { return };
    let options = || OutboxOptions::new("orders");
    let events = outbox(&database, options()).await;
    let work = jobs(&database, JobsOptions::new("summarize")).await;
    for _ in 0..EVENTS / 500 {
        events.append(vec![event("a"); 500]).await.unwrap();
        work.enqueue(vec![NewJob::new("a", "{}"); 500]).await.unwrap();
    }
    let of_events = share(|| Outbox::new(Database::open(&database.url).unwrap(), options()).unwrap());
    let of_jobs =
        share(|| Jobs::new(Database::open(&database.url).unwrap(), JobsOptions::new("summarize")).unwrap());
    tokio::join!(of_events, of_jobs);
    let mut client = Client::connect(&database).await;
    let left = "SELECT count(*) FROM outbox_event WHERE processed = FALSE";
    assert_eq!(client.number(left).await, 0);
}

/// The pooler's connections are other people's, too.
#[tokio::test]
async fn nothing_of_a_session_is_left_behind_in_the_pooler() {
    let Some(database) = testkit::pooled(file!(), Pooler::Transaction).await else { return };
    let outbox = outbox(&database, OutboxOptions::new("orders")).await;
    outbox.append(vec![event("a")]).await.unwrap();
    let mut other = Client::through_pooler(&database).await;
    for _ in 0..10 {
        assert_eq!(other.number("SELECT count(*) FROM pg_prepared_statements").await, 0);
        assert_eq!(other.column("SELECT current_setting('plan_cache_mode')").await, ["auto"]);
    }
}

#[tokio::test]
async fn nothing_is_listened_to_through_a_pooler_that_shares_by_transaction() {
    let Some(database) = testkit::pooled(file!(), Pooler::Transaction).await else { return };
    let pooled = open(&database).await;
    assert!(pooled.is_pooled());
    assert!(pooled.listen("orders").await.unwrap().is_none());
    let direct = Database::open(&database.direct).unwrap();
    assert!(direct.listen("orders").await.unwrap().is_some() && !direct.is_pooled());
    let Some(database) = testkit::pooled(file!(), Pooler::Session).await else { return };
    let session = open(&database.with("pooler=session")).await;
    let mut listener = session.listen("orders").await.unwrap().expect("a session of its own");
    Client::connect(&database).await.run("NOTIFY orders").await;
    tokio::time::timeout(Duration::from_secs(30), listener.heard()).await.expect("it is heard").unwrap();
}

#[tokio::test]
async fn a_database_that_the_pooler_does_not_find_is_named_as_such() {
    for pooler in [Pooler::Transaction, Pooler::Session] {
        let Some(database) = testkit::pooled(file!(), pooler).await else { return };
        let (front, _) = database.url.rsplit_once('/').unwrap();
        let error = Database::connect(&format!("{front}/no_such_place")).await.unwrap_err();
        assert_eq!(error.reason(), Reason::DatabaseMissing, "{error}");
        let error = Database::connect(&database.url.replace("redrive@", "nobody_here@")).await.unwrap_err();
        assert_eq!(error.reason(), Reason::CredentialsRefused, "{error}");
    }
}
