//! Migrations: again and again, many at once, and on tables that an application made itself.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use common::{LONG, dead, done, event, jobs, open, order, outbox, settle, take, take_one, timeout};
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Page, PipelineKind, Status};
use redrive_store::{
    Audit, Database, Enqueued, Error, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, Letters, NewJob,
    Operations, Ordering, Outbox, OutboxOptions, WorkStore as _,
};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};

/// Everything that redrive keeps, with its tables.
async fn migrate_all(database: &Database) -> Result<(), Error> {
    let ordered = OutboxOptions { ordering: Ordering::AggregateHold, ..OutboxOptions::new("orders") };
    Outbox::new(database.clone(), ordered)?.migrate().await?;
    Jobs::new(database.clone(), JobsOptions::new("summarize"))?.migrate().await?;
    FailedEvents::new(database.clone(), FailedEventsOptions::new("urls"))?.migrate().await?;
    Letters::new(database.clone(), "intake", PipelineKind::Intake).migrate().await?;
    Letters::new(database.clone(), "logs", PipelineKind::Kafka).migrate().await?;
    Operations::new(database.clone()).migrate().await?;
    Audit::new(database.clone()).migrate().await
}

/// Every column and index that there is.
async fn shape(database: &TestDatabase) -> Vec<Vec<Option<String>>> {
    let mut client = Client::connect(database).await;
    let queries = match database.backend {
        Backend::Sqlite => vec!["SELECT name, sql FROM sqlite_master ORDER BY 1"],
        Backend::Postgres => vec![
            "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns \
             WHERE table_schema = 'public' ORDER BY 1, 2",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
        ],
        Backend::MySql => vec![
            "SELECT table_name, column_name, column_type, column_default FROM information_schema.columns \
             WHERE table_schema = DATABASE() ORDER BY 1, 2",
            "SELECT table_name, index_name, column_name FROM information_schema.statistics \
             WHERE table_schema = DATABASE() ORDER BY 1, 2, seq_in_index",
        ],
    };
    let mut shape = Vec::new();
    for query in queries {
        shape.extend(client.rows(query).await);
    }
    shape
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    for database in testkit::backends(file!()).await {
        let store = open(&database).await;
        migrate_all(&store).await.unwrap();
        let first = shape(&database).await;
        assert!(first.len() > 30);
        migrate_all(&store).await.unwrap();
        assert_eq!(shape(&database).await, first);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_instances_that_start_together_make_the_tables_once() {
    for database in testkit::backends(file!()).await {
        let start = |_| {
            let url = database.url.clone();
            tokio::spawn(async move { migrate_all(&Database::open(&url).unwrap()).await })
        };
        let instances: Vec<_> = (0..8).map(start).collect();
        for instance in instances {
            instance.await.unwrap().unwrap();
        }
        migrate_all(&open(&database).await).await.unwrap();
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        outbox.append(vec![event("a")]).await.unwrap();
        settle(&outbox, done(vec![take_one(&outbox).await])).await;
    }
}

/// The founding tables, as an application made them: these columns and no others.
async fn founding_tables(client: &mut Client, backend: Backend) {
    let (id, time) = match backend {
        Backend::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "DATETIME"),
        Backend::Postgres => ("BIGSERIAL PRIMARY KEY", "TIMESTAMP"),
        Backend::MySql => ("BIGINT AUTO_INCREMENT PRIMARY KEY", "DATETIME"),
    };
    for table in [
        format!(
            "outbox_event (id {id}, event_type VARCHAR(100), aggregate_type VARCHAR(100), \
             aggregate_id VARCHAR(255), payload TEXT, processed BOOLEAN DEFAULT FALSE, \
             processed_at {time} NULL, error_message TEXT NULL, retry_count INT DEFAULT 0, \
             created_at {time}, updated_at {time})"
        ),
        format!(
            "outbox_event_dlq (id {id}, original_event_id BIGINT, event_type VARCHAR(100), \
             aggregate_type VARCHAR(100), aggregate_id VARCHAR(255), payload TEXT, \
             error_message TEXT NOT NULL, failed_at {time}, retry_count INT, \
             resolved BOOLEAN DEFAULT FALSE, resolved_at {time} NULL, resolved_by VARCHAR(100) NULL, \
             resolution_note TEXT NULL, created_at {time}, updated_at {time})"
        ),
        format!(
            "summarize_job_queue (job_id {id}, article_id VARCHAR(255), status VARCHAR(20) DEFAULT 'pending', \
             retry_count INT DEFAULT 0, max_retries INT DEFAULT 3, error_message TEXT, created_at {time}, \
             started_at {time}, completed_at {time})"
        ),
        format!(
            "failed_events (id {id}, short_url VARCHAR(255) NOT NULL, long_url TEXT NOT NULL, \
             created_at BIGINT NOT NULL, failed_at BIGINT NOT NULL, retry_count INT NOT NULL DEFAULT 0, \
             last_error TEXT, status VARCHAR(50) NOT NULL DEFAULT 'PENDING')"
        ),
    ] {
        client.run(&format!("CREATE TABLE {table}")).await;
    }
}

const INSERT_EVENT: &str = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) \
                            VALUES ('OrderCreated', 'Order', '42', '{}')";

