//! Kafka pipelines in the binary: settings that librdkafka does not accept, and pauses.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod support;

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use redrive_testkit::{Client, TestDatabase};
use serde_json::{Value, json};
use support::{PATIENCE, Server, assert_failed, eventually, folder_with, redrive, text};

const SECRET: &str = "hunter2-hunter2";

/// Pipelines with settings that librdkafka does not accept, and one that has nothing to do with them.
fn refused_settings() -> String {
    let kafka = |name: &str, property: &str| {
        format!(
            "[kafka.{name}]\nbrokers = \"127.0.0.1:9\"\nsink.columns = {{ body = \"$\" }}\nproperties = {{ {property} = \"{SECRET}\" }}\n"
        )
    };
    [
        kafka("mistyped", "\"sasl.pasword\""),
        kafka("senseless", "\"session.timeout.ms\""),
        kafka("protocol", "\"security.protocol\""),
        format!(
            "[outbox.orders]\nhandlers.X = {{ kafka = {{ brokers = \"127.0.0.1:9\", topic = \"t\", properties = {{ \"sasl.pasword\" = \"{SECRET}\" }} }} }}\n"
        ),
        "[jobs.mails]\n".to_owned(),
    ]
    .concat()
}

#[test]
fn check_names_what_librdkafka_does_not_accept_and_no_value() {
    let folder = folder_with(&refused_settings());
    let output = redrive(folder.path()).arg("check").output().unwrap();
    let said = [
        "kafka.mistyped.properties: sasl.pasword: librdkafka has no such setting",
        "kafka.senseless.properties: session.timeout.ms: librdkafka does not accept its value",
        "kafka.protocol.properties: security.protocol: librdkafka does not accept its value",
        "outbox.orders.handlers: sasl.pasword: librdkafka has no such setting",
    ];
    assert_failed(&output, 2, &said);
    assert!(!text(&output.stderr).contains(SECRET) && output.stdout.is_empty(), "{}", text(&output.stderr));
}

/// A password whose name was mistyped stopped all pipelines, and was in the log and in the answer of `/ready`.
#[test]
fn settings_that_librdkafka_does_not_accept_stop_their_own_pipeline_only() {
    let folder = folder_with(&refused_settings());
    let server = Server::start(folder.path());
    let component = |kind: &str, name: &str| {
        let ready = server.get("/api/v1/ready").1;
        let all = ready["components"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["kind"] == kind && one["name"] == name)
    };
    let is = |kind: &str, name: &str, ok: bool| component(kind, name).filter(|one| one["ok"] == ok);
    eventually("the jobs", || is("jobs", "mails", true));
    for name in ["mistyped", "senseless", "protocol"] {
        let started = |one: &Value| one["reason"] != "starting";
        let down = eventually(name, || is("kafka", name, false).filter(started));
        assert_eq!(down["reason"], "kafka-unavailable", "{down}");
    }
    let job = json!({"subject": "1", "payload": {}});
    assert_eq!(server.post("/api/v1/jobs/mails", &job).0, 201);
    let ready = server.get("/api/v1/ready").1.to_string();
    let log = server.log();
    assert!(
        log.contains("[kafka.mistyped] cannot start: sasl.pasword: librdkafka has no such setting"),
        "{log}"
    );
    assert!(!ready.contains(SECRET) && !log.contains(SECRET), "{ready}\n{log}");
}

/// A pause stopped the redrives of a pipeline, and its topic was consumed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_pipeline_consumes_nothing_in_any_instance_and_after_a_restart() {
    let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
    for suffix in ["", "-dlq", "-parking", "-parking-dlq"] {
        broker.create_topic(&format!("clicks{suffix}"), 2, 1).unwrap();
    }
    let brokers = broker.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let mut table = Client::connect(&database).await;
    table
        .run(
            "CREATE TABLE clicks (topic TEXT NOT NULL, partition INT NOT NULL, \"offset\" BIGINT NOT NULL, \
             body TEXT NOT NULL, UNIQUE (topic, partition, \"offset\"))",
        )
        .await;
    let folder = folder_with(&clicks(&brokers, &database));
    let server = Server::ready(folder.path());
    produce(&brokers, 0..10).await;
    stored(&mut table, 10).await;

    assert_eq!(server.post("/api/v1/pipelines/clicks/pause", &json!({})).0, 200);
    assert!(is_paused(&server));
    produce(&brokers, 10..20).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut table).await, 10);
    let other = folder_with(&clicks(&brokers, &database));
    let second = Server::ready(other.path());
    eventually("the other follows", || is_paused(&second).then_some(()));
    drop(server);
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut table).await, 10, "the other has all partitions, and is paused");

    // Nothing of them was polled, and all of them are missing.
    second.wait_metric(r#"redrive_kafka_lag{pipeline="clicks",topic="clicks"} 10"#);
    second.wait_metric(r#"redrive_kafka_partitions{pipeline="clicks",topic="clicks"} 2"#);
    drop(second);
    let restarted = Server::ready(folder.path());
    assert!(is_paused(&restarted));
    tokio::time::sleep(WHILE).await;
    assert_eq!(rows(&mut table).await, 10);
    assert_eq!(restarted.post("/api/v1/pipelines/clicks/resume", &json!({})).0, 200);
    stored(&mut table, 20).await;
    restarted.wait_metric(r#"redrive_kafka_lag{pipeline="clicks",topic="clicks"} 0"#);
    drop(restarted);
    // Nothing was polled since the start, and nothing is missing: it showed all that the topic has.
    let idle = Server::ready(folder.path());
    idle.wait_metric(r#"redrive_kafka_partitions{pipeline="clicks",topic="clicks"} 2"#);
    idle.wait_metric(r#"redrive_kafka_lag{pipeline="clicks",topic="clicks"} 0"#);
}

/// Longer than a pipeline at work takes.
const WHILE: Duration = Duration::from_secs(2);

fn clicks(brokers: &str, database: &TestDatabase) -> String {
    let url = &database.url;
    format!(
        "[server]\ndatabase = \"{url}\"\n[kafka.clicks]\nbrokers = \"{brokers}\"\nsink = {{ database = \"{url}\", columns = {{ body = \"$\" }} }}\n\
         properties = {{ \"session.timeout.ms\" = \"6000\", \"heartbeat.interval.ms\" = \"500\" }}\n"
    )
}

fn is_paused(server: &Server) -> bool {
    let pipelines = server.get("/api/v1/pipelines").1;
    let all = pipelines["pipelines"].as_array().unwrap();
    let clicks = all.iter().find(|pipeline| pipeline["name"] == "clicks");
    clicks.is_some_and(|pipeline| pipeline["paused"] == Value::Bool(true))
}

async fn produce(brokers: &str, ids: std::ops::Range<i32>) {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    for id in ids {
        let value = id.to_string();
        let record = FutureRecord::<(), str>::to("clicks").payload(&value).partition(id % 2);
        producer.send(record, PATIENCE).await.unwrap();
    }
}

async fn rows(table: &mut Client) -> i64 {
    table.number("SELECT COUNT(*) FROM clicks").await
}

async fn stored(table: &mut Client, many: i64) {
    redrive_testkit::eventually(PATIENCE, "stored", async || rows(table).await == many).await;
}
