//! The raw loop: poll, COPY, commit, and no care at all. A bad record stops it, a record that comes twice
//! breaks it, and a database that is away ends it.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rdkafka::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use serde::Deserialize;
use sqlx::postgres::PgConnection;

const COPY: &str =
    r#"COPY decision_log (topic, partition, "offset", id, decided_at, amount, body) FROM STDIN"#;

#[derive(Deserialize)]
struct Decision<'a> {
    id: &'a str,
    ts: &'a str,
    amount: i64,
}

/// Consumes so many records in batches of this size; says how long it took from the first one on.
pub(crate) async fn consume(
    brokers: &str,
    topic: &str,
    group: &str,
    records: u32,
    batch: usize,
    connection: &mut PgConnection,
) -> anyhow::Result<Duration> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[topic])?;
    let (mut seen, mut began) = (0_u32, None);
    let mut text = String::new();
    while seen < records {
        text.clear();
        let mut taken = 0;
        while taken < batch && seen < records {
            let Some(message) = consumer.poll(Duration::from_millis(100)) else {
                if taken > 0 {
                    break;
                }
                continue;
            };
            let message = message?;
            began.get_or_insert_with(Instant::now);
            write_row(&mut text, &message)?;
            taken += 1;
            seen += 1;
        }
        let mut copy = connection.copy_in_raw(COPY).await?;
        copy.send(text.as_bytes()).await?;
        copy.finish().await?;
        consumer.commit_consumer_state(CommitMode::Async)?;
    }
    Ok(began.context("no record came")?.elapsed())
}

fn write_row(text: &mut String, message: &rdkafka::message::BorrowedMessage<'_>) -> anyhow::Result<()> {
    let value = std::str::from_utf8(message.payload().unwrap_or_default())?;
    let decision: Decision<'_> = serde_json::from_str(value)?;
    let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
    write!(text, "{topic}\t{partition}\t{offset}\t{}\t{}\t{}\t", decision.id, decision.ts, decision.amount)?;
    // The only character of these records that COPY would misread.
    text.push_str(&value.replace('\\', "\\\\"));
    text.push('\n');
    Ok(())
}
