//! Tables that an application made itself: the original ones to the last NOT NULL, every type of column, and what is
//! refused before anything is changed.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::collections::BTreeSet;

use common::{LONG, dead, done, event, failed, order, settle, take, take_one, timeout};
use redrive_core::dead_letter::{DeadLetterQueue as _, Filter, Page};
use redrive_core::event::NewEvent;
use redrive_core::failure::Failure;
use redrive_core::lease::Settlement;
use redrive_store::{
    Enqueued, Error, FailedEvent, FailedEvents, FailedEventsOptions, Ids, Jobs, JobsOptions, NewJob, Outbox,
    OutboxOptions, Processed, Record, Target, TargetOptions, WorkStore as _,
};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

/// `shared/spec/tables.sql`, in the words of each store: no default that it does not have.
async fn original_tables(client: &mut Client, backend: Backend) {
    let (id, time) = match backend {
        Backend::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "DATETIME"),
        Backend::Postgres => ("BIGSERIAL PRIMARY KEY", "TIMESTAMP"),
        Backend::MySql => ("BIGINT AUTO_INCREMENT PRIMARY KEY", "DATETIME"),
    };
    for table in [
        format!(
            "outbox_event (id {id}, event_type VARCHAR(100) NOT NULL, aggregate_type VARCHAR(100) NOT NULL, \
             aggregate_id VARCHAR(255) NOT NULL, payload TEXT NOT NULL, processed BOOLEAN NOT NULL DEFAULT FALSE, \
             processed_at {time}, error_message TEXT, retry_count INT NOT NULL DEFAULT 0, \
             created_at {time} NOT NULL, updated_at {time} NOT NULL)"
        ),
        format!(
            "outbox_event_dlq (id {id}, original_event_id BIGINT NOT NULL, event_type VARCHAR(100) NOT NULL, \
             aggregate_type VARCHAR(100) NOT NULL, aggregate_id VARCHAR(255) NOT NULL, payload TEXT NOT NULL, \
             error_message TEXT NOT NULL, failed_at {time} NOT NULL, retry_count INT NOT NULL, \
             resolved BOOLEAN NOT NULL DEFAULT FALSE, resolved_at {time}, resolved_by VARCHAR(100), \
             resolution_note TEXT, created_at {time} NOT NULL, updated_at {time} NOT NULL)"
        ),
        format!(
            "failed_events (id {id}, short_url VARCHAR(255) NOT NULL, long_url TEXT NOT NULL, \
             created_at BIGINT NOT NULL, failed_at BIGINT NOT NULL, retry_count INT NOT NULL DEFAULT 0, \
             last_error TEXT, status VARCHAR(50) NOT NULL DEFAULT 'PENDING')"
        ),
        format!(
            "summarize_job_queue (job_id {id}, article_id VARCHAR(255) NOT NULL, status VARCHAR(20) NOT NULL, \
             retry_count INT NOT NULL, max_retries INT NOT NULL, error_message TEXT, created_at {time} NOT NULL, \
             started_at {time}, completed_at {time})"
        ),
    ] {
        client.run(&format!("CREATE TABLE {table}")).await;
    }
    for index in ["resolved", "event_type", "failed_at"] {
        client.run(&format!("CREATE INDEX idx_dlq_{index} ON outbox_event_dlq ({index})")).await;
    }
}

async fn outbox_on(database: &TestDatabase) -> Outbox {
    common::outbox(database, OutboxOptions::new("orders")).await
}

/// No dead letter, no redrive and no append worked: `Field 'failed_at' doesn't have a default value`.
#[tokio::test]
async fn the_original_outbox_is_served_as_it_is() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        client
            .run(
                "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload, created_at, updated_at) \
                 VALUES ('OrderCreated', 'Order', '42', '{}', '2026-01-02 03:04:05', '2026-01-02 03:04:05')",
            )
            .await;
        let outbox = outbox_on(&database).await;
        outbox
            .append(vec![event("43"), NewEvent { aggregate_id: String::new(), ..event("") }])
            .await
            .unwrap();
        let claimed = take(&outbox, 10, LONG).await;
        assert_eq!(claimed.len(), 3, "{:?}", database.backend);
        assert!(settle(&outbox, dead(claimed, &timeout())).await.lost.is_empty());
        let letters = outbox.list(&Filter::default(), Page::first(10)).await.unwrap().letters;
        assert_eq!(letters.len(), 3, "{:?}: every one is a letter", database.backend);
        let age = jiff::Timestamp::now().duration_since(letters[0].failed_at);
        assert!(
            age.as_secs().abs() < 3600,
            "{:?}: it failed now, not {:?}",
            database.backend,
            letters[0].failed_at
        );
        let ids: Vec<String> = letters.into_iter().map(|letter| letter.id.local).collect();
        assert_eq!(outbox.redrive(&ids, &order()).await.unwrap().done.len(), 3, "{:?}", database.backend);
        settle(&outbox, done(take(&outbox, 10, LONG).await)).await;
        assert_eq!((outbox.backlog().await.unwrap(), outbox.delivered().await.unwrap()), (0, 3));
    }
}

#[tokio::test]
async fn the_original_jobs_and_failed_events_are_served_as_they_are() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        let jobs = common::jobs(&database, JobsOptions::new("summarize")).await;
        jobs.enqueue(vec![NewJob::new("article-7", "{}")]).await.unwrap();
        settle(&jobs, dead(vec![take_one(&jobs).await], &timeout())).await;
        let letter = jobs.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0);
        assert_eq!(letter.key, "article-7", "{:?}", database.backend);
        assert_eq!(jobs.redrive(&[letter.id.local], &order()).await.unwrap().done.len(), 1);
        settle(&jobs, done(vec![take_one(&jobs).await])).await;

        let now = jiff::Timestamp::now();
        let events =
            FailedEvents::new(common::open(&database).await, FailedEventsOptions::new("urls")).unwrap();
        events.migrate().await.unwrap();
        events.append(&[FailedEvent::new("k", "v", now, now, timeout())]).await.unwrap();
        settle(&events, dead(vec![take_one(&events).await], &timeout())).await;
        assert_eq!(events.list(&Filter::default(), Page::first(1)).await.unwrap().letters.len(), 1);
    }
}

/// A type, and a value of it as text.
type Sample = (&'static str, &'static str);

const UUID: &str = "6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11";
const JSON: &str = "{\"a\": 1}";

fn key_types(backend: Backend) -> Vec<Sample> {
    match backend {
        Backend::Postgres => vec![
            ("SMALLINT", "42"),
            ("INTEGER", "42"),
            ("BIGINT", "-9000000000"),
            ("NUMERIC(20, 2)", "42.50"),
            ("UUID", UUID),
            ("TEXT", "é 'x'"),
            ("VARCHAR(40)", "x"),
            ("CHAR(3)", "abc"),
            ("mood", "happy"),
        ],
        Backend::MySql => vec![
            ("INT", "8"),
            ("INT UNSIGNED", "4000000000"),
            ("BIGINT", "-9000000000"),
            ("BIGINT UNSIGNED", "9000000000"),
            ("DECIMAL(20, 2)", "42.50"),
            ("UUID", UUID),
            ("BINARY(16)", UUID),
            ("VARCHAR(40)", "é 'x'"),
            ("CHAR(36)", UUID),
            ("ENUM('happy', 'sad')", "happy"),
        ],
        Backend::Sqlite => {
            vec![("INTEGER", "42"), ("BIGINT", "-9000000000"), ("TEXT", "é 'x'"), ("CHAR(36)", UUID)]
        }
    }
}

