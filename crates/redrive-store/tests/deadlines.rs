//! A network that says nothing any more: every call ends, and the next one after it works.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{LONG, claim, event};
use redrive_core::dead_letter::{DeadLetterQueue as _, Filter, Page};
use redrive_store::{Database, Deadlines, Error, Outbox, OutboxOptions, Reason, WorkStore as _};
use redrive_testkit::{self as testkit, Backend, Cable, Client, TestDatabase, eventually};

const SECOND: Duration = Duration::from_secs(1);
/// A call takes six seconds at most with the deadlines of these tests; the rest is for a busy machine.
const BOUND: Duration = Duration::from_secs(30);

async fn outbox_over(cable: &Cable, database: &TestDatabase, deadlines: Deadlines) -> Outbox {
    let over = Database::open_with(&cable.address(database), deadlines).unwrap();
    let outbox = Outbox::new(over, OutboxOptions::new("orders")).unwrap();
    outbox.migrate().await.unwrap();
    outbox
}

/// What a call comes to that meets silence.
async fn ends<T: Debug>(what: &str, call: impl Future<Output = Result<T, Error>>) {
    let error = tokio::time::timeout(BOUND, call).await;
    let error = error.unwrap_or_else(|_| panic!("{what} has no end")).unwrap_err();
    assert_eq!(error.reason(), Reason::StoreUnreachable, "{what}: {error}");
}

/// The ping of an idle connection, an append, a claim and a listing waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_meet_silence_end_and_the_next_ones_work() {
    for idle in [Duration::ZERO, LONG] {
        for database in testkit::servers(file!()).await {
            let deadlines = Deadlines { connect: SECOND, idle, ping: SECOND, statement: SECOND };
            let cable = Cable::to(&database).await;
            let outbox = outbox_over(&cable, &database, deadlines).await;
            let (request, filter) = (claim(1, LONG), Filter::default());
            for round in 0..4 {
                outbox.append(vec![event("a")]).await.unwrap();
                cable.silence();
                match round {
                    0 => ends("an append", outbox.append(vec![event("b")])).await,
                    1 => ends("a claim", outbox.turn(&mut Vec::new(), Some(&request))).await,
                    2 => ends("a count of what is due", outbox.backlog()).await,
                    _ => {
                        let listing = tokio::time::timeout(BOUND, outbox.list(&filter, Page::first(10)));
                        listing.await.expect("a listing has no end").unwrap_err();
                    }
                }
                cable.mend();
                assert!(outbox.backlog().await.unwrap() > 0, "{:?}: the network is back", database.backend);
            }
        }
    }
}

/// Makes the outbox have as many connections as it can, all of them idle.
async fn open_all(outbox: &Arc<Outbox>, database: &TestDatabase) {
    // Two: within a transaction, Postgres shows who waits as it was at first.
    let (mut client, mut other) = (Client::connect(database).await, Client::connect(database).await);
    let (lock, waiting, unlock) = match database.backend {
        Backend::MySql => (
            "LOCK TABLES outbox_event WRITE",
            "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE '%lock%'",
            "UNLOCK TABLES",
        ),
        _ => (
            "BEGIN; LOCK TABLE outbox_event",
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
            "COMMIT",
        ),
    };
    client.run(lock).await;
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let outbox = Arc::clone(outbox);
            tokio::spawn(async move { outbox.backlog().await.unwrap() })
        })
        .collect();
    eventually(redrive_testkit::PATIENCE, "all connections wait", async || other.number(waiting).await == 16)
        .await;
    client.run(unlock).await;
    for call in calls {
        call.await.unwrap();
    }
}

/// A black-holed connection cost a deadline each, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_dead_connections_cost_one_deadline() {
    for database in testkit::servers(file!()).await {
        let deadlines = Deadlines {
            connect: SECOND,
            idle: Duration::ZERO,
            // One after the other they would take 48 seconds.
            ping: 3 * SECOND,
            statement: Duration::from_secs(60),
        };
        let cable = Cable::to(&database).await;
        let outbox = Arc::new(outbox_over(&cable, &database, deadlines).await);
        open_all(&outbox, &database).await;
        cable.silence();
        let begun = Instant::now();
        ends("a call after sixteen", outbox.backlog()).await;
        assert!(begun.elapsed() < BOUND, "{:?}: {:?}", database.backend, begun.elapsed());
        cable.mend();
        outbox.backlog().await.unwrap();
    }
}
