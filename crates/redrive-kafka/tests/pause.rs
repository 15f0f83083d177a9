//! A pipeline that is paused consumes nothing.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::time::Duration;

use common::prepare;
use common::stage::{Running, Sent, committed, count, decision, lag, mock, options, produce, sink, until};
use redrive_testkit::Client;
use tokio::sync::watch;

async fn rows(client: &mut Client) -> i64 {
    client.number("SELECT COUNT(*) FROM decision_log").await
}

fn decisions(ids: std::ops::Range<usize>) -> Vec<Sent> {
    ids.map(|id| decision(i32::try_from(id % 2).unwrap(), id)).collect()
}

/// Longer than a running pipeline takes for records of which it was told.
const WHILE: Duration = Duration::from_secs(2);

/// 53 records were consumed within 15 seconds after it had said `paused`.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_consumed_from_the_pause_until_it_is_resumed() {
    let cluster = mock("paused", 2);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, "paused", folder.path()), sink(&database));
    produce(&brokers, "paused", &decisions(0..20)).await;
    until("rows", async || rows(&mut client).await == 20).await;

    running.switch.send_replace(true);
    produce(&brokers, "paused", &decisions(20..60)).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut client).await, 20);
    assert_eq!(committed(&brokers, "paused", "paused-writer").await, 20);
    assert_eq!(running.pipeline.health().get(), Ok(()), "that is what somebody wanted");
    running.switch.send_replace(false);
    until("the others", async || rows(&mut client).await == 60).await;
    until("no lag", async || lag(&brokers, "paused", "paused-writer").await == 0).await;

    // One that starts paused, as after a restart, and joins others that are.
    running.switch.send_replace(true);
    produce(&brokers, "paused", &decisions(60..80)).await;
    let second = tempfile::tempdir().unwrap();
    let joined = Running::start_switched(
        options(&brokers, "paused", second.path()),
        sink(&database),
        watch::Sender::new(true),
    );
    tokio::time::sleep(WHILE).await;
    running.stop().await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut client).await, 60);
    joined.switch.send_replace(false);
    until("all rows", async || rows(&mut client).await == 80).await;
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parking_lot_is_paused_too() {
    let cluster = mock("lot", 2);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, "lot", folder.path()), sink(&database));
    produce(&brokers, "lot", &decisions(0..2)).await;
    until("rows", async || rows(&mut client).await == 2).await;
    client.run("ALTER TABLE decision_log RENAME TO away").await;
    produce(&brokers, "lot", &decisions(2..12)).await;
    until("parked", async || count(&brokers, "lot-parking").await == 10).await;
    running.switch.send_replace(true);
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut client).await, 2);
    assert_eq!(committed(&brokers, "lot-parking", "lot-writer-parking").await, 0);
    running.switch.send_replace(false);
    until("all rows", async || rows(&mut client).await == 12).await;
    running.stop().await;
}