fn payload_types(backend: Backend) -> Vec<Sample> {
    match backend {
        Backend::Postgres => {
            vec![("TEXT", "x"), ("VARCHAR(40)", "x"), ("JSON", JSON), ("JSONB", JSON), ("BYTEA", "é")]
        }
        Backend::MySql => {
            vec![("TEXT", "x"), ("MEDIUMTEXT", "x"), ("JSON", JSON), ("BLOB", "é"), ("LONGBLOB", "x")]
        }
        Backend::Sqlite => vec![("TEXT", "x"), ("JSON", JSON), ("BLOB", "é")],
    }
}

fn id_types(backend: Backend) -> Vec<&'static str> {
    match backend {
        Backend::Postgres => {
            vec!["SERIAL", "BIGSERIAL", "BIGINT GENERATED ALWAYS AS IDENTITY", "SMALLSERIAL"]
        }
        Backend::MySql => {
            vec!["INT AUTO_INCREMENT", "INT UNSIGNED AUTO_INCREMENT", "BIGINT UNSIGNED AUTO_INCREMENT"]
        }
        Backend::Sqlite => vec!["INTEGER"],
    }
}

fn time_types(backend: Backend) -> Vec<&'static str> {
    match backend {
        Backend::Postgres => vec!["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP(0)"],
        Backend::MySql => vec!["DATETIME", "DATETIME(6)", "TIMESTAMP NULL"],
        Backend::Sqlite => vec!["DATETIME", "TEXT", "TIMESTAMP"],
    }
}

/// An outbox of the application's own, whose columns are of these types.
#[derive(Debug, Clone, Copy)]
struct Types {
    id: &'static str,
    kind: Sample,
    aggregate: Sample,
    payload: Sample,
    time: &'static str,
}

impl Types {
    const fn plain(backend: Backend) -> Self {
        Self {
            id: match backend {
                Backend::Postgres => "BIGSERIAL",
                Backend::MySql => "BIGINT AUTO_INCREMENT",
                Backend::Sqlite => "INTEGER",
            },
            kind: ("VARCHAR(100)", "OrderCreated"),
            aggregate: ("VARCHAR(100)", "42"),
            payload: ("TEXT", "x"),
            time: match backend {
                Backend::Postgres => "TIMESTAMP",
                _ => "DATETIME",
            },
        }
    }

    /// Both tables, in a database of their own, or the events alone.
    async fn create(self, client: &mut Client, with_letters: bool) {
        let Self { id, kind: (kind, _), aggregate: (aggregate, _), payload: (payload, _), time } = self;
        if matches!(client, Client::Postgres(_)) {
            client.run("CREATE TYPE mood AS ENUM ('happy', 'sad')").await;
        }
        client
            .run(&format!(
                "CREATE TABLE outbox_event (id {id} PRIMARY KEY, event_type {kind} NOT NULL, \
                 aggregate_type VARCHAR(100), aggregate_id {aggregate}, payload {payload}, \
                 processed BOOLEAN NOT NULL DEFAULT FALSE, processed_at {time}, error_message VARCHAR(255), \
                 retry_count INT NOT NULL DEFAULT 0, created_at {time}, updated_at {time})"
            ))
            .await;
        if !with_letters {
            return;
        }
        client
            .run(&format!(
                "CREATE TABLE outbox_event_dlq (id {id} PRIMARY KEY, original_event_id BIGINT NOT NULL, \
                 event_type {kind}, aggregate_type VARCHAR(100), aggregate_id {aggregate}, payload {payload}, \
                 error_message VARCHAR(255) NOT NULL, failed_at {time}, retry_count INT NOT NULL, \
                 resolved BOOLEAN NOT NULL DEFAULT FALSE, resolved_at {time}, resolved_by VARCHAR(20), \
                 resolution_note TEXT, created_at {time}, updated_at {time})"
            ))
            .await;
    }

    fn event(self) -> NewEvent {
        NewEvent {
            event_type: self.kind.1.into(),
            aggregate_type: "Order".into(),
            aggregate_id: self.aggregate.1.into(),
            payload: self.payload.1.into(),
        }
    }
}

/// Into the table, to a handler, into a letter, found, read, edited, and back.
async fn there_and_back(database: &TestDatabase, types: Types, with_letters: bool) {
    let case = format!("{:?} {types:?} with letters {with_letters}", database.backend);
    let mut client = Client::connect(database).await;
    types.create(&mut client, with_letters).await;
    let outbox = outbox_on(database).await;
    let ids = outbox.append(vec![types.event()]).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let (lease, work) = take_one(&outbox).await;
    assert_eq!(lease.work(), ids[0], "{case}");
    assert_eq!(work.event.origin.0 > 0, lease.work().0 > 0, "{case}");
    let read = (work.event.event_type.as_str(), work.event.key.as_str(), work.event.payload.as_slice());
    assert_eq!(read, (types.kind.1, types.aggregate.1, types.payload.1.as_bytes()), "{case}");
    // Longer than the column: it is cut, and the event is not delivered again and again.
    let long = Failure::transient("Timeout", "é".repeat(2_000));
    let retry = Settlement::Retry { after: common::NOW, failed: failed(&work, &long) };
    assert!(settle(&outbox, vec![(lease, retry)]).await.lost.is_empty(), "{case}");
    assert!(settle(&outbox, dead(vec![take_one(&outbox).await], &long)).await.lost.is_empty(), "{case}");

    let by_key = Filter {
        key: Some(types.aggregate.1.into()),
        event_type: Some(types.kind.1.into()),
        ..Filter::default()
    };
    let letter =
        outbox.list(&by_key, Page::first(10)).await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let letter = letter.letters.into_iter().next().unwrap_or_else(|| panic!("{case}: found by its key"));
    let whole = outbox.get(&letter.id.local).await.unwrap().unwrap();
    assert_eq!(whole.payload, types.payload.1.as_bytes(), "{case}");
    let id = std::slice::from_ref(&letter.id.local);
    let redriven = outbox.redrive(id, &order()).await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert_eq!(redriven.done.len(), 1, "{case}");
    let (lease, again) = take_one(&outbox).await;
    let read = (again.event.event_type.as_str(), again.event.key.as_str(), again.event.payload.as_slice());
    assert_eq!(read, (types.kind.1, types.aggregate.1, types.payload.1.as_bytes()), "{case}");
    assert_eq!(again.event.origin, work.event.origin, "{case}: the key of an event is the same for ever");

    settle(&outbox, dead(vec![(lease, again)], &timeout())).await;
    let letter = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids.pop().unwrap();
    let edited = outbox.redrive_edited(&letter, b"[1]", &order()).await;
    let edited = edited.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert_eq!(edited.done.len(), 1, "{case}: {:?}", edited.refused);
    let claimed = take_one(&outbox).await;
    assert_eq!(claimed.1.event.payload, b"[1]", "{case}");
    assert!(settle(&outbox, done(vec![claimed])).await.lost.is_empty(), "{case}");
}

#[tokio::test]
async fn an_aggregate_id_of_any_type_goes_there_and_back() {
    for backend in testkit::backends(file!()).await.iter().map(|database| database.backend) {
        for aggregate in key_types(backend) {
            let types = Types { aggregate, ..Types::plain(backend) };
            there_and_back(&testkit::fresh(backend, file!()).await.unwrap(), types, true).await;
            there_and_back(&testkit::fresh(backend, file!()).await.unwrap(), types, false).await;
        }
    }
}