#[tokio::test]
async fn an_outbox_of_the_applications_own_is_adopted_with_its_rows() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        founding_tables(&mut client, database.backend).await;
        client.run(INSERT_EVENT).await;
        client
            .run("INSERT INTO outbox_event (event_type, payload, processed) VALUES ('Old', 'x', TRUE)")
            .await;
        client.run("INSERT INTO outbox_event (payload, retry_count) VALUES ('explicit NULL', NULL)").await;
        client
            .run(
                "INSERT INTO outbox_event_dlq (original_event_id, event_type, aggregate_type, aggregate_id, payload, \
                 error_message, failed_at) VALUES (7, 'OrderCreated', 'Order', '7', '{}', 'it broke', \
                 '2026-01-02 03:04:05'), (8, NULL, NULL, NULL, NULL, 'it broke', '2026-01-02 03:04:05')",
            )
            .await;
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        client.run(INSERT_EVENT).await;
        let claimed = take(&outbox, 10, LONG).await;
        assert_eq!(claimed.len(), 3, "{:?}: old and new, but not what was processed", database.backend);
        assert!(claimed.iter().all(|(_, work)| work.retry_count == 0 && !work.interrupted));
        settle(&outbox, dead(claimed, &timeout())).await;

        let listing = outbox.list(&Filter::default(), Page::first(10)).await.unwrap().letters;
        assert_eq!(listing.len(), 5, "its letters are there, too");
        assert_eq!(outbox.stats().await.unwrap().count(Status::Open), 5);
        let groups = outbox.groups(10).await.unwrap();
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 5);
        for group in groups {
            let members = Filter { group: Some(group.fingerprint), ..Filter::default() };
            let members = outbox.list(&members, Page::first(10)).await.unwrap().letters;
            assert_eq!(members.len() as u64, group.count);
        }
        let ids: Vec<String> = listing.into_iter().map(|letter| letter.id.local).collect();
        for id in &ids {
            assert!(outbox.get(id).await.unwrap().is_some());
        }
        assert_eq!(outbox.redrive(&ids, &order()).await.unwrap().done.len(), 5);
        assert_eq!(take(&outbox, 10, LONG).await.len(), 5);
    }
}

