//! The persist pipeline on every store: batches, poison, the states of failed events, outages, two
//! schedulers, the cache, the bounds.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod persisting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use persisting::{Stand, eventually, on_demand, quick, record, records};
use redrive_core::column::Column;
use redrive_core::dead_letter::{DeadLetterQueue as _, Operator, Order};
use redrive_core::failure::Failure;
use redrive_engine::persist::{Cache, NotAccepted, Sink};
use redrive_engine::{Engine, PersistOptions, Persister, Rung, WatchOptions};
use redrive_store::{FailedEvent, Record, Target, TargetOptions};
use redrive_testkit::{self as testkit, Backend, Client, TestDatabase};
use tokio::sync::Semaphore;
use tokio::time::Instant;

#[test]
fn the_defaults_are_the_founding_ones() {
    let options = PersistOptions::default();
    let delays: Vec<_> = (1..=8).map(|failures| options.backoff.delay(failures, 7)).collect();
    let millis = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000].map(Duration::from_millis);
    assert_eq!((options.retries, delays), (3, millis.to_vec()));
    let schedule = options.schedule;
    assert_eq!((schedule.initial_delay.as_secs(), schedule.fixed_delay.as_secs()), (60, 300));
    assert_eq!((schedule.max_retry_count, schedule.keep_resolved.as_secs()), (3, 7 * 86_400));
    assert_eq!(options.metrics_prefix, "url_persistence");
}

#[tokio::test]
async fn what_is_accepted_is_saved_behind_the_caller_in_order() {
    for database in testkit::backends_and_pooled(file!()).await {
        let stand = Stand::new(database, quick()).await;
        stand.persister.persist_all(&records(0..2_500)).await.unwrap();
        stand.persister.persist(&record("one", "more")).await.unwrap();
        stand.start();
        stand.persister.idle().await;
        assert_eq!(stand.saved().await, 2_501);
        assert_eq!(stand.target.find("one").await.unwrap().unwrap(), "more");
        assert_eq!(stand.failed_count("PENDING").await, 0);
        assert_eq!(stand.persister.rung(), Rung::Target);
        stand.stop().await;
    }
}

/// An application's own table, which is stricter than ours.
async fn strict(database: &TestDatabase) {
    let mut client = Client::connect(database).await;
    let not_null = "host TEXT GENERATED ALWAYS AS (NULLIF(long_url, 'null')) STORED NOT NULL";
    let columns = match database.backend {
        Backend::Sqlite => format!("long_url TEXT, {not_null}, CHECK (length(long_url) <= 20)"),
        Backend::Postgres => format!("long_url VARCHAR(20), {not_null}"),
        Backend::MySql => "long_url VARCHAR(20) NOT NULL".to_owned(),
    };
    client.run(&format!("CREATE TABLE urls (short_url VARCHAR(50) PRIMARY KEY, {columns})")).await;
    if database.backend == Backend::MySql {
        let nullify = "SET NEW.long_url = NULLIF(NEW.long_url, 'null')";
        client.run(&format!("CREATE TRIGGER strict BEFORE INSERT ON urls FOR EACH ROW {nullify}")).await;
    }
}

#[tokio::test]
async fn poison_of_every_kind_fails_alone_and_the_rest_of_its_batch_is_saved() {
    for database in testkit::backends_and_pooled(file!()).await {
        strict(&database).await;
        let stand = Stand::new(database, on_demand()).await;
        stand.target.save(&[record("taken", "first")]).await.unwrap();
        let mut batch = records(0..500);
        batch[7] = record("long", &"x".repeat(21));
        batch[100] = record("null", "null");
        batch[101] = record("taken", "second");
        batch[499] = record("taken", "first"); // the same key and payload again is success
        stand.persister.persist_all(&batch).await.unwrap();
        stand.start();
        stand.persister.idle().await;
        assert_eq!(stand.saved().await, 497, "496 of the batch, and the one that was there");
        let sql = "SELECT short_url, error_class, last_error FROM failed_events WHERE status = 'PENDING' ORDER BY id";
        let rows = stand.client().await.rows(sql).await;
        let keys: Vec<_> = rows.iter().map(|row| row[0].as_deref().unwrap()).collect();
        assert_eq!(keys, ["long", "null", "taken"], "{:?}", stand.database.backend);
        for row in rows {
            assert_eq!(row[1].as_deref(), Some("permanent"));
            assert!(row[2].as_deref().is_some_and(|error| !error.is_empty()));
        }
        assert_eq!(stand.persister.rung(), Rung::Target, "poison is no outage");
        stand.stop().await;
    }
}