#[tokio::test]
async fn a_payload_of_any_type_goes_there_and_back() {
    for backend in testkit::backends(file!()).await.iter().map(|database| database.backend) {
        for payload in payload_types(backend) {
            let types = Types { payload, ..Types::plain(backend) };
            there_and_back(&testkit::fresh(backend, file!()).await.unwrap(), types, true).await;
            there_and_back(&testkit::fresh(backend, file!()).await.unwrap(), types, false).await;
        }
    }
}

#[tokio::test]
async fn an_event_type_an_id_and_times_of_any_type_go_there_and_back() {
    for backend in testkit::backends(file!()).await.iter().map(|database| database.backend) {
        let plain = Types::plain(backend);
        let kinds = key_types(backend).into_iter().map(|kind| Types { kind, ..plain });
        let ids = id_types(backend).into_iter().map(|id| Types { id, ..plain });
        let times = time_types(backend).into_iter().map(|time| Types { time, ..plain });
        for types in kinds.chain(ids).chain(times) {
            there_and_back(&testkit::fresh(backend, file!()).await.unwrap(), types, true).await;
        }
    }
}

#[tokio::test]
async fn a_subject_and_a_payload_of_a_job_of_any_type_go_there_and_back() {
    for backend in testkit::backends(file!()).await.iter().map(|database| database.backend) {
        let plain = Types::plain(backend);
        let subjects = key_types(backend).into_iter().map(|subject| (plain.id, subject, plain.payload));
        let payloads = payload_types(backend).into_iter().map(|payload| (plain.id, plain.aggregate, payload));
        let ids = id_types(backend).into_iter().map(|id| (id, plain.aggregate, plain.payload));
        for (id, subject, payload) in subjects.chain(payloads).chain(ids) {
            let database = testkit::fresh(backend, file!()).await.unwrap();
            job_there_and_back(&database, id, subject, payload).await;
        }
    }
}

async fn job_there_and_back(database: &TestDatabase, id: &str, subject: Sample, payload: Sample) {
    let case = format!("{:?} {id} {subject:?} {payload:?}", database.backend);
    let mut client = Client::connect(database).await;
    let mut status = "VARCHAR(20)";
    if database.backend == Backend::Postgres {
        client.run("CREATE TYPE mood AS ENUM ('happy', 'sad')").await;
        let states = "'pending', 'running', 'completed', 'failed', 'dead_letter'";
        client.run(&format!("CREATE TYPE state AS ENUM ({states})")).await;
        status = "state";
    }
    client
        .run(&format!(
            "CREATE TABLE summarize_job_queue (job_id {id} PRIMARY KEY, article_id {} NOT NULL, \
             status {status} NOT NULL, retry_count INT NOT NULL, max_retries INT NOT NULL, \
             error_message VARCHAR(255), created_at {} NOT NULL, started_at {1}, completed_at {1}, payload {})",
            subject.0,
            Types::plain(database.backend).time,
            payload.0
        ))
        .await;
    let jobs = common::jobs(database, JobsOptions::new("summarize")).await;
    let enqueued = jobs.enqueue(vec![NewJob::new(subject.1, payload.1)]).await;
    let enqueued = enqueued.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(matches!(enqueued[0], Enqueued::Added(_)), "{case}");
    let long = Failure::transient("Timeout", "é".repeat(2_000));
    for _ in 0..2 {
        let (lease, work) = take_one(&jobs).await;
        let read = (work.event.key.as_str(), work.event.payload.as_slice());
        assert_eq!(read, (subject.1, payload.1.as_bytes()), "{case}");
        let retry = Settlement::Retry { after: common::NOW, failed: failed(&work, &long) };
        assert!(settle(&jobs, vec![(lease, retry)]).await.lost.is_empty(), "{case}");
    }
    settle(&jobs, dead(vec![take_one(&jobs).await], &long)).await;
    let by_key = Filter { key: Some(subject.1.into()), ..Filter::default() };
    let letters =
        jobs.list(&by_key, Page::first(10)).await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let letter = letters.letters.into_iter().next().unwrap_or_else(|| panic!("{case}: found by its key"));
    let edited = jobs.redrive_edited(&letter.id.local, b"[1]", &order()).await;
    let edited = edited.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert_eq!(edited.done.len(), 1, "{case}: {:?}", edited.refused);
    let claimed = take_one(&jobs).await;
    assert_eq!(claimed.1.event.payload, b"[1]", "{case}");
    settle(&jobs, done(vec![claimed])).await;
}

#[tokio::test]
async fn a_value_that_a_column_cannot_hold_is_refused_by_the_name_of_the_field() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let plain = Types::plain(database.backend);
        Types { aggregate: ("BIGINT", ""), payload: ("TEXT", ""), ..plain }.create(&mut client, true).await;
        let outbox = outbox_on(&database).await;
        let refused = outbox.append(vec![event("42"), event("forty-two")]).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Refused { item: 1, source } if source.field == "aggregate_id"),
            "{refused}"
        );
        assert_eq!(outbox.backlog().await.unwrap(), 0);
    }
}

/// A TEXT of MySQL holds 65,535 bytes: an event of 20,000 characters was refused, and so was a label with a comma.
#[tokio::test]
async fn what_a_column_of_mysql_holds_is_not_refused() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    let aggregate = ("ENUM('plain', 'a,b', 'it''s')", "");
    Types { aggregate, ..Types::plain(Backend::MySql) }.create(&mut client, false).await;
    let outbox = outbox_on(&database).await;
    let large = |id: &str| NewEvent { payload: "x".repeat(65_535), ..event(id) };
    outbox.append(vec![large("plain")]).await.unwrap();
    outbox.append(vec![event("a,b"), event("it's")]).await.unwrap();
    let refused = outbox.append(vec![NewEvent { payload: "x".repeat(65_536), ..event("plain") }]).await;
    assert!(matches!(refused, Err(Error::Refused { source, .. }) if source.field == "payload"));
}

#[tokio::test]
async fn a_target_with_columns_of_any_type_is_saved_to_and_repeats_are_known() {
    for backend in testkit::backends(file!()).await.iter().map(|database| database.backend) {
        let plain = ("VARCHAR(40)", "x");
        let keys = key_types(backend).into_iter().filter(|(kind, _)| *kind != "TEXT").map(|key| (key, plain));
        let payloads =
            payload_types(backend).into_iter().chain(key_types(backend)).map(|payload| (plain, payload));
        for (key, payload) in keys.chain(payloads) {
            let database = testkit::fresh(backend, file!()).await.unwrap();
            let case = format!("{backend:?} {key:?} {payload:?}");
            let mut client = Client::connect(&database).await;
            if backend == Backend::Postgres {
                client.run("CREATE TYPE mood AS ENUM ('happy', 'sad')").await;
            }
            client
                .run(&format!(
                    "CREATE TABLE urls (short_url {} NOT NULL PRIMARY KEY, long_url {} NOT NULL, \
                     hits INT NOT NULL DEFAULT 0 CHECK (hits >= 0), note TEXT)",
                    key.0, payload.0
                ))
                .await;
            let target = Target::new(common::open(&database).await, &TargetOptions::new("urls")).unwrap();
            target.migrate().await.unwrap();
            let record = |payload: &str| Record {
                key: key.1.into(),
                payload: payload.into(),
                created_at: jiff::Timestamp::now(),
            };
            for _ in 0..2 {
                let conflicts = target.save(&[record(payload.1)]).await;
                let conflicts = conflicts.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert!(conflicts.is_empty(), "{case}: {conflicts:?}");
            }
            let found = target.find(key.1).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(found.as_deref(), Some(payload.1), "{case}");
        }
    }
}