/// Applications have JSON, UUIDs and numbers where ours has text, and times that never come.
#[tokio::test]
async fn columns_of_other_types_are_handed_out_as_text() {
    let Some(database) = testkit::postgres(file!()).await else { return };
    let mut client = Client::connect(&database).await;
    client
        .run(
            "CREATE TABLE outbox_event (id BIGSERIAL PRIMARY KEY, event_type TEXT, aggregate_type TEXT, \
             aggregate_id UUID, payload JSONB, processed BOOLEAN DEFAULT FALSE, processed_at TIMESTAMPTZ, \
             error_message TEXT, retry_count INT DEFAULT 0, created_at TIMESTAMPTZ DEFAULT now(), \
             updated_at TIMESTAMPTZ DEFAULT now())",
        )
        .await;
    client
        .run(
            "CREATE TABLE mails_job_queue (job_id BIGSERIAL PRIMARY KEY, article_id BIGINT, \
             status VARCHAR(20) DEFAULT 'pending', retry_count INT DEFAULT 0, max_retries INT DEFAULT 3, \
             error_message TEXT, created_at TIMESTAMPTZ DEFAULT now(), started_at TIMESTAMPTZ, \
             completed_at TIMESTAMPTZ, payload JSONB)",
        )
        .await;
    let outbox = outbox(&database, OutboxOptions::new("orders")).await;
    let jobs = jobs(&database, JobsOptions::new("mails")).await;
    let uuid = "6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11";
    let long = "T".repeat(150);
    client
        .run(&format!(
            "INSERT INTO outbox_event (event_type, aggregate_id, payload, created_at) VALUES \
             ('{long}', '{uuid}', '{{\"a\": 1}}', 'infinity')"
        ))
        .await;
    client.run("INSERT INTO mails_job_queue (article_id, payload) VALUES (42, '[1]')").await;

    let claimed = take(&outbox, 10, LONG).await;
    let event = &claimed[0].1.event;
    assert_eq!((event.key.as_str(), event.payload.as_slice()), (uuid, br#"{"a": 1}"#.as_slice()));
    assert_eq!(event.created_at, jiff::Timestamp::MAX);
    assert!(settle(&outbox, dead(claimed, &timeout())).await.lost.is_empty());
    let letter = outbox.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0);
    assert_eq!((letter.event_type.len(), letter.key.as_str()), (100, uuid), "as much as a letter holds");

    let claimed = take(&jobs, 10, LONG).await;
    let event = &claimed[0].1.event;
    assert_eq!((event.key.as_str(), event.payload.as_slice()), ("42", b"[1]".as_slice()));
    settle(&jobs, dead(claimed, &timeout())).await;
    assert_eq!(jobs.list(&Filter::default(), Page::first(1)).await.unwrap().letters[0].key, "42");
}

#[tokio::test]
async fn jobs_and_failed_events_of_the_applications_own_are_adopted_with_their_rows() {
    for database in testkit::backends(file!()).await {
        let mut client = Client::connect(&database).await;
        founding_tables(&mut client, database.backend).await;
        let job = "INSERT INTO summarize_job_queue (article_id) VALUES ('a')";
        let failed =
            "INSERT INTO failed_events (short_url, long_url, created_at, failed_at) VALUES ('k', 'v', 1, 2)";
        client.run(job).await;
        client.run(failed).await;
        client
            .run(
                "INSERT INTO failed_events (short_url, long_url, created_at, failed_at, status, last_error) \
                    VALUES ('f', 'v', 1, 2, 'FAILED', 'old')",
            )
            .await;
        let jobs = jobs(&database, JobsOptions::new("summarize")).await;
        let events = common::failed_events(&database).await;
        client.run(job).await;
        client.run(failed).await;
        let enqueued = jobs.enqueue(vec![NewJob::new("ours", "{}")]).await.unwrap();
        assert!(matches!(enqueued[0], Enqueued::Added(_)));
        let claimed = take(&jobs, 10, LONG).await;
        assert_eq!(claimed.len(), 3, "{:?}", database.backend);
        settle(&jobs, dead(claimed, &timeout())).await;
        assert_eq!(jobs.list(&Filter::default(), Page::first(10)).await.unwrap().letters.len(), 3);
        let claimed = take(&events, 10, LONG).await;
        assert_eq!(claimed.len(), 2);
        settle(&events, done(claimed)).await;
        assert_eq!(events.groups(10).await.unwrap().len(), 1, "the old failure has a group");
    }
}

/// SQLite may give the number of a deleted row to a new one, unless its table says AUTOINCREMENT.
#[tokio::test]
async fn a_lease_on_a_deleted_row_does_not_fit_the_new_row_with_its_number() {
    let database = testkit::sqlite();
    let mut client = Client::connect(&database).await;
    client
        .run(
            "CREATE TABLE outbox_event (id INTEGER PRIMARY KEY, event_type TEXT, aggregate_type TEXT, \
             aggregate_id TEXT, payload TEXT, processed BOOLEAN DEFAULT FALSE, processed_at TEXT, \
             error_message TEXT, retry_count INT DEFAULT 0, created_at TEXT, updated_at TEXT)",
        )
        .await;
    let outbox = outbox(&database, OutboxOptions::new("orders")).await;
    let id = outbox.append(vec![event("first")]).await.unwrap();
    let late = take(&outbox, 1, common::NOW).await;
    settle(&outbox, dead(take(&outbox, 1, LONG).await, &timeout())).await;
    assert_eq!(outbox.append(vec![event("second")]).await.unwrap(), id, "the number is used again");
    let fresh = take(&outbox, 1, LONG).await;
    assert_eq!(settle(&outbox, done(late)).await.lost, id);
    assert!(settle(&outbox, done(fresh)).await.lost.is_empty());
}

#[tokio::test]
async fn a_table_may_be_in_a_schema_beside_another_of_its_name() {
    for database in testkit::servers(file!()).await {
        let mut client = Client::connect(&database).await;
        let schema = match database.backend {
            Backend::MySql => client.column("SELECT DATABASE()").await.remove(0),
            _ => {
                client.run("CREATE SCHEMA shop").await;
                "shop".to_owned()
            }
        };
        let plain = OutboxOptions {
            table: if database.backend == Backend::MySql { "plain" } else { "outbox_event" }.into(),
            letters_table: "plain_dlq".into(),
            ..OutboxOptions::new("plain")
        };
        let plain = outbox(&database, plain).await;
        let options = OutboxOptions {
            table: format!("{schema}.outbox_event"),
            letters_table: format!("{schema}.outbox_event_dlq"),
            ..OutboxOptions::new("shop")
        };
        let shop = outbox(&database, options.clone()).await;
        Outbox::new(open(&database).await, options).unwrap().migrate().await.unwrap();
        client.run(&INSERT_EVENT.replace("outbox_event", &format!("{schema}.outbox_event"))).await;
        assert!(take(&plain, 10, LONG).await.is_empty());
        let claimed = take(&shop, 10, LONG).await;
        assert_eq!(claimed.len(), 1);
        settle(&shop, dead(claimed, &timeout())).await;
        let letter = shop.list(&Filter::default(), Page::first(1)).await.unwrap().letters.remove(0).id.local;
        assert_eq!(shop.redrive(&[letter], &order()).await.unwrap().done.len(), 1);
    }
}

#[tokio::test]
async fn two_pipelines_share_a_database_under_any_names_that_are_allowed() {
    for database in testkit::backends(file!()).await {
        let names = ["order", "OrderEvents", "_x1"].map(str::to_owned);
        let long = "x".repeat(48);
        let mut outboxes = Vec::new();
        for name in names.into_iter().chain([long]) {
            let letters_table = format!("{}_l", &name[..name.len().min(46)]);
            let options = OutboxOptions {
                table: name.clone(),
                letters_table,
                ordering: Ordering::AggregateSkip,
                ..OutboxOptions::new(&name)
            };
            let outbox = outbox(&database, options).await;
            outbox.migrate().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            outbox.append(vec![event(&name)]).await.unwrap();
            outboxes.push((name, outbox));
        }
        for (name, outbox) in &outboxes {
            let (lease, work) = take_one(outbox).await;
            assert_eq!(&work.event.key, name);
            settle(outbox, dead(vec![(lease, work)], &timeout())).await;
            assert_eq!(outbox.stats().await.unwrap().waiting(), 1, "each has its own letters");
        }
        for (table, subject_column) in [("select", "group"), (&*"y".repeat(48), &*"z".repeat(48))] {
            let (table, subject_column) = (table.to_owned(), subject_column.to_owned());
            let jobs = jobs(&database, JobsOptions { table, subject_column, ..JobsOptions::new("j") }).await;
            jobs.migrate().await.unwrap();
            jobs.enqueue(vec![NewJob::new("s", "{}")]).await.unwrap();
            assert_eq!(take_one(&jobs).await.1.event.key, "s");
        }
    }
}

/// An application's session may have any time zone: what it inserts is due at once, and not tomorrow.
#[tokio::test]
async fn what_is_inserted_from_another_time_zone_is_due_at_once() {
    for database in testkit::servers(file!()).await {
        let outbox = outbox(&database, OutboxOptions::new("orders")).await;
        let jobs = jobs(&database, JobsOptions::new("summarize")).await;
        let mut client = Client::connect(&database).await;
        for zone in ["+05:00", "-08:00"] {
            match database.backend {
                Backend::MySql => client.run(&format!("SET time_zone = '{zone}'")).await,
                _ => client.run(&format!("SET TIME ZONE INTERVAL '{zone}' HOUR TO MINUTE")).await,
            }
            client.run(INSERT_EVENT).await;
            client.run("INSERT INTO summarize_job_queue (article_id, payload) VALUES ('a', '{}')").await;
            for store in [&outbox as &dyn redrive_store::WorkStore, &jobs] {
                let (lease, work) = take_one(store).await;
                let age = jiff::Timestamp::now().duration_since(work.event.created_at);
                assert!(age.as_secs().abs() < 60, "{:?} {zone}: {age:?}", database.backend);
                settle(store, vec![(lease, redrive_core::lease::Settlement::Done)]).await;
            }
        }
        assert_eq!(outbox.backlog().await.unwrap(), 0);
    }
}