#[tokio::test]
async fn a_failed_event_that_stays_bad_is_failed_after_three_runs_and_a_mended_one_is_resolved() {
    for database in testkit::backends_and_pooled(file!()).await {
        strict(&database).await;
        let stand = Stand::new(database, on_demand()).await;
        stand.persister.persist_all(&[record("bad", "null"), record("mended", "null")]).await.unwrap();
        let mut states = stand.client().await;
        stand.start();
        stand.persister.idle().await;
        assert_eq!(stand.failed_count("PENDING").await, 2);
        states.run("UPDATE failed_events SET long_url = 'good' WHERE short_url = 'mended'").await;
        stand.persister.pipeline().bell.ring();
        stand.reaches("FAILED", 1).await;
        let sql = "SELECT short_url, status, retry_count FROM failed_events ORDER BY short_url";
        let rows = states.rows(sql).await;
        let row = |n: usize| rows[n].iter().flatten().map(String::as_str).collect::<Vec<_>>();
        assert_eq!((row(0), row(1)), (vec!["bad", "FAILED", "3"], vec!["mended", "RESOLVED", "0"]));
        assert_eq!(stand.target.find("mended").await.unwrap().unwrap(), "good");
        // A person mends it and sends it back: no need to wait for the schedule.
        states.run("UPDATE failed_events SET long_url = 'fine' WHERE short_url = 'bad'").await;
        let id = states.column("SELECT id FROM failed_events WHERE short_url = 'bad'").await;
        stand.failed.redrive(&id, &Order::new(&Operator::new("alice"), "once")).await.unwrap();
        stand.persister.pipeline().bell.ring();
        stand.reaches("RESOLVED", 2).await;
        assert_eq!(stand.target.find("bad").await.unwrap().unwrap(), "fine");
        stand.stop().await;
    }
}

#[tokio::test]
async fn a_target_that_refuses_everything_is_an_outage_that_costs_no_retries() {
    for database in testkit::backends_and_pooled(file!()).await {
        let stand = Stand::new(database, on_demand()).await;
        let mut client = stand.client().await;
        client.run("ALTER TABLE urls RENAME TO away").await;
        stand.start();
        stand.persister.persist_all(&records(0..50)).await.unwrap();
        stand.persister.idle().await;
        assert_eq!(stand.failed_count("PENDING").await, 50, "set aside, whole");
        assert_eq!(stand.persister.rung(), Rung::DeadLetters);
        stand.persister.pipeline().bell.ring();
        // Many runs of the schedule later.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(client.number("SELECT MAX(retry_count) FROM failed_events").await, 0);
        assert_eq!(stand.failed_count("FAILED").await, 0);
        client.run("ALTER TABLE away RENAME TO urls").await;
        stand.reaches("RESOLVED", 50).await;
        assert_eq!(stand.saved().await, 50);
        stand.persister.persist(&record("next", "1")).await.unwrap();
        stand.persister.idle().await;
        assert_eq!(stand.persister.rung(), Rung::Target);
        stand.stop().await;
    }
}

/// A sink that counts how often each key was saved, and takes its time.
#[derive(Default)]
struct Counting {
    times: Mutex<HashMap<String, u32>>,
}