/// A receiver that deduplicates as our guide advises dropped real events: all had the key `app:1`.
#[tokio::test]
async fn the_key_of_an_event_is_never_used_again_in_a_table_that_reuses_ids() {
    let database = testkit::sqlite();
    let mut client = Client::connect(&database).await;
    Types::plain(Backend::Sqlite).create(&mut client, false).await;
    let options = OutboxOptions { processed: Processed::Delete, ..OutboxOptions::new("orders") };
    let outbox = common::outbox(&database, options).await;
    outbox.migrate().await.unwrap();
    let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) \
                  VALUES ('OrderCreated', 'Order', '42', '{}')";
    let (mut keys, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..5 {
        client.run(insert).await;
        let (lease, work) = take_one(&outbox).await;
        ids.insert(lease.work());
        keys.insert(work.event.origin);
        let settlement =
            if round % 2 == 0 { done(vec![(lease, work)]) } else { dead(vec![(lease, work)], &timeout()) };
        settle(&outbox, settlement).await;
    }
    assert_eq!((ids.len(), keys.len()), (1, 5), "one id for all, and a key for each");
    // A redriven event keeps its key, and the books know each of them.
    let letters = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
    assert_eq!(outbox.redrive(&letters, &order()).await.unwrap().done.len(), 2);
    for (lease, work) in take(&outbox, 10, LONG).await {
        assert!(keys.contains(&work.event.origin));
        settle(&outbox, done(vec![(lease, work)])).await;
    }
    let balance = outbox.balance().await.unwrap();
    assert_eq!((balance.accepted, balance.delivered), (2, 2), "{balance:?}");
}

#[tokio::test]
async fn the_key_of_a_job_is_never_used_again_in_a_table_that_reuses_ids() {
    let database = testkit::sqlite();
    let mut client = Client::connect(&database).await;
    client
        .run(
            "CREATE TABLE summarize_job_queue (job_id INTEGER PRIMARY KEY, article_id TEXT, status TEXT DEFAULT 'pending', \
             retry_count INT DEFAULT 0, max_retries INT DEFAULT 3, error_message TEXT, created_at TEXT, started_at TEXT, \
             completed_at TEXT)",
        )
        .await;
    let options =
        JobsOptions { completed: redrive_store::Completed::Delete, ..JobsOptions::new("summarize") };
    let jobs = common::jobs(&database, options).await;
    jobs.migrate().await.unwrap();
    let mut keys = BTreeSet::new();
    for _ in 0..3 {
        client.run("INSERT INTO summarize_job_queue (article_id) VALUES ('a')").await;
        let (lease, work) = take_one(&jobs).await;
        assert_eq!(lease.work().0, 1, "the id is used again");
        keys.insert(work.event.origin);
        settle(&jobs, done(vec![(lease, work)])).await;
    }
    assert_eq!(keys.len(), 3);
}

/// Columns of the application's own: an event that comes back from its letter has them again.
#[tokio::test]
async fn columns_that_redrive_knows_nothing_of_survive_a_dead_letter() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        Types::plain(database.backend).create(&mut client, true).await;
        client.run("ALTER TABLE outbox_event ADD COLUMN tenant VARCHAR(40)").await;
        client.run("ALTER TABLE outbox_event ADD COLUMN region INT NOT NULL DEFAULT 7").await;
        if database.backend == Backend::Postgres {
            client.run("ALTER TABLE outbox_event ALTER COLUMN tenant SET NOT NULL").await;
        }
        let outbox = outbox_on(&database).await;
        client
            .run(
                "INSERT INTO outbox_event (event_type, payload, tenant, region) VALUES ('T', 'x', 'acme', 3)",
            )
            .await;
        settle(&outbox, dead(vec![take_one(&outbox).await], &timeout())).await;
        let letters = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
        assert_eq!(outbox.redrive(&letters, &order()).await.unwrap().done.len(), 1);
        let kept = client.rows("SELECT tenant, region FROM outbox_event").await;
        assert_eq!(kept, [[Some("acme".to_owned()), Some("3".to_owned())]], "{:?}", database.backend);
        if database.backend == Backend::Postgres {
            let refused = outbox.append(vec![event("a")]).await.unwrap_err();
            assert!(refused.to_string().contains("requires tenant"), "{refused}");
        }
    }
}

/// Snowflake ids: the application gives them, and the database has none of its own.
#[tokio::test]
async fn an_event_whose_id_the_application_gives_comes_back_under_it() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let letters = Types::plain(database.backend).id;
        Types { id: "BIGINT", ..Types::plain(database.backend) }.create(&mut client, false).await;
        let given = OutboxOptions { ids: Ids::Unique, ..OutboxOptions::new("orders") };
        let outbox = common::outbox(&database, given).await;
        let id = 7_000_000_000_000_i64;
        client
            .run(&format!("INSERT INTO outbox_event (id, event_type, payload) VALUES ({id}, 'T', 'x')"))
            .await;
        settle(&outbox, dead(vec![take_one(&outbox).await], &timeout())).await;
        let ids = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
        assert_eq!(outbox.redrive(&ids, &order()).await.unwrap().done.len(), 1, "{letters}");
        assert_eq!(take_one(&outbox).await.0.work().0, id, "{:?}", database.backend);
    }
}

async fn columns(client: &mut Client, backend: Backend) -> Vec<Vec<Option<String>>> {
    let query = match backend {
        Backend::Sqlite => "SELECT name, sql FROM sqlite_master ORDER BY 1",
        Backend::Postgres => {
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
        }
        Backend::MySql => {
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1, 2"
        }
    };
    client.rows(query).await
}

/// It failed with `Key column 'resolved' doesn't exist` after the other table had been altered.
#[tokio::test]
async fn tables_that_cannot_be_used_are_refused_whole_with_every_problem() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        Types::plain(database.backend).create(&mut client, false).await;
        client
            .run(
                "CREATE TABLE outbox_event_dlq (id VARCHAR(36) PRIMARY KEY, original_event_id BIGINT, \
                 event_type VARCHAR(100), aggregate_type VARCHAR(100), aggregate_id VARCHAR(100), payload TEXT, \
                 error_message TEXT, failed_at TIMESTAMP, retry_count INT, resolved_at TIMESTAMP NULL, \
                 resolved_by VARCHAR(100), resolution_note VARCHAR(20), created_at TIMESTAMP NULL, \
                 updated_at TIMESTAMP NULL, tenant VARCHAR(40) NOT NULL)",
            )
            .await;
        let before = columns(&mut client, database.backend).await;
        let outbox = Outbox::new(common::open(&database).await, OutboxOptions::new("orders")).unwrap();
        let plan = outbox.plan().await.unwrap();
        let problems = plan.problems.join("\n");
        for expected in [
            "outbox_event_dlq.id is of the type",
            "has no column resolved",
            "ADD COLUMN resolved BOOLEAN",
            "tenant",
        ] {
            assert!(problems.contains(expected), "{:?}: {expected} in {problems}", database.backend);
        }
        assert!(!plan.statements.is_empty());
        let refused = outbox.migrate().await.unwrap_err();
        assert!(matches!(refused, Error::Unsuitable { .. }), "{refused}");
        assert_eq!(columns(&mut client, database.backend).await, before, "nothing was changed");
    }
}

