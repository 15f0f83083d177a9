//! The target of a persist pipeline: saves are idempotent, conflicts are named, data errors are refused.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::open;
use jiff::Timestamp;
use redrive_core::classify::blame::blames_record;
use redrive_core::column::Column;
use redrive_store::{Record, Target, TargetOptions};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

fn record(key: &str, payload: &str) -> Record {
    Record { key: key.into(), payload: payload.into(), created_at: Timestamp::UNIX_EPOCH }
}

async fn target(database: &TestDatabase) -> Target {
    let target = Target::new(open(database).await, &TargetOptions::new("urls")).unwrap();
    target.migrate().await.unwrap();
    target
}

#[tokio::test]
async fn what_is_saved_is_found_and_saving_it_again_changes_nothing() {
    for database in testkit::backends(file!()).await {
        let target = target(&database).await;
        let records: Vec<_> =
            (0..2_500).map(|n| record(&format!("k{n}"), &format!("https://é.example/{n}?q='\\%"))).collect();
        assert_eq!(target.save(&records).await.unwrap(), []);
        assert_eq!(target.save(&records).await.unwrap(), []);
        assert_eq!(target.save(&records[2_400..]).await.unwrap(), []);
        let mut client = Client::connect(&database).await;
        assert_eq!(client.number("SELECT count(*) FROM urls").await, 2_500);
        assert_eq!(target.find("k1042").await.unwrap().unwrap(), "https://é.example/1042?q='\\%");
        assert_eq!(target.find("K1042").await.unwrap(), None);
        assert_eq!(target.save(&[]).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_key_that_is_taken_is_a_conflict_and_the_others_are_saved() {
    for database in testkit::backends(file!()).await {
        let target = target(&database).await;
        target.save(&[record("taken", "first")]).await.unwrap();
        let mut records: Vec<_> = (0..1_200).map(|n| record(&format!("k{n}"), "x")).collect();
        records[7] = record("taken", "second");
        records[8] = record("taken", "first");
        records[1_100] = record("k5", "another");
        let conflicts = target.save(&records).await.unwrap();
        let places: Vec<_> = conflicts.iter().map(|(index, _)| *index).collect();
        assert_eq!(places, [7, 1_100], "{:?}", database.backend);
        for (_, failure) in &conflicts {
            assert!(
                !failure.class.is_retryable() && blames_record(failure.code.as_ref().unwrap()),
                "{failure}"
            );
        }
        assert_eq!(target.find("taken").await.unwrap().unwrap(), "first");
        let mut client = Client::connect(&database).await;
        assert_eq!(client.number("SELECT count(*) FROM urls").await, 1_198);
    }
}

#[tokio::test]
async fn two_of_one_key_in_one_batch_are_one_row_or_a_conflict() {
    for database in testkit::backends(file!()).await {
        let target = target(&database).await;
        let records = [record("a", "1"), record("a", "1"), record("b", "1"), record("b", "2")];
        let conflicts = target.save(&records).await.unwrap();
        assert_eq!(
            conflicts.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            [3],
            "{:?}",
            database.backend
        );
    }
}

/// An application's own table, which is stricter than ours.
async fn strict(database: &TestDatabase) -> Target {
    let mut client = Client::connect(database).await;
    let not_null = "host TEXT GENERATED ALWAYS AS (NULLIF(long_url, 'null')) STORED NOT NULL";
    match database.backend {
        Backend::Sqlite => {
            let checks = "CHECK (length(long_url) <= 20)";
            client
                .run(&format!(
                    "CREATE TABLE urls (short_url TEXT PRIMARY KEY, long_url TEXT, {not_null}, {checks})"
                ))
                .await;
        }
        Backend::Postgres => {
            client
                .run(&format!(
                    "CREATE TABLE urls (short_url TEXT PRIMARY KEY, long_url VARCHAR(20), {not_null})"
                ))
                .await;
        }
        Backend::MySql => {
            client
                .run("CREATE TABLE urls (short_url VARCHAR(50) PRIMARY KEY, long_url VARCHAR(20) NOT NULL)")
                .await;
            client
                .run("CREATE TRIGGER strict BEFORE INSERT ON urls FOR EACH ROW SET NEW.long_url = NULLIF(NEW.long_url, 'null')")
                .await;
        }
    }
    target(database).await
}

#[tokio::test]
async fn each_kind_of_data_error_is_blamed_on_its_row() {
    for database in testkit::backends(file!()).await {
        let target = strict(&database).await;
        for bad in [record("long", &"x".repeat(21)), record("null", "null")] {
            for batch in [vec![bad.clone()], vec![record("good", "1"), bad.clone()]] {
                let failure = match target.save(&batch).await {
                    // What its column cannot hold is named at once.
                    Ok(mut unsaved) => {
                        assert_eq!((unsaved.len(), unsaved[0].0), (1, batch.len() - 1));
                        unsaved.remove(0).1
                    }
                    Err(error) => {
                        assert!(!error.is_unavailable(), "{error}");
                        error.failure()
                    }
                };
                assert!(!failure.class.is_retryable(), "{:?}: {failure}", database.backend);
                assert!(failure.code.as_ref().is_none_or(blames_record), "{:?}: {failure}", database.backend);
            }
        }
        assert_eq!(target.save(&[record("good", "1")]).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_missing_table_is_blamed_on_no_row() {
    for database in testkit::backends(file!()).await {
        let target = Target::new(open(&database).await, &TargetOptions::new("missing")).unwrap();
        let failure = target.save(&[record("a", "1")]).await.unwrap_err().failure();
        assert!(!failure.code.as_ref().is_some_and(blames_record), "{failure}");
    }
}

#[tokio::test]
async fn an_applications_own_table_is_left_as_it_is() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        client
            .run("CREATE TABLE urls (short_url VARCHAR(50) PRIMARY KEY, long_url VARCHAR(50), clicks INT)")
            .await;
        let target = target(&database).await;
        assert_eq!(target.save(&[record("a", "1")]).await.unwrap(), []);
        assert_eq!(
            client.rows("SELECT * FROM urls").await,
            [[Some("a".to_owned()), Some("1".to_owned()), None]]
        );
    }
}

/// Two equal saves were two rows.
#[tokio::test]
async fn a_table_that_would_keep_an_event_twice_is_refused() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        client
            .run("CREATE TABLE urls (short_url VARCHAR(50) NOT NULL, long_url VARCHAR(50), clicks INT)")
            .await;
        client.run("CREATE UNIQUE INDEX counted ON urls (short_url, clicks)").await;
        client.run("CREATE INDEX keyed ON urls (short_url)").await;
        let target = Target::new(open(&database).await, &TargetOptions::new("urls")).unwrap();
        let problems = target.plan().await.unwrap().problems;
        assert!(
            problems.len() == 1 && problems[0].contains("no unique index over short_url"),
            "{problems:?}"
        );
        assert!(target.migrate().await.is_err(), "{:?}", database.backend);
        let create = problems[0].rsplit_once(": ").unwrap().1;
        client.run(create.trim_end_matches(';')).await;
        target.migrate().await.unwrap();
        assert_eq!(target.save(&[record("a", "1")]).await.unwrap(), []);
        assert_eq!(target.save(&[record("a", "1")]).await.unwrap(), []);
        assert_eq!(client.number("SELECT count(*) FROM urls").await, 1, "{:?}", database.backend);
    }
}

/// As in a partitioned table, whose unique indexes have the column that it is partitioned by.
#[tokio::test]
async fn a_unique_index_over_the_key_and_other_saved_columns_will_do() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        client
            .run(
                "CREATE TABLE urls (short_url VARCHAR(50) NOT NULL, day VARCHAR(10) NOT NULL, visits INT, \
                 PRIMARY KEY (day, short_url))",
            )
            .await;
        let values = ["day", "visits"].map(|name| Column::new(name, &format!("$.{name}")).unwrap()).to_vec();
        let options = TargetOptions { payload_column: None, values, ..TargetOptions::new("urls") };
        let target = Target::new(open(&database).await, &options).unwrap();
        target.migrate().await.unwrap();
        let monday = record("a", "{\"day\": \"Monday\", \"visits\": 1}");
        let friday = record("a", "{\"day\": \"Friday\", \"visits\": 2}");
        assert_eq!(target.save(&[monday.clone(), friday.clone()]).await.unwrap(), []);
        assert_eq!(target.save(&[friday, monday]).await.unwrap(), []);
        let other = record("a", "{\"day\": \"Monday\", \"visits\": 3}");
        let conflicts = target.save(&[other]).await.unwrap();
        assert!(conflicts[0].1.message.ends_with("another value of visits"), "{}", conflicts[0].1.message);
        assert_eq!(client.number("SELECT count(*) FROM urls").await, 2, "{:?}", database.backend);
    }
}

