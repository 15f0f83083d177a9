//! The store goes away in mid-flight and comes back: nobody's attempts are burnt, nothing becomes a
//! dead letter because of it, and work goes on by itself.
//!
//! Alone in this file: it takes the servers away from under everybody who uses them.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod common;
mod servers;

use std::time::Duration;

use common::{Flow, LEASE};
use redrive_testkit::{TestDatabase, mysql, postgres};
use servers::{recovers_quickly, restartable, service};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_restarted_killed_or_long_away_costs_no_attempts() {
    if let Some(database) = restartable(postgres(file!()).await, file!()) {
        recovers_quickly(&database).await;
        survives_outages("postgres", database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_is_restarted_killed_or_long_away_costs_no_attempts() {
    if let Some(database) = restartable(mysql(file!()).await, file!()) {
        survives_outages("mariadb", database).await;
    }
}

async fn survives_outages(name: &str, database: TestDatabase) {
    let mut flow = Flow::start(database, Duration::from_millis(10)).await;
    in_mid_flight(&mut flow).await;
    service("restart", name).await;
    recovers(&flow).await;

    in_mid_flight(&mut flow).await;
    service("kill", name).await;
    service("start", name).await;
    recovers(&flow).await;

    in_mid_flight(&mut flow).await;
    service("stop", name).await;
    // Long enough that every lease runs out meanwhile.
    tokio::time::sleep(LEASE * 3 / 2).await;
    service("start", name).await;
    recovers(&flow).await;
    flow.stop().await;
}

async fn in_mid_flight(flow: &mut Flow) {
    flow.accept(2_000).await;
    flow.hands_out(300).await;
}

async fn recovers(flow: &Flow) {
    flow.makes_progress().await;
    flow.drains().await;
    flow.is_unharmed().await;
}