#[async_trait]
impl Sink for Counting {
    async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        for record in records {
            *self.times.lock().unwrap().entry(record.key.clone()).or_default() += 1;
        }
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn two_schedulers_at_once_process_every_event_once() {
    for database in testkit::backends_and_pooled(file!()).await {
        let stand = Stand::new(database, quick()).await;
        let now = jiff::Timestamp::now();
        let failure = Failure::transient("Timeout", "");
        let event = |n: usize| FailedEvent::new(&format!("k{n}"), "v", now, now, failure.clone());
        stand.failed.append(&(0..500).map(event).collect::<Vec<_>>()).await.unwrap();
        let counting = Arc::new(Counting::default());
        let engines = [Engine::new(), Engine::new()];
        for engine in &engines {
            let mut options = quick();
            options.batch_size = 20;
            let failed = stand.another_failed().await;
            let persister = Persister::<Record>::builder(counting.clone(), failed).build(options);
            engine.persist(&persister, WatchOptions::default());
        }
        stand.reaches("RESOLVED", 500).await;
        for engine in engines {
            engine.stop().await;
        }
        let times = counting.times.lock().unwrap();
        assert_eq!(times.len(), 500);
        assert!(times.values().all(|times| *times == 1), "{:?}", stand.database.backend);
    }
}

#[tokio::test]
async fn an_expired_processing_row_is_taken_over_and_costs_no_retry() {
    for database in testkit::backends_and_pooled(file!()).await {
        let stand = Stand::new(database, quick()).await;
        let now = jiff::Timestamp::now();
        let event = FailedEvent::new("k", "v", now, now, Failure::transient("Timeout", ""));
        stand.failed.append(&[event]).await.unwrap();
        // Another scheduler claims it and dies.
        let mut client = stand.client().await;
        client.run("UPDATE failed_events SET status = 'PROCESSING', lease = 5, leased_by = 'dead'").await;
        stand.start();
        stand.reaches("RESOLVED", 1).await;
        assert_eq!(client.number("SELECT retry_count FROM failed_events").await, 0);
        stand.stop().await;
    }
}

/// A sink that fails transiently so many times, and notes when it was asked.
struct Flaky {
    fail: AtomicUsize,
    asked: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Sink for Flaky {
    async fn save(&self, _: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
        self.asked.lock().unwrap().push(Instant::now());
        let fails = self.fail.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if fails.is_ok() { Err(Failure::transient("Busy", "not now")) } else { Ok(Vec::new()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_save_is_repeated_three_times_after_100_200_and_400_ms() {
    let stand = Stand::without_tables(testkit::sqlite(), quick());
    let flaky = Arc::new(Flaky { fail: AtomicUsize::new(3), asked: Mutex::default() });
    let persister = Persister::builder(flaky.clone(), stand.failed.clone()).build(PersistOptions::default());
    persister.persist(&record("a", "1")).await.unwrap();
    stand.engine.persist(&persister, WatchOptions::default());
    persister.idle().await;
    let asked = flaky.asked.lock().unwrap().clone();
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [100, 200, 400].map(Duration::from_millis);
    let off =
        |(pause, expected): (&Duration, &Duration)| pause.abs_diff(*expected) > Duration::from_millis(5);
    assert!(pauses.len() == 3 && !pauses.iter().zip(&expected).any(off), "{pauses:?}");
    assert_eq!(persister.rung(), Rung::Target);
}

#[tokio::test]
async fn a_fourth_failure_sets_the_event_aside() {
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    let flaky = Arc::new(Flaky { fail: AtomicUsize::new(4), asked: Mutex::default() });
    let persister = Persister::builder(flaky.clone(), stand.failed.clone()).build(quick());
    persister.persist(&record("a", "1")).await.unwrap();
    stand.engine.persist(&persister, WatchOptions::default());
    persister.idle().await;
    assert_eq!(flaky.asked.lock().unwrap().len(), 4);
    stand.reaches("RESOLVED", 1).await;
    assert_eq!(stand.client().await.number("SELECT retry_count FROM failed_events").await, 0);
    stand.stop().await;
}

#[derive(Default)]
struct Shelf(Mutex<Vec<String>>);

#[async_trait]
impl Cache<Record> for Shelf {
    async fn refresh(&self, saved: Vec<Record>) {
        self.0.lock().unwrap().extend(saved.into_iter().map(|record| record.key));
    }
}

#[tokio::test]
async fn the_cache_hears_of_what_was_saved_at_once_or_later_and_of_nothing_else() {
    let database = testkit::sqlite();
    strict(&database).await;
    let stand = Stand::new(database, quick()).await;
    let shelf = Arc::new(Shelf::default());
    let (failed, target) = (stand.failed.clone(), stand.target.clone());
    let persister = Persister::builder(target, failed).caching(shelf.clone()).build(on_demand());
    stand.engine.persist(&persister, WatchOptions::default());
    persister.persist_all(&[record("a", "1"), record("bad", "null"), record("b", "2")]).await.unwrap();
    persister.idle().await;
    assert_eq!(*shelf.0.lock().unwrap(), ["a", "b"]);
    stand.client().await.run("UPDATE failed_events SET long_url = 'good'").await;
    persister.pipeline().bell.ring();
    stand.reaches("RESOLVED", 1).await;
    assert_eq!(*shelf.0.lock().unwrap(), ["a", "b", "bad"]);
    stand.stop().await;
}

/// A sink that saves when it is let.
struct Dammed(Semaphore);

#[async_trait]
impl Sink for Dammed {
    async fn save(&self, _: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
        self.0.acquire().await.unwrap().forget();
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    let dam = Arc::new(Dammed(Semaphore::new(0)));
    let options = PersistOptions { queue: 10, batch_size: 10, ..quick() };
    let persister = Persister::builder(dam.clone(), stand.failed.clone()).build(options);
    persister.persist_all(&records(0..10)).await.unwrap();
    let full = persister.persist(&record("one", "more")).await.unwrap_err();
    assert_eq!(full, NotAccepted::Full { waiting: 10 });
    stand.engine.persist(&persister, WatchOptions::default());
    dam.0.add_permits(1);
    persister.idle().await;
    persister.persist(&record("one", "more")).await.unwrap();
    dam.0.add_permits(1);
    persister.idle().await;
    stand.stop().await;
}

#[tokio::test]
async fn a_stop_saves_what_waits_and_refuses_what_comes() {
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    stand.start();
    stand.persister.persist_all(&records(0..5_000)).await.unwrap();
    stand.engine.stop().await;
    assert_eq!(stand.saved().await, 5_000);
    assert_eq!(stand.persister.persist(&record("late", "1")).await, Err(NotAccepted::Stopping));
}

/// The schedule waited for a target that had vanished: half a minute, and then for its settlements.
#[tokio::test]
async fn a_stop_waits_for_the_schedule_no_longer_than_its_grace() {
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    let now = jiff::Timestamp::now();
    let event = FailedEvent::new("k", "v", now, now, Failure::transient("Timeout", ""));
    stand.failed.append(&[event]).await.unwrap();
    let options = PersistOptions { grace: Duration::from_millis(50), ..quick() };
    let dam = Arc::new(Dammed(Semaphore::new(0)));
    let persister = Persister::<Record>::builder(dam, stand.failed.clone()).build(options);
    stand.engine.persist(&persister, WatchOptions::default());
    stand.reaches("PROCESSING", 1).await;
    tokio::time::timeout(Duration::from_secs(10), stand.engine.stop()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_at_the_door() {
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    for (key, payload, field) in [("", "v", "key"), ("a\0", "v", "key"), ("k", "v\0", "payload")] {
        let refused = stand.persister.persist_all(&[record("ok", "1"), record(key, payload)]).await;
        let Err(NotAccepted::Refused { item: 1, source }) = refused else { panic!("{refused:?}") };
        assert_eq!(source.field, field);
    }
    assert_eq!(stand.persister.waiting(), 0);
}

#[tokio::test]
async fn resolved_events_go_after_their_time_by_the_cron() {
    for database in testkit::backends_and_pooled(file!()).await {
        let mut options = quick();
        options.schedule.cleanup = "* * * * * ?".parse().unwrap();
        options.schedule.keep_resolved = Duration::from_secs(3600);
        let stand = Stand::new(database, options).await;
        let now = jiff::Timestamp::now();
        let event = |key: &str| FailedEvent::new(key, "v", now, now, Failure::transient("Timeout", ""));
        stand.failed.append(&[event("old"), event("new")]).await.unwrap();
        stand.start();
        stand.reaches("RESOLVED", 2).await;
        let mut client = stand.client().await;
        let long_ago =
            "UPDATE failed_events SET resolved_at = '2026-01-01 00:00:00', failed_at = 1767200000000";
        client.run(&format!("{long_ago} WHERE short_url = 'old'")).await;
        eventually("the old one is deleted", async || stand.failed_count("RESOLVED").await == 1).await;
        assert_eq!(client.column("SELECT short_url FROM failed_events").await, ["new"]);
        stand.stop().await;
    }
}

/// A persister whose target has columns for parts of the payload.
async fn ordering(database: TestDatabase) -> Stand {
    let mut client = Client::connect(&database).await;
    client
        .run(
            "CREATE TABLE urls (short_url VARCHAR(50) PRIMARY KEY, customer VARCHAR(20) NOT NULL, \
             total NUMERIC(12, 2) CHECK (total >= 0), version INT NOT NULL DEFAULT 1)",
        )
        .await;
    let mut stand = Stand::without_tables(database, on_demand());
    let values = vec![
        Column::new("customer", "$.customer.id").unwrap().required(),
        Column::new("total", "$.total").unwrap(),
    ];
    let options = TargetOptions { payload_column: None, values, ..TargetOptions::new("urls") };
    let connections = redrive_store::Database::open(&stand.database.url).unwrap();
    stand.target = Arc::new(Target::new(connections, &options).unwrap());
    stand.persister = Persister::builder(stand.target.clone(), stand.failed.clone()).build(on_demand());
    stand.target.migrate().await.unwrap();
    stand.failed.migrate().await.unwrap();
    stand
}

#[tokio::test]
async fn parts_of_a_payload_are_saved_and_an_edited_letter_is_taken_apart_again() {
    for database in testkit::backends_and_pooled(file!()).await {
        let stand = ordering(database).await;
        let order =
            |n: usize| record(&format!("o{n}"), &format!(r#"{{"customer":{{"id":"c{n}"}},"total":{n}.50}}"#));
        let mut batch: Vec<Record> = (0..200).map(order).collect();
        batch[3] = record("o3", r#"{"customer":{},"total":1}"#);
        batch[50] = record("o50", "no JSON");
        batch[51] = record("o51", r#"{"customer":{"id":"c51"},"total":"many"}"#);
        batch[120] = record("o120", r#"{"customer":{"id":"c120"},"total":-1}"#);
        stand.persister.persist_all(&batch).await.unwrap();
        stand.start();
        stand.persister.idle().await;
        assert_eq!(stand.saved().await, 196, "{:?}", stand.database.backend);
        let mut client = stand.client().await;
        let rows = client.rows("SELECT short_url, last_error FROM failed_events ORDER BY id").await;
        let errors: Vec<(&str, &str)> =
            rows.iter().map(|row| (row[0].as_deref().unwrap(), row[1].as_deref().unwrap())).collect();
        assert_eq!(errors.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["o3", "o50", "o51", "o120"]);
        assert!(
            errors[0].1.contains("$.customer.id is missing: the column customer requires it"),
            "{errors:?}"
        );
        assert!(errors[1].1.contains("$ is not JSON"), "{errors:?}");
        assert!(
            errors[2].1.contains("$.total is \"many\": it must be a number: the column total"),
            "{errors:?}"
        );
        // A person edits a letter once it is FAILED: the columns follow from the edited payload.
        stand.persister.pipeline().bell.ring();
        stand.reaches("FAILED", 4).await;
        let id = client.column("SELECT id FROM failed_events WHERE short_url = 'o3'").await.remove(0);
        let payload = br#"{"customer":{"id":"found"},"total":7.25}"#;
        let order = Order::new(&Operator::new("alice"), "edited");
        assert_eq!(stand.failed.redrive_edited(&id, payload, &order).await.unwrap().done.len(), 1);
        stand.persister.pipeline().bell.ring();
        stand.reaches("RESOLVED", 1).await;
        let saved = client.rows("SELECT customer, total, version FROM urls WHERE short_url = 'o3'").await;
        assert_eq!(saved[0].iter().flatten().collect::<Vec<_>>(), ["found", "7.25", "1"]);
        stand.stop().await;
    }
}