#[tokio::test]
async fn a_plan_changes_nothing_and_is_empty_once_it_was_carried_out() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        let before = columns(&mut client, database.backend).await;
        let open = common::open(&database).await;
        let outbox = Outbox::new(open.clone(), OutboxOptions::new("orders")).unwrap();
        let jobs = Jobs::new(open.clone(), JobsOptions::new("summarize")).unwrap();
        let failed = FailedEvents::new(open, FailedEventsOptions::new("urls")).unwrap();
        let plans = [outbox.plan().await.unwrap(), jobs.plan().await.unwrap(), failed.plan().await.unwrap()];
        assert!(
            plans.iter().all(|plan| plan.problems.is_empty() && !plan.statements.is_empty()),
            "{plans:?}"
        );
        assert_eq!(columns(&mut client, database.backend).await, before);
        outbox.migrate().await.unwrap();
        jobs.migrate().await.unwrap();
        failed.migrate().await.unwrap();
        for plan in [outbox.plan().await.unwrap(), jobs.plan().await.unwrap(), failed.plan().await.unwrap()] {
            assert!(
                plan.statements.is_empty() && plan.problems.is_empty(),
                "{:?}: {plan:?}",
                database.backend
            );
        }
    }
}

/// A table whose columns are changed while redrive runs is looked at again after the first refusal.
#[tokio::test]
async fn a_column_that_gets_another_type_later_is_noticed() {
    let Some(database) = testkit::postgres(file!()).await else { return };
    let outbox = outbox_on(&database).await;
    outbox.append(vec![event("a"), event("b")]).await.unwrap();
    let mut client = Client::connect(&database).await;
    let narrow = "ALTER TABLE outbox_event_dlq ALTER COLUMN error_message TYPE VARCHAR(5)";
    client.run(narrow).await;
    let mut settlements = dead(vec![take(&outbox, 1, LONG).await.remove(0)], &timeout());
    assert!(outbox.turn(&mut settlements, None).await.is_err(), "the statement is older than the column");
    assert!(outbox.turn(&mut settlements, None).await.unwrap().lost.is_empty());
}

async fn enqueue_in(jobs: &Jobs, client: &mut Client, job: &NewJob) -> Enqueued {
    let enqueued = match client {
        Client::Sqlite(connection) => jobs.enqueue_in(&mut *connection, job).await,
        Client::Postgres(connection) => jobs.enqueue_in(&mut *connection, job).await,
        Client::MySql(connection) => jobs.enqueue_in(&mut *connection, job).await,
    };
    enqueued.unwrap()
}

/// On Postgres the second one aborted the caller's transaction.
#[tokio::test]
async fn a_duplicate_in_the_applications_transaction_leaves_it_usable() {
    for database in testkit::backends(file!()).await {
        let jobs = common::jobs(&database, JobsOptions::new("summarize")).await;
        let job = NewJob { unique_key: Some("only".into()), ..NewJob::new("a", "{}") };
        let mut client = Client::connect(&database).await;
        client.run("CREATE TABLE business (id INT)").await;
        client.run("BEGIN").await;
        assert!(matches!(enqueue_in(&jobs, &mut client, &job).await, Enqueued::Added(_)));
        assert_eq!(enqueue_in(&jobs, &mut client, &job).await, Enqueued::Duplicate, "{:?}", database.backend);
        client.run("INSERT INTO business VALUES (1)").await;
        client.run("COMMIT").await;
        assert_eq!(client.number("SELECT count(*) FROM business").await, 1);
        assert_eq!(jobs.backlog().await.unwrap(), 1);
    }
}

/// The address of the same database for another user, who has no password.
fn as_user(database: &TestDatabase, user: &str) -> String {
    let (scheme, rest) = database.url.split_once("://").unwrap();
    let (_, place) = rest.split_once('@').unwrap();
    format!("{scheme}://{user}@{place}")
}

/// A role without CREATE needed a grant on `public.redrive_request`, which nothing said, although its tables were
/// elsewhere. The grants are those that `redrive migrate --grants` prints, and no others.
#[tokio::test]
async fn the_printed_grants_are_enough_once_the_tables_are_there() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let user = format!("u_{}", &database.url[database.url.len() - 12..]);
        let schema = match database.backend {
            Backend::MySql => client.column("SELECT DATABASE()").await.remove(0),
            _ => "shop".to_owned(),
        };
        let outbox = OutboxOptions {
            table: format!("{schema}.outbox_event"),
            letters_table: format!("{schema}.outbox_event_dlq"),
            ..OutboxOptions::new("orders")
        };
        let mails = JobsOptions { table: format!("{schema}.mails_job_queue"), ..JobsOptions::new("mails") };
        let failed = FailedEventsOptions {
            table: format!("{schema}.failed_events"),
            ..FailedEventsOptions::new("urls")
        };
        let target = TargetOptions { table: format!("{schema}.urls"), ..TargetOptions::new("urls") };
        if database.backend == Backend::Postgres {
            client.run("CREATE SCHEMA shop").await;
            client.run("REVOKE ALL ON SCHEMA public FROM PUBLIC").await;
        }
        let owner = common::open(&database).await;
        let owned_outbox = common::outbox(&database, outbox.clone()).await;
        let owned_jobs = common::jobs(&database, mails.clone()).await;
        let owned_events = FailedEvents::new(owner.clone(), failed.clone()).unwrap();
        owned_events.migrate().await.unwrap();
        let owned_target = Target::new(owner, &target).unwrap();
        owned_target.migrate().await.unwrap();
        let host = if database.backend == Backend::MySql { "@'127.0.0.1'" } else { "" };
        match database.backend {
            Backend::MySql => client.run(&format!("CREATE USER {user}{host}")).await,
            _ => client.run(&format!("CREATE ROLE {user} LOGIN")).await,
        }
        let role =
            if database.backend == Backend::MySql { format!("{user}@127.0.0.1") } else { user.clone() };
        let plan = owned_outbox.plan().await.unwrap().and(owned_jobs.plan().await.unwrap());
        let plan = plan.and(owned_events.plan().await.unwrap()).and(owned_target.plan().await.unwrap());
        assert!(plan.problems.is_empty() && plan.statements.is_empty(), "{plan:?}");
        for grant in &plan.grants {
            client.run(grant.to(&role).trim_end_matches(';')).await;
        }

        let limited = redrive_store::Database::connect(&as_user(&database, &user)).await.unwrap();
        let outbox = Outbox::new(limited.clone(), outbox).unwrap();
        outbox
            .migrate()
            .await
            .unwrap_or_else(|error| panic!("{:?}: nothing to change: {error}", database.backend));
        // A right that is taken away is missed before it is needed.
        client.run(&format!("REVOKE UPDATE ON {schema}.outbox_event_dlq FROM {user}{host}")).await;
        let missed = outbox.plan().await.unwrap().problems.join("\n");
        assert!(missed.contains("lacks UPDATE") && missed.contains("GRANT UPDATE ON"), "{missed:?}");
        assert!(matches!(outbox.migrate().await, Err(Error::Unsuitable { .. })));
        client.run(&format!("GRANT UPDATE ON {schema}.outbox_event_dlq TO {user}{host}")).await;
        let key = redrive_store::RequestKey { operator: common::operator(), key: "k".into() };
        outbox.append_once(&[event("a")], &key).await.unwrap();
        settle(&outbox, dead(vec![take_one(&outbox).await], &timeout())).await;
        let letters = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
        assert_eq!(outbox.redrive(&letters, &order()).await.unwrap().done.len(), 1, "{:?}", database.backend);
        settle(&outbox, done(vec![take_one(&outbox).await])).await;
        let jobs = Jobs::new(limited.clone(), mails).unwrap();
        jobs.migrate().await.unwrap();
        jobs.enqueue(vec![NewJob::new("a", "{}")]).await.unwrap();
        settle(&jobs, dead(vec![take_one(&jobs).await], &timeout())).await;
        let failed = FailedEvents::new(limited.clone(), failed).unwrap();
        failed.migrate().await.unwrap();
        let now = jiff::Timestamp::now();
        failed.append(&[FailedEvent::new("k", "v", now, now, timeout())]).await.unwrap();
        settle(&failed, done(vec![take_one(&failed).await])).await;
        let target = Target::new(limited, &target).unwrap();
        target.migrate().await.unwrap();
        let record = Record { key: "k".into(), payload: "v".into(), created_at: now };
        assert!(target.save(std::slice::from_ref(&record)).await.unwrap().is_empty());
        assert!(target.save(&[record]).await.unwrap().is_empty(), "again, after an answer that was lost");
    }
}

