//! A server that is stopped (SIGSTOP, a paused machine) past its leases and then goes on: if another one has
//! taken over, what it still has to say changes nothing; if nobody has, it finishes as if nothing had been.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_core::event::NewEvent;
use redrive_store::{Database, Outbox, OutboxOptions, WorkStore as _};
use redrive_testkit::{Client, PATIENCE, TestDatabase, backends, eventually};
use support::folder_with;
use survival::{Process, Receiver};
use tokio::sync::watch;

/// Runs out while a worker is stopped, and not while one is merely busy.
const LEASE: Duration = Duration::from_secs(3);
const EVENTS: usize = 12;

/// Answers a first delivery only once the gate is open, and then with the status that the gate says.
async fn gated() -> (watch::Sender<Option<u16>>, Receiver) {
    let (gate, open) = watch::channel(None::<u16>);
    let receiver = Receiver::start(move |delivery| {
        let mut open = open.clone();
        async move {
            if delivery.time > 1 {
                return 200;
            }
            open.wait_for(Option::is_some).await.unwrap().unwrap()
        }
    });
    (gate, receiver.await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_late_settlement_of_a_worker_that_was_replaced_changes_nothing() {
    // River #1302: a rescued job's old worker came back and overwrote its successor's outcome.
    for database in backends(file!()).await {
        let (gate, receiver) = gated().await;
        let outbox = filled_outbox(&database).await;
        let folder = folder_with(&configuration(&database, &receiver));
        let stopped = Process::serve(folder.path(), "stopped");
        holds_everything(&receiver).await;
        stopped.signal("STOP");
        let successor = Process::serve(folder.path(), "successor");
        let settled = || async { outbox.backlog().await.unwrap() == 0 };
        eventually(PATIENCE, "the successor has finished everything", settled).await;
        let before = rows(&database).await;

        // Taken at its word, the stopped worker would now bury what its successor has delivered.
        gate.send(Some(422)).unwrap();
        stopped.signal("CONT");
        let lost = || async { stopped.log().matches("lease lost").count() >= EVENTS };
        eventually(PATIENCE, "the stopped worker knows that it lost every lease", lost).await;
        assert_eq!(rows(&database).await, before);
        assert_eq!(letters(&database).await, 0);
        assert!(before.iter().all(|row| row == "1"), "the attempt of the stopped worker counts: {before:?}");
        successor.kill();
        works_on(&outbox, &stopped, folder.path()).await;
    }
}

/// What waited for a free handler was begun after the wake, long after the successor had delivered it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_woken_worker_begins_with_nothing_whose_lease_is_gone() {
    for database in backends(file!()).await {
        let (gate, open) = watch::channel(false);
        let deliveries = Arc::new(AtomicUsize::new(0));
        let receiver = Receiver::start({
            let deliveries = Arc::clone(&deliveries);
            move |_| {
                let mut open = open.clone();
                // The first one keeps the only handler busy, and the others wait behind it.
                let waits = deliveries.fetch_add(1, Ordering::Relaxed) == 0;
                async move {
                    if waits {
                        open.wait_for(|open| *open).await.unwrap();
                    }
                    200
                }
            }
        });
        let receiver = receiver.await;
        let outbox = filled_outbox(&database).await;
        let one_by_one =
            configuration(&database, &receiver).replace("workers = 1", "workers = 1\nconcurrency = 1");
        let folder = folder_with(&one_by_one);
        let stopped = Process::serve(folder.path(), "stopped");
        let begun = || async { deliveries.load(Ordering::Relaxed) == 1 };
        eventually(PATIENCE, "the first is being delivered", begun).await;
        stopped.signal("STOP");
        let successor = Process::serve(folder.path(), "successor");
        let settled = || async { outbox.backlog().await.unwrap() == 0 };
        eventually(PATIENCE, "the successor has finished everything", settled).await;
        let before = receiver.times();
        gate.send(true).unwrap();
        successor.kill();
        stopped.signal("CONT");
        works_on(&outbox, &stopped, folder.path()).await;
        let after = receiver.times();
        for (event, times) in &before {
            assert_eq!(after[event], *times, "event {event:?} was begun again after the wake");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_worker_that_nobody_replaced_finishes_and_burns_no_attempt() {
    for database in backends(file!()).await {
        let (gate, receiver) = gated().await;
        let outbox = filled_outbox(&database).await;
        let folder = folder_with(&configuration(&database, &receiver));
        let server = Process::serve(folder.path(), "server");
        holds_everything(&receiver).await;
        server.signal("STOP");
        tokio::time::sleep(LEASE * 3 / 2).await;
        gate.send(Some(200)).unwrap();
        server.signal("CONT");
        let settled = || async { outbox.backlog().await.unwrap() == 0 };
        eventually(PATIENCE, "everything is settled", settled).await;
        let retries = rows(&database).await;
        assert!(retries.iter().all(|row| row == "0"), "attempts were burnt: {retries:?}");
        assert!(receiver.times().values().all(|times| *times == 1), "and nothing was delivered twice");
    }
}

async fn holds_everything(receiver: &Receiver) {
    let held = || async { receiver.distinct() == EVENTS };
    eventually(PATIENCE, "the server holds everything", held).await;
}

/// A worker that lost its leases is none the worse for it.
async fn works_on(outbox: &Outbox, server: &Process, folder: &Path) {
    outbox.append(vec![event(); 1]).await.unwrap();
    let settled = || async { outbox.backlog().await.unwrap() == 0 };
    eventually(PATIENCE, "the one that was stopped works on", settled).await;
    assert!(folder.exists() && !server.log().contains("panicked"));
}

/// The retries of every event that is processed, in the order of their numbers.
async fn rows(database: &TestDatabase) -> Vec<String> {
    let mut client = Client::connect(database).await;
    client.column("SELECT retry_count FROM outbox_event WHERE processed = TRUE ORDER BY id").await
}

async fn letters(database: &TestDatabase) -> i64 {
    Client::connect(database).await.number("SELECT count(*) FROM outbox_event_dlq").await
}

async fn filled_outbox(database: &TestDatabase) -> Outbox {
    let connections = Database::connect(&database.url).await.unwrap();
    let outbox = Outbox::new(connections, OutboxOptions::new("orders")).unwrap();
    outbox.migrate().await.unwrap();
    outbox.append(vec![event(); EVENTS]).await.unwrap();
    outbox
}

fn event() -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        payload: "{}".into(),
    }
}

fn configuration(database: &TestDatabase, receiver: &Receiver) -> String {
    format!(
        "[outbox.orders]\n\
         database = \"{}\"\n\
         workers = 1\n\
         lease = \"{}s\"\n\
         poll-interval = \"100ms\"\n\
         retry = {{ initial = \"20ms\", factor = 1.0, max = \"20ms\" }}\n\
         handlers.OrderCreated = {{ http = \"http://{}/\" }}\n",
        database.url,
        LEASE.as_secs(),
        receiver.address
    )
}
