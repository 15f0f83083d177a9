//! Tables of the user's own as sinks: a column of every type on every store, defaults, computed columns, constraints,
//! and what is refused by name before a record is read.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{record, sink_at};
use redrive_kafka::column::Column;
use redrive_kafka::decode::Decoder;
use redrive_kafka::record::Record;
use redrive_kafka::row::Row;
use redrive_kafka::sink::{Sink, SinkTable, Stored};
use redrive_testkit::types::{self, Sample};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

const PATIENCE: Duration = Duration::from_secs(20);
/// A table `sink` with these columns beside those that say which record a row is.
async fn create(client: &mut Client, columns: &str) {
    let (quote, text) = match client {
        Client::MySql(_) => ('`', "VARCHAR(100)"),
        _ => ('"', "TEXT"),
    };
    client.run("DROP TABLE IF EXISTS sink").await;
    client
        .run(&format!(
            "CREATE TABLE sink (topic {text} NOT NULL, {quote}partition{quote} INT NOT NULL, \
             {quote}offset{quote} BIGINT NOT NULL, {columns}, \
             UNIQUE (topic, {quote}partition{quote}, {quote}offset{quote}))"
        ))
        .await;
}

async fn connect(database: &TestDatabase) -> Client {
    let mut client = Client::connect(database).await;
    types::prepare(&mut client).await;
    client
}

fn table(columns: &[&str]) -> SinkTable {
    SinkTable::new("sink", columns).unwrap()
}

fn sink(database: &TestDatabase, columns: &[&str]) -> Arc<dyn Sink> {
    sink_at(database.backend, &database.url, table(columns), PATIENCE)
}

fn decoder(columns: &[&str]) -> Decoder {
    let column = |name: &&str| Column::new(name, &format!("$.{name}")).unwrap();
    Decoder::new(columns.iter().map(column).collect())
}

fn rows<'a>(decoder: &Decoder, records: &'a [Record]) -> Vec<Row<'a>> {
    records.iter().map(|record| decoder.decode(record).unwrap()).collect()
}

/// How a sink came to store a record.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// As batches are stored: on Postgres by COPY.
    Store,
    /// All or nothing: on Postgres by an insert of arrays.
    Write,
    /// Behind poison: on Postgres by the function that isolates it.
    BehindPoison,
}