/// `serve` needed the right to create tables in the current schema.
#[tokio::test]
async fn tables_of_redrives_own_are_in_the_schema_that_one_names() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let schema = format!("own_{}", &database.url[database.url.len() - 12..]);
        if database.backend == Backend::MySql {
            // A database of MySQL's, which only an administrator can make; its name is all that differs.
            client.run(&format!("CREATE DATABASE IF NOT EXISTS {schema}")).await;
        }
        let opened = common::open(&database).await.with_own_schema(&schema).unwrap();
        let outbox = Outbox::new(opened.clone(), OutboxOptions::new("orders")).unwrap();
        outbox.migrate().await.unwrap();
        let audit = redrive_store::Audit::new(opened.clone());
        let planned = audit.plan().await.unwrap();
        assert!(planned.grants[0].to("app").contains(&schema), "{planned:?}");
        audit.migrate().await.unwrap();
        assert!(audit.plan().await.unwrap().statements.is_empty(), "{:?}", database.backend);
        let letters =
            redrive_store::Letters::new(opened, "intake", redrive_core::dead_letter::PipelineKind::Intake);
        letters.migrate().await.unwrap();
        let key = redrive_store::RequestKey { operator: common::operator(), key: "k".into() };
        outbox.append_once(&[event("a")], &key).await.unwrap();
        let of_schema = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}' ORDER BY table_name"
        );
        let found = client.column(&of_schema).await;
        assert_eq!(found, ["redrive_audit", "redrive_letter", "redrive_request"], "{:?}", database.backend);
        client
            .run(&format!(
                "DROP SCHEMA {schema}{}",
                if database.backend == Backend::MySql { "" } else { " CASCADE" }
            ))
            .await;
    }
}

/// A statement about a table.
type Sql = fn(&str) -> String;

/// A trigger of the application's own that drops a row without an error: the event was gone from the outbox and in no
/// letter, a redriven letter was closed and nowhere, an append was answered with no id.
#[tokio::test]
async fn a_row_that_a_trigger_drops_in_silence_loses_nothing() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        let outbox = outbox_on(&database).await;
        let (begin, end): (Sql, Sql) = match database.backend {
            Backend::MySql => continue, // Its triggers cannot do so.
            Backend::Postgres => {
                client
                    .run("CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
                    .await;
                (
                    |table| {
                        format!(
                            "CREATE TRIGGER dropping BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION drop_it()"
                        )
                    },
                    |table| format!("DROP TRIGGER dropping ON {table}"),
                )
            }
            Backend::Sqlite => (
                |table| {
                    format!(
                        "CREATE TRIGGER dropping BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
                    )
                },
                |_| "DROP TRIGGER dropping".to_owned(),
            ),
        };
        outbox.append(vec![event("a")]).await.unwrap();
        client.run(&begin("outbox_event_dlq")).await;
        let claimed = take_one(&outbox).await;
        let mut settlements = dead(vec![claimed], &timeout());
        let refused = outbox.turn(&mut settlements, None).await.unwrap_err();
        assert!(!refused.is_unavailable() && refused.to_string().contains("without an error"), "{refused}");
        assert_eq!(client.number("SELECT count(*) FROM outbox_event").await, 1, "{:?}", database.backend);
        client.run(&end("outbox_event_dlq")).await;
        assert!(settle(&outbox, settlements).await.lost.is_empty(), "it is still held");

        client.run(&begin("outbox_event")).await;
        let letters = outbox.ids(&Filter::default(), None, 10).await.unwrap().ids;
        assert!(outbox.redrive(&letters, &order()).await.is_err());
        assert_eq!(
            outbox.list(&Filter::default(), Page::first(1)).await.unwrap().letters.len(),
            1,
            "still open"
        );
        assert!(outbox.append(vec![event("b")]).await.is_err());
        client.run(&end("outbox_event")).await;
        assert_eq!(outbox.redrive(&letters, &order()).await.unwrap().done.len(), 1);
    }
}

/// Each passed a migration, and then work was never claimed, never settled, or not safe from a crash.
#[tokio::test]
async fn what_cannot_be_claimed_safely_is_refused_before_anything_is_changed() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        client.run("CREATE VIEW all_events AS SELECT * FROM outbox_event").await;
        let options = OutboxOptions { table: "all_events".into(), ..OutboxOptions::new("orders") };
        let open = common::open(&database).await;
        let of_view = Outbox::new(open.clone(), options).unwrap().plan().await.unwrap().problems.join("\n");
        assert!(of_view.contains("all_events is a view"), "{:?}: {of_view}", database.backend);
        if database.backend == Backend::MySql {
            client.run("ALTER TABLE summarize_job_queue ENGINE = MyISAM").await;
            let jobs = Jobs::new(open.clone(), JobsOptions::new("summarize")).unwrap();
            let problems = jobs.plan().await.unwrap().problems.join("\n");
            assert!(problems.contains("MyISAM") && problems.contains("ENGINE = InnoDB"), "{problems}");
        }
        if database.backend == Backend::Postgres {
            client.run("ALTER TABLE outbox_event ALTER COLUMN processed DROP NOT NULL").await;
            client.run("ALTER TABLE outbox_event ALTER COLUMN processed DROP DEFAULT").await;
            let outbox = Outbox::new(open, OutboxOptions::new("orders")).unwrap();
            let problems = outbox.plan().await.unwrap().problems.join("\n");
            assert!(
                problems.contains("processed may be NULL") && problems.contains("SET DEFAULT FALSE"),
                "{problems}"
            );
        }
    }
}

