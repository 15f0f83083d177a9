//! Real Kafka and real Postgres, mistreated in mid-stream: every record is in exactly one place afterwards.
//!
//! Alone in this file: it takes the servers away from under everybody who uses them.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::prepare;
use common::stage::{Running, Sent, count, decision, lag, options, poison, produce, read, real, sink, until};
use redrive_kafka::headers;
use redrive_testkit::{Client, TestDatabase};
use tokio::process::Command;

/// Does this to the server.
async fn service(action: &str, name: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/service");
    let done = Command::new(script).args([action, name]).output().await.unwrap();
    assert!(done.status.success(), "{action} {name}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A stream with poison in every batch.
struct Stream {
    brokers: String,
    topic: String,
    sent: usize,
    poison: BTreeSet<String>,
    ends: [i64; 2],
}

impl Stream {
    async fn send(&mut self, many: usize) {
        let mut records: Vec<Sent> = Vec::new();
        for id in self.sent..self.sent + many {
            let partition = (id % 2) as i32;
            let offset = &mut self.ends[partition as usize];
            let record = match id % 20 {
                7 => poison(partition, id),
                14 => Sent::text(partition, "not json"),
                _ => decision(partition, id),
            };
            if matches!(id % 20, 7 | 14) {
                self.poison.insert(format!("{}/{partition}/{offset}", self.topic));
            }
            *offset += 1;
            records.push(record);
        }
        self.sent += many;
        produce(&self.brokers, &self.topic, &records).await;
    }

    /// Every record is in exactly one place, and nothing waits.
    async fn is_conserved(&self, database: &TestDatabase, running: &Running) {
        let (brokers, topic) = (&self.brokers, &self.topic);
        until("no lag", async || lag(brokers, topic, &format!("{topic}-writer")).await == 0).await;
        let (parking, group) = (format!("{topic}-parking"), format!("{topic}-writer-parking"));
        until("nothing parked", async || lag(brokers, &parking, &group).await == 0).await;
        running.publishes_what_is_on_disk().await;
        let mut client = Client::connect(database).await;
        let rows = client.number("SELECT count(*) FROM decision_log").await;
        let letters = read(brokers, &format!("{topic}-dlq")).await;
        let origins: BTreeSet<String> =
            letters.iter().map(|letter| headers::read(letter).origin.unwrap().to_string()).collect();
        assert_eq!(origins, self.poison, "poison in the dead letters, and nothing else");
        assert_eq!(rows as usize + origins.len(), self.sent);
        assert_eq!(count(brokers, &format!("{topic}-parking-dlq")).await, 0);
        until("all is well", async || running.pipeline.health().get().is_ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_in_exactly_one_place_whatever_happens_to_the_servers() {
    let Some(_) = redrive_testkit::server("REDRIVE_TEST_SERVICES", file!()) else { return };
    let Some((brokers, topic)) = real(file!(), 2).await else { return };
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    let mut client = prepare(&database).await;
    let name = database.url.rsplit('/').next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    let mut stream = Stream { brokers, topic, sent: 0, poison: BTreeSet::new(), ends: [0; 2] };
    stream.send(1_000).await;
    stream.is_conserved(&database, &running).await;

    // Locked: longer than a batch waits for a lock.
    client.run("BEGIN; LOCK TABLE decision_log IN ACCESS EXCLUSIVE MODE").await;
    stream.send(400).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.run("COMMIT").await;
    stream.is_conserved(&database, &running).await;

    // Every statement runs into a time-out, over connections that are made anew.
    let reconnect = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    client
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.06); RETURN NULL; END $$; \
             CREATE TRIGGER slow AFTER INSERT ON decision_log FOR EACH STATEMENT EXECUTE FUNCTION slow()",
        )
        .await;
    client.run(&format!("ALTER DATABASE {name} SET statement_timeout = '50ms'; {reconnect}")).await;
    stream.send(400).await;
    until("parked", async || count(&stream.brokers, &format!("{}-parking", stream.topic)).await > 0).await;
    client
        .run(&format!(
            "ALTER DATABASE {name} RESET statement_timeout; DROP TRIGGER slow ON decision_log; {reconnect}"
        ))
        .await;
    stream.is_conserved(&database, &running).await;

    // No connection left.
    client.run(&format!("ALTER DATABASE {name} CONNECTION LIMIT 0; {reconnect}")).await;
    stream.send(400).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.run(&format!("ALTER DATABASE {name} CONNECTION LIMIT -1")).await;
    stream.is_conserved(&database, &running).await;

    stream.send(1_000).await;
    service("restart", "postgres").await;
    stream.is_conserved(&database, &running).await;

    stream.send(1_000).await;
    service("stop", "kafka").await;
    service("start", "kafka").await;
    stream.send(400).await;
    stream.is_conserved(&database, &running).await;
    running.stop().await;
}