/// Stores one record with this value of `v`, and returns what failed.
async fn store(sink: &dyn Sink, value: &str, way: Way) -> Vec<(usize, String)> {
    let decoder = decoder(&["v", "ok"]);
    let good = record(1, format!(r#"{{"v":{value},"ok":1}}"#));
    let poison = |offset: i64| record(offset, r#"{"ok":-1}"#);
    let records: Vec<Record> = match way {
        Way::Store | Way::Write => vec![good],
        Way::BehindPoison => (2..22).map(poison).chain([good]).collect(),
    };
    let rows = rows(&decoder, &records);
    if way == Way::Write {
        return sink.write(&rows).await.err().map(|failure| (0, failure.message)).into_iter().collect();
    }
    let Stored { poison, undecided, cause } = sink.store(&rows).await;
    assert!(undecided.is_empty(), "{value}: {cause:?}");
    let poison = poison.into_iter().map(|(at, failure)| (at, failure.message));
    match way {
        Way::BehindPoison => poison.filter(|(at, _)| *at == 20).collect(),
        _ => poison.collect(),
    }
}

/// Text in BYTEA was read as an escape, times lost their zone, `true` was `t` in a batch and `true` alone, a text was
/// no JSON, BIT took nothing, and DATETIME no `Z`.
#[tokio::test]
async fn a_json_value_arrives_in_a_column_of_every_type() {
    let mut wrong = Vec::new();
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = connect(&database).await;
        for Sample { declared, json: value, expected: kept } in types::accepted(database.backend) {
            create(&mut client, &format!("v {declared}, ok INT CHECK (ok > 0)")).await;
            let sink = sink(&database, &["v", "ok"]);
            sink.check().await.unwrap();
            for way in [Way::Store, Way::Write, Way::BehindPoison] {
                client.run("DELETE FROM sink").await;
                let failed = store(&*sink, value, way).await;
                let found = types::shown(&mut client, "sink", declared).await;
                if !failed.is_empty() || found.as_deref() != Some(*kept) {
                    let case = format!("{:?} {declared} {way:?}", database.backend);
                    wrong.push(format!("{case}: {value} is {found:?}, expected {kept:?}; {failed:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// MySQL stored NULL for a wrong UUID and the first label for "1"; SQLite stored any text and rounded large numbers.
#[tokio::test]
async fn a_value_that_a_column_cannot_hold_is_poison_alone_with_the_reason() {
    let mut wrong = Vec::new();
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = connect(&database).await;
        for Sample { declared, json: value, expected: reason } in types::refused(database.backend) {
            create(&mut client, &format!("v {declared}, ok INT CHECK (ok > 0)")).await;
            let sink = sink(&database, &["v", "ok"]);
            sink.check().await.unwrap();
            for way in [Way::Store, Way::Write, Way::BehindPoison] {
                let failed = store(&*sink, value, way).await;
                let is_named =
                    |(_, message): &(usize, String)| message.contains(reason) && message.contains("column v");
                if failed.len() != 1
                    || !failed.iter().all(is_named)
                    || types::shown(&mut client, "sink", declared).await.is_some()
                {
                    wrong.push(format!("{:?} {declared} {way:?}: {value}: {failed:?}", database.backend));
                }
            }
            // Its neighbours are stored.
            let decoder = decoder(&["v", "ok"]);
            let neighbour = |offset| record(offset, r#"{"v":null,"ok":1}"#);
            let records = [neighbour(1), record(2, format!(r#"{{"v":{value},"ok":1}}"#)), neighbour(3)];
            let stored = sink.store(&rows(&decoder, &records)).await;
            let poison: Vec<usize> = stored.poison.iter().map(|(at, _)| *at).collect();
            let count = client.number("SELECT count(*) FROM sink").await;
            if poison != [1] || count != 2 {
                wrong.push(format!("{:?} {declared}: {value}: {stored:?}, {count} rows", database.backend));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A table with a default, computed columns, and constraints of the user's own.
fn ruled(backend: Backend) -> &'static str {
    match backend {
        Backend::Postgres => {
            "n BIGINT GENERATED ALWAYS AS IDENTITY, id INT NOT NULL UNIQUE, total NUMERIC(12, 2) CHECK (total >= 0), \
             owner INT REFERENCES owner (id), version INT NOT NULL DEFAULT 7, \
             twice NUMERIC GENERATED ALWAYS AS (total * 2) STORED, search TSVECTOR GENERATED ALWAYS AS \
             (to_tsvector('simple', coalesce(total::text, ''))) STORED"
        }
        Backend::MySql => {
            "n BIGINT AUTO_INCREMENT PRIMARY KEY, id INT NOT NULL UNIQUE, total DECIMAL(12, 2) CHECK (total >= 0), \
             owner INT, version INT NOT NULL DEFAULT 7, twice DECIMAL(13, 2) AS (total * 2) STORED, \
             shown VARCHAR(20) AS (concat(total, ' EUR')) VIRTUAL, FOREIGN KEY (owner) REFERENCES owner (id)"
        }
        Backend::Sqlite => {
            "n INTEGER PRIMARY KEY, id INT NOT NULL UNIQUE, total NUMERIC CHECK (total >= 0), \
             owner INT REFERENCES owner (id), version INT NOT NULL DEFAULT 7, twice NUMERIC AS (total * 2) STORED, \
             shown TEXT AS (total || ' EUR') VIRTUAL"
        }
    }
}

#[tokio::test]
async fn defaults_and_computed_columns_are_left_to_the_database_and_constraints_fail_alone() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = connect(&database).await;
        client.run("CREATE TABLE owner (id INT PRIMARY KEY)").await;
        client.run("INSERT INTO owner VALUES (1)").await;
        create(&mut client, ruled(database.backend)).await;
        let columns = ["id", "total", "owner"];
        let (sink, decoder) = (sink(&database, &columns), decoder(&columns));
        sink.check().await.unwrap();
        let order = |at: i64, id: i64, total: i64, owner: i64| {
            record(at, format!(r#"{{"id":{id},"total":{total},"owner":{owner}}}"#))
        };
        let mut records: Vec<Record> = (0..40).map(|at| order(at, at, 5, 1)).collect();
        records[3] = order(3, 3, -1, 1);
        records[11] = order(11, 11, 5, 2);
        records[17] = record(17, r#"{"total":5}"#);
        records[23] = order(23, 0, 5, 1);
        for _ in 0..2 {
            let stored = sink.store(&rows(&decoder, &records)).await;
            let poison: Vec<usize> = stored.poison.iter().map(|(at, _)| *at).collect();
            assert_eq!(poison, [3, 11, 17, 23], "{:?}: {stored:?}", database.backend);
            assert_eq!(client.number("SELECT count(*) FROM sink").await, 36, "{:?}", database.backend);
        }
        let computed = client.rows("SELECT DISTINCT version, round(twice) FROM sink").await;
        assert_eq!(computed, [[Some("7".to_owned()), Some("10".to_owned())]], "{:?}", database.backend);
    }
}

/// Every record was a dead letter: `null value in column "tenant"`, `cannot insert a non-DEFAULT value`.
#[tokio::test]
async fn columns_that_cannot_be_written_and_those_that_must_be_are_refused_by_name_at_the_start() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = connect(&database).await;
        client.run("CREATE TABLE owner (id INT PRIMARY KEY)").await;
        create(&mut client, &format!("{}, tenant INT NOT NULL", columns_first(database.backend))).await;
        let complaint =
            async |columns: &[&str]| sink(&database, columns).check().await.err().unwrap_or_default();
        let said = complaint(&["id"]).await;
        assert!(said.contains("sink.tenant is NOT NULL without a default"), "{:?}: {said}", database.backend);
        let said = complaint(&["id", "tenant", "twice"]).await;
        assert!(said.contains("sink.twice is computed by the database"), "{:?}: {said}", database.backend);
        assert_eq!(complaint(&["id", "tenant"]).await, "");
        if database.backend == Backend::Postgres {
            let said = complaint(&["id", "tenant", "n"]).await;
            assert!(said.contains("sink.n is GENERATED ALWAYS AS IDENTITY"), "{said}");
        }
        if database.backend == Backend::MySql {
            create(&mut client, "id INT, place POINT").await;
            let said = complaint(&["id", "place"]).await;
            assert!(said.contains("sink.place is of the type point"), "{said}");
        }
    }
}

/// SQLite wants constraints of the table after all of its columns: there are none here.
const fn columns_first(backend: Backend) -> &'static str {
    match backend {
        Backend::Postgres => {
            "n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, twice INT GENERATED ALWAYS AS (id * 2) STORED"
        }
        Backend::MySql | Backend::Sqlite => "id INT, twice INT AS (id * 2) VIRTUAL",
    }
}

/// A known record could not be told from a new one: `mismatched types` made poison of the batch.
#[tokio::test]
async fn the_columns_of_the_position_may_be_unsigned() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = connect(&database).await;
    client
        .run(
            "CREATE TABLE sink (topic VARBINARY(100) NOT NULL, `partition` SMALLINT UNSIGNED NOT NULL, \
             `offset` BIGINT UNSIGNED NOT NULL, v INT, UNIQUE (topic, `partition`, `offset`))",
        )
        .await;
    let (sink, decoder) = (sink(&database, &["v"]), decoder(&["v"]));
    sink.check().await.unwrap();
    let records: Vec<Record> = (0..6).map(|at| record(at, format!(r#"{{"v":{at}}}"#))).collect();
    let rows = rows(&decoder, &records);
    assert_eq!(sink.store(&rows[..4]).await, Stored::default());
    assert_eq!(sink.store(&rows).await, Stored::default());
    assert_eq!(client.number("SELECT count(*) FROM sink").await, 6);
}

/// What a column can hold is known from the table as it is, not as it was at the start.
#[tokio::test]
async fn a_column_that_is_made_wider_takes_the_value_without_a_restart() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut client = connect(&database).await;
        create(&mut client, "v INT").await;
        let (sink, decoder) = (sink(&database, &["v"]), decoder(&["v"]));
        let records = [record(1, r#"{"v":"a text"}"#)];
        assert_eq!(sink.store(&rows(&decoder, &records)).await.poison.len(), 1, "{:?}", database.backend);
        create(&mut client, "v VARCHAR(40)").await;
        assert_eq!(sink.store(&rows(&decoder, &records)).await, Stored::default(), "{:?}", database.backend);
    }
}