/// Rows that row-level security hides were never delivered, and every screen said that all was well; a sequence that
/// the table does not own was no part of the grants.
#[tokio::test]
async fn hidden_rows_and_foreign_sequences_are_found() {
    let Some(database) = testkit::postgres(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    client.run("CREATE SCHEMA elsewhere").await;
    client.run("CREATE SEQUENCE elsewhere.numbers").await;
    outbox_on(&database).await;
    client.run("ALTER TABLE outbox_event ALTER COLUMN id DROP IDENTITY").await;
    client.run("ALTER TABLE outbox_event ALTER COLUMN id SET DEFAULT nextval('elsewhere.numbers')").await;
    let user = format!("u_{}", &database.url[database.url.len() - 12..]);
    client.run(&format!("CREATE ROLE {user} LOGIN")).await;
    let plan = outbox_on(&database).await.plan().await.unwrap();
    let grants: Vec<String> = plan.grants.iter().map(|grant| grant.to(&user)).collect();
    assert!(grants.iter().any(|grant| grant.contains("SEQUENCE elsewhere.numbers")), "{grants:?}");
    for grant in &grants {
        client.run(grant.trim_end_matches(';')).await;
    }
    let limited = redrive_store::Database::connect(&as_user(&database, &user)).await.unwrap();
    let outbox = Outbox::new(limited, OutboxOptions::new("orders")).unwrap();
    outbox.append(vec![event("a")]).await.unwrap();
    client.run("ALTER TABLE outbox_event ENABLE ROW LEVEL SECURITY").await;
    let problems = outbox.plan().await.unwrap().problems;
    let fix = problems.first().and_then(|problem| problem.split_once(": ")).unwrap().1;
    assert!(problems[0].contains("row-level security"), "{problems:?}");
    client.run(fix.trim_end_matches(';')).await;
    assert_eq!(outbox.plan().await.unwrap().problems, Vec::<String>::new());
    assert_eq!(take(&outbox, 10, LONG).await.len(), 1);
}

/// A right that is missing was an outage of MySQL's: "not available, try again".
#[tokio::test]
async fn a_missing_right_to_delete_is_no_outage_of_mysql() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    let plan = outbox_on(&database).await.plan().await.unwrap();
    let user = format!("u_{}", &database.url[database.url.len() - 12..]);
    client.run(&format!("CREATE USER {user}@'127.0.0.1'")).await;
    for grant in &plan.grants {
        client.run(grant.to(&format!("{user}@127.0.0.1")).trim_end_matches(';')).await;
    }
    client.run(&format!("REVOKE DELETE ON outbox_event FROM {user}@'127.0.0.1'")).await;
    let limited = redrive_store::Database::connect(&as_user(&database, &user)).await.unwrap();
    let outbox = Outbox::new(limited, OutboxOptions::new("orders")).unwrap();
    let problems = outbox.plan().await.unwrap().problems;
    assert!(
        problems.len() == 1
            && problems[0].contains("lacks DELETE on")
            && problems[0].contains("GRANT DELETE"),
        "{problems:?}"
    );
    outbox.append(vec![event("a")]).await.unwrap();
    let mut settlements = dead(vec![take_one(&outbox).await], &timeout());
    let refused = outbox.turn(&mut settlements, None).await.unwrap_err();
    assert_eq!(refused.reason(), redrive_store::Reason::TableRefused, "{refused}");
}

/// A plan that had no problems failed half-way (`relation already exists`), or was carried out without the index that
/// claims are quick by.
#[tokio::test]
async fn indexes_that_have_the_names_of_redrives_are_found_before_anything_is_changed() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        client.run("CREATE TABLE other (a INT)").await;
        client.run("CREATE INDEX outbox_event_due ON other (a)").await;
        client.run("CREATE INDEX summarize_job_queue_due ON summarize_job_queue (created_at)").await;
        let open = common::open(&database).await;
        let outbox = Outbox::new(open.clone(), OutboxOptions::new("orders")).unwrap();
        let problems = outbox.plan().await.unwrap().problems.join("\n");
        // MySQL's indexes have their names to themselves in each table.
        let is_taken = problems.contains("outbox_event_due") && problems.contains("an index of other");
        assert_eq!(is_taken, database.backend != Backend::MySql, "{problems}");
        let jobs = Jobs::new(open, JobsOptions::new("summarize")).unwrap();
        let problems = jobs.plan().await.unwrap().problems.join("\n");
        assert!(
            problems.contains("summarize_job_queue_due of summarize_job_queue is over (created_at)"),
            "{:?}: {problems}",
            database.backend
        );
        let drop = problems.rsplit_once("then ").unwrap().1;
        client.run(drop.trim_end_matches(';')).await;
        jobs.migrate().await.unwrap();
        assert_eq!(jobs.plan().await.unwrap(), jobs.plan().await.unwrap());
        assert!(jobs.plan().await.unwrap().statements.is_empty(), "{:?}", database.backend);
    }
}

/// It showed when the first job died, in the middle of the night.
#[tokio::test]
async fn a_constraint_that_refuses_a_status_is_found_before_anything_is_changed() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        original_tables(&mut client, database.backend).await;
        let lists = "CHECK (status IN ('pending', 'running', 'completed', 'failed'))";
        let looks_elsewhere = "CHECK (status <> 'completed' OR completed_at IS NOT NULL)";
        if database.backend == Backend::Sqlite {
            client.run("DROP TABLE summarize_job_queue").await;
            client
                .run(&format!(
                    "CREATE TABLE summarize_job_queue (job_id INTEGER PRIMARY KEY AUTOINCREMENT, article_id TEXT NOT NULL, \
                     status TEXT NOT NULL CONSTRAINT known {lists}, retry_count INT NOT NULL, max_retries INT NOT NULL, \
                     error_message TEXT, created_at DATETIME NOT NULL, started_at DATETIME, completed_at DATETIME, \
                     {looks_elsewhere})"
                ))
                .await;
        } else {
            client.run(&format!("ALTER TABLE summarize_job_queue ADD CONSTRAINT known {lists}")).await;
            client
                .run(&format!("ALTER TABLE summarize_job_queue ADD CONSTRAINT done {looks_elsewhere}"))
                .await;
        }
        let open = common::open(&database).await;
        let jobs = Jobs::new(open.clone(), JobsOptions::new("summarize")).unwrap();
        let problems = jobs.plan().await.unwrap().problems;
        assert!(
            problems.len() == 1 && problems[0].contains("refuses dead_letter: "),
            "{:?}: {problems:?}",
            database.backend
        );
        if database.backend != Backend::Sqlite {
            let drop = problems[0].rsplit_once("or ").unwrap().1;
            client.run(drop.trim_end_matches(';')).await;
            jobs.migrate().await.unwrap();
        }
        let events = FailedEvents::new(open, FailedEventsOptions::new("urls")).unwrap();
        assert_eq!(events.plan().await.unwrap().problems, Vec::<String>::new());
    }
}

/// The whole pipeline stopped, as if the store were away.
#[tokio::test]
async fn a_number_that_is_too_large_for_redrive_stops_nothing_else() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    let types = Types { id: "BIGINT UNSIGNED", ..Types::plain(database.backend) };
    types.create(&mut client, false).await;
    let given = OutboxOptions { ids: Ids::Unique, ..OutboxOptions::new("orders") };
    let outbox = common::outbox(&database, given).await;
    assert_eq!(outbox.plan().await.unwrap().unserved, Vec::<String>::new());
    for id in ["18446744073709551615", "7"] {
        client
            .run(&format!(
                "INSERT INTO outbox_event (id, event_type, aggregate_type, aggregate_id, payload) \
                 VALUES ({id}, 'OrderCreated', 'Order', '42', '{{}}')"
            ))
            .await;
    }
    let claimed = take(&outbox, 10, LONG).await;
    assert_eq!(claimed.iter().map(|(lease, _)| lease.work().0).collect::<Vec<_>>(), [7]);
    assert!(settle(&outbox, done(claimed)).await.lost.is_empty());
    let unserved = outbox.plan().await.unwrap().unserved;
    assert!(unserved.len() == 1 && unserved[0].contains("18446744073709551615"), "{unserved:?}");
    outbox.migrate().await.unwrap();
}

async fn problems_of_outbox(database: &TestDatabase, ids: Ids) -> String {
    let options = OutboxOptions { ids, ..OutboxOptions::new("orders") };
    let outbox = Outbox::new(common::open(database).await, options).unwrap();
    outbox.plan().await.unwrap().problems.join("\n")
}

