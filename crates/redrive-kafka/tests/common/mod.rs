//! What the tests of this crate share.
#![allow(dead_code, reason = "not every suite uses all of it")]

pub(crate) mod stage;

use std::sync::Arc;
use std::time::Duration;

use redrive_kafka::column::{Column, Kind};
use redrive_kafka::decode::Decoder;
use redrive_kafka::record::{Position, Record, RecordTime};
use redrive_kafka::sink::{MySqlSink, PostgresSink, Sink, SinkTable, SqliteSink};
use redrive_testkit::{Backend, Client, TestDatabase};

/// The table of the founding case, with rules that records can break.
pub(crate) const POSTGRES: &str = r#"CREATE TABLE account (id text PRIMARY KEY); INSERT INTO account VALUES ('a'), ('b');
CREATE TABLE decision_log (topic text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL,
    id varchar(12) NOT NULL UNIQUE, decided_at timestamptz, amount bigint CHECK (amount >= 0),
    account text REFERENCES account, body jsonb, UNIQUE (topic, partition, "offset"))"#;
pub(crate) const MYSQL: &str = "CREATE TABLE decision_log (topic varchar(200) NOT NULL, `partition` int NOT NULL,
    `offset` bigint NOT NULL, id varchar(12) NOT NULL UNIQUE, decided_at datetime(6), amount bigint CHECK (amount >= 0),
    account varchar(20), body json, UNIQUE (topic, `partition`, `offset`))";
pub(crate) const SQLITE: &str = r#"CREATE TABLE decision_log (topic text NOT NULL, partition int NOT NULL, "offset" bigint NOT NULL,
    id varchar(12) NOT NULL UNIQUE CHECK (length(id) <= 12), decided_at text, amount bigint CHECK (amount IS NULL OR amount >= 0 AND typeof(amount) = 'integer'),
    account text, body text CHECK (json_valid(body)), UNIQUE (topic, partition, "offset"))"#;

pub(crate) const COLUMNS: [&str; 5] = ["id", "decided_at", "amount", "account", "body"];

pub(crate) fn table() -> SinkTable {
    SinkTable::new("decision_log", &COLUMNS).unwrap()
}

pub(crate) fn decoder() -> Decoder {
    let column = |name: &str, path: &str| Column::new(name, path).unwrap();
    Decoder::new(vec![
        column("id", "$.id"),
        column("decided_at", "$.ts").of(Kind::Timestamp),
        column("amount", "$.amount"),
        column("account", "$.account"),
        column("body", "$"),
    ])
}

pub(crate) async fn prepare(database: &TestDatabase) -> Client {
    let mut client = Client::connect(database).await;
    client
        .run(match database.backend {
            Backend::Postgres => POSTGRES,
            Backend::MySql => MYSQL,
            Backend::Sqlite => SQLITE,
        })
        .await;
    client
}

/// A sink in a table of this database; one batch may take so long.
pub(crate) fn sink_at(backend: Backend, url: &str, table: SinkTable, timeout: Duration) -> Arc<dyn Sink> {
    match backend {
        Backend::Postgres => Arc::new(PostgresSink::new(url, table, timeout).unwrap()),
        Backend::MySql => Arc::new(MySqlSink::new(url, table, timeout).unwrap()),
        Backend::Sqlite => Arc::new(SqliteSink::new(url, table, timeout).unwrap()),
    }
}

pub(crate) fn record(offset: i64, value: impl Into<Vec<u8>>) -> Record {
    Record {
        position: Position::new("decision-logs", 0, offset),
        timestamp: Some(RecordTime::created(1_700_000_000_000)),
        key: None,
        value: Some(value.into()),
        headers: Vec::new(),
    }
}

pub(crate) fn good(offset: i64) -> Record {
    record(
        offset,
        format!(r#"{{"id":"id-{offset}","ts":"2026-01-02T03:04:05Z","amount":{offset},"account":"a"}}"#),
    )
}
