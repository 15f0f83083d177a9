//! Decision logs from a topic into a database, in batches: the founding system of the Kafka pipeline.
//!
//! ```sh
//! cargo run -p decision-logs          # a broker in this process, SQLite in a temporary folder
//! ```
//!
//! Twelve decisions arrive. One is not JSON and one breaks a rule of the table: each goes alone to the
//! dead-letter topic, and the rest of its batch is stored. Then the table is away for a while: what arrives
//! meanwhile is parked, and stored once the table is back.
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use redrive::Backoff;
use redrive::kafka::column::{Column, Kind};
use redrive::kafka::decode::Decoder;
use redrive::kafka::sink::{SinkTable, SqliteSink};
use redrive::kafka::topics::Missing;
use redrive::kafka::{
    BatchOptions, Cluster, KafkaPipeline, KafkaPipelineOptions, LetterTopics, NewLetterNotice, Observer,
    Retries,
};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tokio_util::sync::CancellationToken;

const TOPIC: &str = "decision-logs";
const TABLE: &str = r#"CREATE TABLE decision_log (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    id TEXT NOT NULL, decided_at TEXT NOT NULL, amount INTEGER NOT NULL CHECK (amount >= 0), body TEXT NOT NULL,
    UNIQUE (topic, partition, "offset"))"#;

/// Says where a record went.
struct Narrator;

impl Observer for Narrator {
    fn letter(&self, letter: &NewLetterNotice<'_>) {
        println!("  {} -> {}: {}", letter.position, letter.topic, letter.failure);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker()?;
    let brokers = broker.bootstrap_servers();
    let url = format!("sqlite:{}", folder.path().join("decisions.db").display());
    let pool = SqlitePool::connect_with(url.parse::<SqliteConnectOptions>()?.create_if_missing(true)).await?;
    sqlx::query(TABLE).execute(&pool).await?;

    let table = SinkTable::new("decision_log", &["id", "decided_at", "amount", "body"])?;
    let sink = Arc::new(SqliteSink::new(&url, table, Duration::from_secs(5))?);
    let decoder = Decoder::new(vec![
        Column::new("id", "$.id")?.required(),
        Column::new("decided_at", "$.ts")?.of(Kind::Timestamp).required(),
        Column::new("amount", "$.amount")?.of(Kind::Integer).required(),
        Column::new("body", "$")?,
    ]);
    let options = options(&brokers, folder.path())?;
    let pipeline = Arc::new(KafkaPipeline::new(options, decoder, sink, Arc::new(Narrator))?);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&pipeline).run(stop.clone()));

    println!("Twelve decisions, two of them bad:");
    let mut decisions: Vec<String> = (1..=12).map(decision).collect();
    decisions[3] = "not json".to_owned();
    decisions[7] = decision(8).replace("\"amount\":8", "\"amount\":-8");
    produce(&brokers, &decisions).await?;
    until_rows(&pool, 10).await?;
    println!("Stored: {}", rows(&pool).await?);

    println!("The table is away, and two more arrive:");
    sqlx::query("ALTER TABLE decision_log RENAME TO away").execute(&pool).await?;
    produce(&brokers, &[decision(13), decision(14)]).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    sqlx::query("ALTER TABLE away RENAME TO decision_log").execute(&pool).await?;
    until_rows(&pool, 12).await?;
    println!("It is back. Stored: {}", rows(&pool).await?);
    stop.cancel();
    running.await?;
    Ok(())
}

/// A broker in this process, with the topics of the pipeline.
fn broker() -> anyhow::Result<MockCluster<'static, DefaultProducerContext>> {
    let broker = MockCluster::new(1)?;
    for suffix in ["", "-dlq", "-parking", "-parking-dlq"] {
        broker.create_topic(&format!("{TOPIC}{suffix}"), 1, 1)?;
    }
    Ok(broker)
}

fn options(brokers: &str, folder: &std::path::Path) -> anyhow::Result<KafkaPipelineOptions> {
    let backoff =
        |initial, max| Backoff::new(Duration::from_millis(initial), 2.0, Duration::from_millis(max));
    Ok(KafkaPipelineOptions {
        name: TOPIC.to_owned(),
        cluster: Cluster::at(brokers),
        topic: TOPIC.to_owned(),
        group: "decision-logs-writer".to_owned(),
        parking_group: "decision-logs-writer-parking".to_owned(),
        letters: LetterTopics {
            dlq: format!("{TOPIC}-dlq"),
            parking: format!("{TOPIC}-parking"),
            parking_dlq: format!("{TOPIC}-parking-dlq"),
        },
        missing: Missing::Create,
        batch: BatchOptions { max_records: 500, max_bytes: 16 << 20, max_delay: Duration::from_millis(100) },
        // Founded with 1 s and 2 s; an example is in a hurry.
        retries: Retries { attempts: 2, backoff: backoff(100, 200)? },
        parking: Retries { attempts: 5, backoff: backoff(300, 1_000)? },
        workers: 2,
        publish_timeout: Duration::from_secs(10),
        folder: folder.join("letters"),
        folder_size: 64 << 20,
        grace: Duration::from_secs(5),
    })
}

fn decision(number: u32) -> String {
    format!(
        r#"{{"id":"decision-{number}","ts":"2026-01-02T03:04:05Z","amount":{number},"verdict":"approve"}}"#
    )
}

async fn produce(brokers: &str, values: &[String]) -> anyhow::Result<()> {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
    for value in values {
        let record = FutureRecord::<str, str>::to(TOPIC).payload(value);
        producer.send(record, Duration::from_secs(10)).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn rows(pool: &SqlitePool) -> anyhow::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM decision_log").fetch_one(pool).await.context("counting rows")
}

async fn until_rows(pool: &SqlitePool, wanted: i64) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while rows(pool).await? < wanted {
        anyhow::ensure!(Instant::now() < deadline, "not stored within a minute");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