#[tokio::test]
async fn names_that_could_change_a_statement_are_refused() {
    let database = testkit::sqlite();
    for (table, key) in [("urls; DROP TABLE urls", "k"), ("urls", "k\"")] {
        let options = TargetOptions { key_column: key.into(), ..TargetOptions::new(table) };
        assert!(Target::new(open(&database).await, &options).is_err());
    }
}

/// The target with a payload column of this type.
async fn with_payload(database: &TestDatabase, declared: &str) -> Target {
    let mut client = Client::connect(database).await;
    client.run("DROP TABLE IF EXISTS urls").await;
    client
        .run(&format!("CREATE TABLE urls (short_url VARCHAR(50) NOT NULL PRIMARY KEY, long_url {declared})"))
        .await;
    target(database).await
}

/// They were compared as doubles: the second event counted as saved, and was lost.
#[tokio::test]
async fn numbers_that_a_double_cannot_tell_apart_are_two_values() {
    for database in testkit::servers(file!()).await {
        let target = with_payload(&database, "NUMERIC(20, 0)").await;
        assert_eq!(target.save(&[record("k", "9007199254740993")]).await.unwrap(), []);
        assert_eq!(target.save(&[record("k", "9007199254740993")]).await.unwrap(), []);
        let conflicts = target.save(&[record("k", "9007199254740992")]).await.unwrap();
        assert_eq!(conflicts.len(), 1, "{:?}", database.backend);
    }
}

/// A save whose answer was lost was a conflict with itself.
#[tokio::test]
async fn what_the_column_rounds_or_fills_up_is_the_same_when_it_comes_again() {
    let mut wrong = Vec::new();
    for database in testkit::servers(file!()).await {
        let (float, time, bytes) = match database.backend {
            Backend::MySql => ("FLOAT", "DATETIME", "BINARY(5)"),
            _ => ("REAL", "TIMESTAMP(0)", "BYTEA"),
        };
        for (declared, payload) in [
            ("NUMERIC(12, 2)", "1.005"),
            ("NUMERIC(12, 2)", "1e3"),
            (float, "1.2345678"),
            (time, "2026-01-02 03:04:05.25"),
            (time, "2026-01-02T03:04:05+00:00"),
            ("CHAR(5)", "ab"),
            ("BOOLEAN", "1"),
            ("DATE", "2026-01-02"),
            (bytes, "ab"),
        ] {
            let target = with_payload(&database, declared).await;
            for _ in 0..2 {
                match target.save(&[record("k", payload)]).await {
                    Ok(unsaved) if unsaved.is_empty() => {}
                    other => wrong.push(format!("{:?} {declared} {payload}: {other:?}", database.backend)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
