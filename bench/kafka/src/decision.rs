//! The records of the founding case, and their table.

use anyhow::Context as _;
use bench_harness::Scratch;
use redrive_kafka::column::{Column, Kind};
use redrive_kafka::decode::Decoder;
use redrive_kafka::sink::SinkTable;
use sqlx::Executor as _;

const TABLE: &str = r#"CREATE TABLE decision_log (
    topic text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL,
    id text NOT NULL, decided_at timestamptz NOT NULL, amount bigint NOT NULL CHECK (amount >= 0),
    body jsonb NOT NULL, UNIQUE (topic, partition, "offset"))"#;

/// Makes the table.
pub(crate) async fn create_table(scratch: &Scratch) -> anyhow::Result<()> {
    scratch.connect().await?.execute(TABLE).await.context("making the table")?;
    Ok(())
}

/// Empties it.
pub(crate) async fn empty_table(scratch: &Scratch) -> anyhow::Result<()> {
    scratch.connect().await?.execute("TRUNCATE decision_log").await.context("emptying the table")?;
    Ok(())
}

/// How many rows it has.
pub(crate) async fn count_rows(scratch: &Scratch) -> anyhow::Result<i64> {
    let mut connection = scratch.connect().await?;
    Ok(sqlx::query_scalar("SELECT count(*) FROM decision_log").fetch_one(&mut connection).await?)
}

/// A record of 300 bytes.
pub(crate) fn value(number: u32, amount: i64) -> String {
    let head = format!(
        r#"{{"id":"decision-{number:08}","ts":"2026-01-02T03:04:05.678Z","amount":{amount},"verdict":"approve","rule":"limit-7","note":""#
    );
    let rest = 300_usize.saturating_sub(head.len() + 2);
    format!("{head}{}\"}}", "x".repeat(rest))
}

/// The columns as a user declares them.
pub(crate) fn decoder() -> anyhow::Result<Decoder> {
    Ok(Decoder::new(vec![
        Column::new("id", "$.id")?.required(),
        Column::new("decided_at", "$.ts")?.of(Kind::Timestamp).required(),
        Column::new("amount", "$.amount")?.of(Kind::Integer).required(),
        Column::new("body", "$")?,
    ]))
}

/// The table as the sink knows it.
pub(crate) fn table() -> anyhow::Result<SinkTable> {
    Ok(SinkTable::new("decision_log", &["id", "decided_at", "amount", "body"])?)
}