/// Two rows with one number were settled as one: an event that was never tried counted as delivered.
#[tokio::test]
async fn a_table_whose_rows_may_share_a_number_is_refused() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        let columns = "event_type VARCHAR(100) NOT NULL, aggregate_type VARCHAR(100), aggregate_id VARCHAR(100), \
                       payload TEXT, processed BOOLEAN NOT NULL DEFAULT FALSE, processed_at TIMESTAMP NULL, \
                       error_message TEXT, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NULL, \
                       updated_at TIMESTAMP NULL";
        let ids: &[&str] = match database.backend {
            Backend::Sqlite => &["id INTEGER NOT NULL", "id INTEGER PRIMARY KEY DESC"],
            _ => &["id BIGINT NOT NULL", "tenant INT NOT NULL, id BIGINT NOT NULL, UNIQUE (id, tenant)"],
        };
        for id in ids {
            client.run("DROP TABLE IF EXISTS outbox_event").await;
            client.run(&format!("CREATE TABLE outbox_event ({id}, {columns})")).await;
            let problems = problems_of_outbox(&database, Ids::Unique).await;
            let expected =
                if id.contains("DESC") { "number of the row" } else { "no unique index of its own" };
            assert!(problems.contains(expected), "{:?}, {id}: {problems}", database.backend);
        }
        if database.backend != Backend::Sqlite {
            let problems = problems_of_outbox(&database, Ids::Unique).await;
            let create = problems.split_once(": ").unwrap().1.split_once("; (").unwrap().0;
            client.run(create).await;
            assert_eq!(problems_of_outbox(&database, Ids::Unique).await, "", "{:?}", database.backend);
        }
    }
}

/// `max(id) + 1` gives the number of a deleted event to the next: receivers that deduplicate dropped real events.
#[tokio::test]
async fn ids_of_the_application_are_refused_until_it_says_that_they_are_unique() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        Types { id: "BIGINT", ..Types::plain(database.backend) }.create(&mut client, false).await;
        assert_eq!(problems_of_outbox(&database, Ids::Unique).await, "");
        let problems = problems_of_outbox(&database, Ids::Generated).await;
        assert!(problems.contains("ids = \"unique\""), "{:?}: {problems}", database.backend);
        if database.backend == Backend::Postgres {
            client.run("ALTER TABLE outbox_event ALTER COLUMN id SET NOT NULL").await;
        }
        let alter = problems.split_once("let the database give it: ").unwrap().1.split_once(';').unwrap().0;
        client.run(alter).await;
        assert_eq!(problems_of_outbox(&database, Ids::Generated).await, "", "{:?}", database.backend);
    }
}

/// A job died without its handler being called, or stayed `running` for ever, and every screen said that all was well.
#[tokio::test]
async fn columns_that_have_the_names_of_redrives_and_other_types_are_refused() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        let number = if database.backend == Backend::Sqlite { "BLOB" } else { "INT" };
        for (column, kind) in [
            ("lease", "TEXT"),
            ("priority", "VARCHAR(10)"),
            ("interrupted", "TEXT"),
            ("leased_by", number),
            ("history", number),
        ] {
            client.run("DROP TABLE IF EXISTS summarize_job_queue").await;
            client.run("DROP TABLE IF EXISTS outbox_event").await;
            client.run("DROP TABLE IF EXISTS outbox_event_dlq").await;
            client.run("DROP TABLE IF EXISTS failed_events").await;
            original_tables(&mut client, database.backend).await;
            client.run(&format!("ALTER TABLE summarize_job_queue ADD COLUMN {column} {kind}")).await;
            let jobs = Jobs::new(common::open(&database).await, JobsOptions::new("summarize")).unwrap();
            let problems = jobs.plan().await.unwrap().problems;
            let is_named =
                |problem: &String| problem.contains(&format!("summarize_job_queue.{column} is of the type"));
            assert!(
                problems.len() == 1 && problems.iter().all(is_named),
                "{:?}, {column}: {problems:?}",
                database.backend
            );
        }
    }
}

/// An event was delivered again and again, because the message of its failure had a character that the table lacks.
#[tokio::test]
async fn a_message_with_characters_that_the_table_lacks_ends_all_the_same() {
    let Some(database) = testkit::mysql(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    original_tables(&mut client, database.backend).await;
    client.run("ALTER TABLE outbox_event CONVERT TO CHARACTER SET latin1").await;
    client.run("ALTER TABLE outbox_event_dlq CONVERT TO CHARACTER SET latin1").await;
    client.run("ALTER TABLE outbox_event MODIFY error_message TEXT CHARACTER SET ascii").await;
    client
        .run("ALTER TABLE outbox_event_dlq MODIFY error_message VARCHAR(200) CHARACTER SET latin1 NOT NULL")
        .await;
    let outbox = outbox_on(&database).await;
    outbox.append(vec![event("42")]).await.unwrap();
    let failure = Failure::permanent("Refused", "über ✗ 😀");
    settle(&outbox, dead(vec![take_one(&outbox).await], &failure)).await;
    let letter = outbox.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0);
    assert!(letter.failure.message.contains("über ? ?"), "{:?}", letter.failure.message);
    client.run("ALTER TABLE outbox_event MODIFY payload TEXT CHARACTER SET utf8mb4 NOT NULL").await;
    let problems = outbox.plan().await.unwrap().problems.join("\n");
    assert!(problems.contains("payload has the character set latin1"), "{problems}");
}

/// Events that were answered with 202 were nowhere.
#[tokio::test]
async fn failed_events_and_jobs_that_a_trigger_drops_in_silence_are_refused() {
    for database in testkit::backends(file!()).await {
        if database.backend == Backend::MySql {
            // Its triggers cannot drop a row.
            continue;
        }
        let now = jiff::Timestamp::now();
        let events =
            FailedEvents::new(common::open(&database).await, FailedEventsOptions::new("urls")).unwrap();
        events.migrate().await.unwrap();
        let jobs = common::jobs(&database, JobsOptions::new("summarize")).await;
        let mut client = Client::connect(&database).await;
        if database.backend == Backend::Postgres {
            client
                .run("CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
                .await;
        }
        for table in ["failed_events", "summarize_job_queue"] {
            client
                .run(&match database.backend {
                    Backend::Sqlite => {
                        format!("CREATE TRIGGER silent_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
                    }
                    _ => format!(
                        "CREATE TRIGGER silent BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION drop_row()"
                    ),
                })
                .await;
        }
        let refused = events.append(&[FailedEvent::new("k", "v", now, now, timeout())]).await.unwrap_err();
        assert!(refused.to_string().contains("drops rows"), "{:?}: {refused}", database.backend);
        let refused = jobs.enqueue(vec![NewJob::new("article-7", "{}")]).await.unwrap_err();
        assert!(refused.to_string().contains("drops rows"), "{:?}: {refused}", database.backend);
    }
}

/// Its blanks were part of the type, so no handler was found for it.
#[tokio::test]
async fn blanks_at_the_end_of_a_char_column_are_no_part_of_the_event_type() {
    let Some(database) = testkit::postgres(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    original_tables(&mut client, database.backend).await;
    client.run("ALTER TABLE outbox_event ALTER COLUMN event_type TYPE CHAR(40)").await;
    let outbox = outbox_on(&database).await;
    outbox.append(vec![event("42")]).await.unwrap();
    let (lease, work) = take_one(&outbox).await;
    assert_eq!(work.event.event_type, event("42").event_type);
    settle(&outbox, dead(vec![(lease, work)], &timeout())).await;
    let letter = outbox.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0);
    assert_eq!(letter.event_type, event("42").event_type);
}
