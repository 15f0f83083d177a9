//! What goes wrong around a store: killed connections, cancelled calls, a second writer at the file.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{LONG, NOW, claim, dead, done, event, ids, outbox, settle, take, take_one, timeout};
use redrive_core::dead_letter::{DeadLetterQueue as _, Filter};
use redrive_core::lease::Settlement;
use redrive_core::state::OutboxState;
use redrive_store::{Database, Error, Outbox, OutboxOptions, WorkStore as _};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

fn options() -> OutboxOptions {
    OutboxOptions::new("orders")
}

/// Ends every other connection to the database, as a restarting server does.
async fn kill_connections(database: &TestDatabase, client: &mut Client) {
    match database.backend {
        Backend::Sqlite => {}
        Backend::Postgres => {
            let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                        WHERE datname = current_database() AND pid <> pg_backend_pid()";
            client.rows(kill).await;
        }
        Backend::MySql => {
            let others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
            for id in client.column(others).await {
                // It may have gone by itself.
                let _ = client.attempt(&format!("KILL {id}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_cost_a_few_calls_and_nobodys_attempts() {
    for database in testkit::servers(file!()).await {
        let outbox = outbox(&database, options()).await;
        let mut client = Client::connect(&database).await;
        let all = outbox.append(vec![event("a"); 20]).await.unwrap();
        let mut settled = done(take(&outbox, 20, LONG).await);
        for _ in 0..3 {
            // Several connections are kept, and all of them are dead afterwards.
            let (a, b, c, d) =
                tokio::join!(outbox.backlog(), outbox.backlog(), outbox.backlog(), outbox.backlog());
            assert!([a, b, c, d].iter().all(Result::is_ok));
            kill_connections(&database, &mut client).await;
            let mut unavailable = 0;
            while let Err(error) = outbox.backlog().await {
                assert!(error.is_unavailable(), "{error}");
                unavailable += 1;
                assert!(unavailable <= 4, "{:?} does not recover", database.backend);
            }
        }
        kill_connections(&database, &mut client).await;
        loop {
            match outbox.turn(&mut settled, None).await {
                Ok(turn) => break assert!(turn.lost.is_empty()),
                Err(error) => assert!(error.is_unavailable() && settled.len() == 20, "{error}"),
            }
        }
        for id in all {
            assert_eq!(outbox.state(id).await.unwrap(), Some(OutboxState::Processed));
        }
    }
}

/// Holds the rows of every event, so that whoever settles one has to wait.
async fn block(database: &TestDatabase) -> Client {
    let mut client = Client::connect(database).await;
    match database.backend {
        Backend::Sqlite => client.run("BEGIN IMMEDIATE").await,
        _ => {
            client.run("BEGIN").await;
            client.rows("SELECT id FROM outbox_event FOR UPDATE").await;
        }
    }
    client
}

/// Waits until another connection waits for those rows.
async fn wait_until_somebody_waits(database: &TestDatabase, client: &mut Client) {
    let waiting = match database.backend {
        Backend::Postgres => {
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        }
        _ => {
            "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND command <> 'Sleep' \
             AND id <> CONNECTION_ID() AND info LIKE '%outbox_event%'"
        }
    };
    testkit::eventually(testkit::PATIENCE, "somebody waits", async || client.number(waiting).await > 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_in_the_middle_of_a_turn_leaves_the_settlements_to_be_tried_again() {
    for database in testkit::servers(file!()).await {
        let outbox = outbox(&database, options()).await;
        outbox.append(vec![event("a"), event("b")]).await.unwrap();
        let mut settled = dead(take(&outbox, 10, LONG).await, &timeout());
        let blocker = block(&database).await;
        let mut client = Client::connect(&database).await;
        let (turn, ()) = tokio::join!(outbox.turn(&mut settled, None), async {
            wait_until_somebody_waits(&database, &mut client).await;
            kill_connections(&database, &mut client).await;
        });
        let error = turn.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(settled.len(), 2);
        drop(blocker);
        assert_eq!(outbox.backlog().await.unwrap(), 2, "nothing of it happened");
        assert!(outbox.turn(&mut settled, None).await.unwrap().lost.is_empty());
        assert_eq!(outbox.backlog().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_turn_leaves_no_half_transaction_and_no_broken_connection() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let all = outbox.append(vec![event("a"), event("b"), event("c")]).await.unwrap();
        let claimed = take(&outbox, 10, LONG).await;
        let fences: Vec<_> = claimed.iter().map(|(lease, _)| (lease.work(), lease.fence())).collect();
        let mut settled: Vec<_> = dead(claimed, &timeout());
        settled.push((redrive_core::lease::Lease::new(all[0], -1, jiff::Timestamp::MAX), Settlement::Done));
        let mut blocker = block(&database).await;
        let request = claim(10, LONG);
        let turn = outbox.turn(&mut settled, Some(&request));
        assert!(tokio::time::timeout(Duration::from_millis(50), turn).await.is_err(), "it had to wait");
        assert_eq!(settled.len(), 4, "what is not durable stays");
        blocker.run("COMMIT").await;
        settled.pop();
        if database.backend == Backend::Postgres {
            // One statement, which the server may carry out before it hears that nobody waits for it.
            let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                        AND pid <> pg_backend_pid() AND state <> 'idle'";
            while blocker.number(busy).await > 0 {}
        }
        let left = outbox.backlog().await.unwrap();
        let lost = outbox.turn(&mut settled, None).await.unwrap().lost;
        match left {
            3 => assert_eq!(lost, [], "{:?}: {fences:?} are still good", database.backend),
            _ => assert_eq!(
                (left, lost, database.backend),
                (0, all, Backend::Postgres),
                "all of it or nothing"
            ),
        }
        assert_eq!(outbox.backlog().await.unwrap(), 0);
        assert_eq!(outbox.count(&Filter::default()).await.unwrap(), 3, "each is dead once");
    }
}

/// Calls that are dropped at any moment: whatever they had done by then is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_calls_are_cancelled_every_event_is_delivered_or_dead() {
    for database in testkit::backends(file!()).await {
        let outbox = outbox(&database, options()).await;
        let all = outbox.append(vec![event("a"); 60]).await.unwrap();
        for round in 0..60_u64 {
            let patience = Duration::from_micros(round * 100);
            let (fate, request) = (round % 3, claim(5, NOW));
            let work = async {
                let claimed = outbox.turn(&mut Vec::new(), Some(&request)).await.unwrap().claimed;
                let mut settled = match fate {
                    0 => done(claimed),
                    1 => dead(claimed, &timeout()),
                    _ => claimed
                        .into_iter()
                        .map(|(lease, _)| (lease, Settlement::Release { after: NOW }))
                        .collect(),
                };
                outbox.turn(&mut settled, Some(&request)).await.unwrap();
            };
            let _ = tokio::time::timeout(patience, work).await;
        }
        loop {
            let left = take(&outbox, 100, NOW).await;
            if left.is_empty() {
                break;
            }
            settle(&outbox, done(left)).await;
        }
        for id in all {
            let state = outbox.state(id).await.unwrap();
            assert!(matches!(state, Some(OutboxState::Processed | OutboxState::Dead)), "{id}: {state:?}");
        }
        let mut client = Client::connect(&database).await;
        let twice =
            "SELECT count(*) FROM outbox_event_dlq WHERE original_event_id IN (SELECT id FROM outbox_event)";
        assert_eq!(client.number(twice).await, 0, "{:?}: moved, not copied", database.backend);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_callers_than_connections_wait_their_turn() {
    for database in testkit::backends(file!()).await {
        let outbox = Arc::new(outbox(&database, options()).await);
        let callers: Vec<_> = (0..60)
            .map(|_| {
                let outbox = Arc::clone(&outbox);
                tokio::spawn(async move {
                    outbox.append(vec![event("a")]).await.unwrap();
                    outbox.backlog().await.unwrap()
                })
            })
            .collect();
        for caller in callers {
            assert!(caller.await.unwrap() >= 1);
        }
        assert_eq!(outbox.backlog().await.unwrap(), 60);
    }
}

/// BUSY_SNAPSHOT (jentic-one #529): two writers at one file, and one of them fails at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handles_that_write_to_one_sqlite_file_together_see_no_busy_error() {
    let database = testkit::sqlite();
    outbox(&database, options()).await;
    let writer = |number: usize| {
        let url = database.url.clone();
        tokio::spawn(async move {
            // A handle of its own: what it shares with the others is the file, as a process would.
            let outbox = Outbox::new(Database::open(&url).unwrap(), options()).unwrap();
            let mut delivered = Vec::new();
            for _ in 0..25 {
                outbox.append(vec![event(&number.to_string()); 3]).await.unwrap();
                let claimed = take(&outbox, 3, LONG).await;
                delivered.extend(ids(&claimed));
                let turn = outbox.turn(&mut done(claimed), Some(&claim(1, LONG))).await.unwrap();
                delivered.extend(ids(&turn.claimed));
                settle(&outbox, done(turn.claimed)).await;
            }
            delivered
        })
    };
    let writers: Vec<_> = (0..4).map(writer).collect();
    let mut delivered = Vec::new();
    for writer in writers {
        delivered.extend(writer.await.unwrap());
    }
    let outbox = outbox(&database, options()).await;
    delivered.extend(ids(&take(&outbox, 1_000, LONG).await));
    delivered.sort_unstable();
    let count = delivered.len();
    delivered.dedup();
    assert_eq!((count, delivered.len()), (300, 300), "each once, and none lost");
}

#[tokio::test]
async fn an_address_where_nobody_answers_is_unavailable_and_one_that_is_none_is_a_setting() {
    for url in ["postgres://u:secret@127.0.0.1:1/x", "mysql://u:secret@127.0.0.1:1/x"] {
        let error = Database::connect(url).await.unwrap_err();
        assert!(error.is_unavailable() && !error.to_string().contains("secret"), "{error}");
    }
    for url in ["", "oracle://x", "postgres://u:secret@[/", "mysql://u:secret@host:port/x"] {
        let error = Database::connect(url).await.unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Eventuous #222: a reader that remembers the last number it saw never sees a lower one that was
/// committed later.
#[tokio::test]
async fn a_lower_number_that_is_committed_later_is_not_skipped() {
    for database in testkit::servers(file!()).await {
        let outbox = outbox(&database, options()).await;
        let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) VALUES ('T', 'A', '1', '')";
        let (mut slow, mut quick) = (Client::connect(&database).await, Client::connect(&database).await);
        slow.run("BEGIN").await;
        slow.run(insert).await;
        quick.run(insert).await;
        let (lease, _) = take_one(&outbox).await;
        let higher = lease.work();
        let turn = outbox.turn(&mut vec![(lease, Settlement::Done)], Some(&claim(10, LONG))).await.unwrap();
        assert!(turn.claimed.is_empty(), "{:?}: and nobody waits for the other", database.backend);
        slow.run("COMMIT").await;
        let (lease, _) = take_one(&outbox).await;
        assert!(lease.work() < higher);
    }
}
