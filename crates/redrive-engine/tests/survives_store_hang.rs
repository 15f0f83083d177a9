//! The store hangs: somebody else holds a lock on it for longer than the leases last. Nobody's attempts
//! are burnt, and work goes on by itself.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod common;

use std::time::Duration;

use common::{Flow, LEASE};
use redrive_testkit::{Client, TestDatabase, mysql, postgres, sqlite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sqlite_file_that_another_connection_holds_costs_no_attempts() {
    survives_a_lock(sqlite(), "BEGIN EXCLUSIVE", "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_table_that_somebody_locks_costs_no_attempts() {
    let Some(database) = postgres(file!()).await else { return };
    survives_a_lock(database, "BEGIN; LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE", "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_table_that_somebody_locks_costs_no_attempts() {
    let Some(database) = mysql(file!()).await else { return };
    survives_a_lock(database, "LOCK TABLES outbox_event WRITE", "UNLOCK TABLES").await;
}

async fn survives_a_lock(database: TestDatabase, lock: &str, unlock: &str) {
    let mut other = Client::connect(&database).await;
    other.attempt("PRAGMA busy_timeout = 10000").await.ok();
    let mut flow = Flow::start(database, Duration::from_millis(100)).await;
    for _ in 0..3 {
        // As many as the instances take in hand at once: what they hold is all there is to claim.
        flow.accept(80).await;
        flow.hands_out(20).await;
        other.run(lock).await;
        // Long enough that every lease runs out meanwhile.
        tokio::time::sleep(LEASE * 3 / 2).await;
        other.run(unlock).await;
        flow.makes_progress().await;
    }
    flow.drains().await;
    flow.is_unharmed().await;
    flow.stop().await;
}
