//! Letters in topics, found again in the store, and redriven.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::sync::Arc;

use common::prepare;
use common::stage::{
    Running, Sent, committed, count, create_with, decision, lag, mock, options, poison, produce, read, real,
    recreate, seal, set, sink, until,
};
use redrive_core::dead_letter::{
    DeadLetterQueue as _, Filter, Operator, Order, Origin, Page, PipelineKind, Status,
};
use redrive_core::event::{Event, WorkId};
use redrive_core::handler::Handler as _;
use redrive_kafka::index::{IndexOptions, index};
use redrive_kafka::record::Header;
use redrive_kafka::redriver::Redriver;
use redrive_kafka::refused::index_refused;
use redrive_store::{Database, Letters, Place, Reading};
use redrive_testkit::{Client, TestDatabase};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

async fn store(database: &TestDatabase) -> Arc<Letters> {
    let letters = Letters::new(Database::open(&database.url).unwrap(), "decisions", PipelineKind::Kafka);
    letters.migrate().await.unwrap();
    Arc::new(letters)
}

fn event(id: &str) -> Event {
    let id = WorkId(id.parse().unwrap());
    Event {
        id,
        origin: id,
        event_type: String::new(),
        aggregate_type: String::new(),
        key: String::new(),
        payload: Vec::new(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        attempt: 1,
    }
}

/// An index at work.
struct Indexing {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Indexing {
    fn start(running: &Running, letters: &Arc<Letters>) -> Self {
        let options = running.pipeline.options();
        let index_options = IndexOptions {
            pipeline: "decisions".into(),
            cluster: options.cluster.clone(),
            topics: options.letters.clone(),
            parking_group: options.parking_group.clone(),
        };
        let stop = CancellationToken::new();
        let health = running.pipeline.health().clone();
        let task = tokio::spawn(index(index_options, Arc::clone(letters), health, stop.clone()));
        Self { stop, task }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Indexing {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn letters_are_listed_grouped_shown_and_redriven(brokers: &str, topic: &str) {
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    let mut client = prepare(&database).await;
    let letters = store(&own).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(brokers, topic, folder.path()), sink(&database));
    let indexing = Indexing::start(&running, &letters);

    let odd = Sent {
        key: Some(vec![0, 255]),
        headers: vec![Header::new("trace", [7]), Header { name: "none".into(), value: None }],
        ..poison(1, 3)
    };
    let mut sent: Vec<Sent> = (0..10).map(|id| decision(id % 2, id as usize)).collect();
    sent.extend([poison(0, 1), poison(0, 2), odd.clone(), Sent::text(0, "{")]);
    // Written by Spring Kafka, in the same topic.
    let spring = Sent {
        headers: vec![
            Header::new("kafka_dlt-original-topic", topic),
            Header::new("kafka_dlt-original-partition", 0_i32.to_be_bytes()),
            Header::new("kafka_dlt-original-offset", 4711_i64.to_be_bytes()),
            Header::new("kafka_dlt-exception-fqcn", "java.lang.IllegalStateException"),
            Header::new("kafka_dlt-exception-message", "no stock"),
        ],
        ..Sent::text(0, "from elsewhere")
    };
    produce(brokers, topic, &sent).await;
    produce(brokers, &format!("{topic}-dlq"), &[spring]).await;
    until("five letters", async || letters.stats().await.unwrap().waiting() == 5).await;

    let groups = letters.groups(10).await.unwrap();
    assert_eq!(groups.len(), 3, "{groups:#?}");
    assert_eq!(groups[0].count, 3, "the same cause is one group");
    let filter = Filter { text: Some("no stock".into()), ..Filter::default() };
    let found = letters.list(&filter, Page::first(10)).await.unwrap().letters;
    assert_eq!(found[0].failure.kind, "java.lang.IllegalStateException");
    let whole = letters.get(&found[0].id.local).await.unwrap().unwrap();
    assert_eq!(whole.payload, b"from elsewhere");
    assert_eq!(whole.origin, Origin::Topic { topic: topic.into(), partition: 0, offset: 4711 });

    // The table takes them now: redriven, they are stored under their own name, once.
    client.run("ALTER TABLE decision_log RENAME TO strict; CREATE TABLE decision_log (topic text, partition int, \"offset\" int, id, decided_at, amount, account, body, UNIQUE (topic, partition, \"offset\"))").await;
    let all = letters
        .list(&Filter { status: Some(Status::Open), ..Filter::default() }, Page::first(50))
        .await
        .unwrap();
    let ids: Vec<String> = all
        .letters
        .iter()
        .filter(|letter| letter.failure.kind == "Database")
        .map(|letter| letter.id.local.clone())
        .collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(
        letters.redrive(&ids, &Order::new(&Operator::new("ops"), "once")).await.unwrap().done.len(),
        3
    );
    let redriver = Redriver::new(letters.clone(), Arc::clone(running.pipeline.publisher()), topic, seal());
    let events: Vec<Event> = ids.iter().map(|id| event(id)).collect();
    for _ in 0..2 {
        // Twice, as after a crash before it was settled.
        assert_eq!(redriver.handle(&events).await, [Ok(()), Ok(()), Ok(())]);
    }
    until("no lag", async || lag(brokers, topic, &format!("{topic}-writer")).await == 0).await;
    until("rows", async || client.number("SELECT COUNT(*) FROM decision_log").await >= 3).await;
    let positions = client.column("SELECT partition || '/' || \"offset\" FROM decision_log ORDER BY 1").await;
    assert_eq!(positions, ["0/5", "0/6", "1/5"], "each once, as the record that it first was");
    let back = read(brokers, topic).await;
    let redriven: Vec<_> = back.iter().filter(|record| record.header("redrive-count").is_some()).collect();
    assert_eq!(redriven.len(), 6);
    let same = redriven.iter().find(|record| record.key == odd.key).unwrap();
    assert_eq!((&same.value, same.position.partition), (&odd.value, 1));
    assert_eq!(redrive_kafka::headers::original(&same.headers), odd.headers);
    assert_eq!(same.header("redrive-count").unwrap().text(), Some("1"));

    // Parked letters are open until the parking lot is done with them.
    client.run("ALTER TABLE decision_log RENAME TO away").await;
    // More than are stored or closed at a time.
    let many: Vec<Sent> = (900..2_100).map(|id| decision(id % 2, id as usize)).collect();
    produce(brokers, topic, &many).await;
    let lot = format!("{topic}-parking");
    until("parked", async || count(brokers, &lot).await >= 1_200).await;
    let parked = Filter { event_type: Some(lot.clone()), ..Filter::default() };
    let open = Filter { status: Some(Status::Open), ..parked };
    until("indexed", async || letters.count(&open).await.unwrap() == 1_200).await;
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    until("closed", async || letters.stats().await.unwrap().count(Status::Resolved) == 1_200).await;
    assert_eq!(letters.count(&open).await.unwrap(), 0);
    assert_eq!(committed(brokers, &lot, &format!("{topic}-index")).await, 0, "Kafka knows of no index");

    a_new_store_gets_what_lies_in_the_topics(&running, &letters, &own).await;
    a_restart_reads_nothing_twice(&running, &letters, &own, indexing).await;
    running.stop().await;
}

/// The place was kept in Kafka, the letters here: a second store missed all that were there before it.
async fn a_new_store_gets_what_lies_in_the_topics(running: &Running, letters: &Letters, own: &TestDatabase) {
    let database = redrive_testkit::sqlite();
    let second = store(&database).await;
    let indexing = Indexing::start(running, &second);
    let all = stored(own).await;
    assert!(all >= 1_200 + 5, "{all}");
    until("the same letters", async || stored(&database).await == all).await;
    // What an operator did is known where he did it; what the parking lot did is known everywhere.
    until("closed there, too", async || second.stats().await.unwrap().count(Status::Resolved) == 1_200).await;
    assert_eq!(sorted(second.places().await.unwrap()), sorted(letters.places().await.unwrap()));
    indexing.stop().await;
}

/// Letters that are deleted do not come back: the index goes on where it was.
async fn a_restart_reads_nothing_twice(
    running: &Running,
    letters: &Arc<Letters>,
    own: &TestDatabase,
    indexing: Indexing,
) {
    indexing.stop().await;
    let places = sorted(letters.places().await.unwrap());
    let mut client = Client::connect(own).await;
    client.run("DELETE FROM redrive_letter").await;
    let indexing = Indexing::start(running, letters);
    let options = running.pipeline.options();
    produce(&options.cluster.brokers, &options.letters.dlq, &[Sent::text(0, "one more")]).await;
    until("one more", async || stored(own).await > 0).await;
    assert_eq!(stored(own).await, 1);
    let moved = sorted(letters.places().await.unwrap());
    assert_eq!(moved.iter().zip(&places).filter(|(now, before)| now != before).count(), 1);
    indexing.stop().await;
}

/// How many letters there are, in whatever state.
async fn stored(database: &TestDatabase) -> i64 {
    Client::connect(database).await.number("SELECT COUNT(*) FROM redrive_letter").await
}

fn sorted(mut places: Vec<Place>) -> Vec<Place> {
    places.sort();
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_on_the_broker_in_this_process() {
    let cluster = mock("indexed", 2);
    letters_are_listed_grouped_shown_and_redriven(&cluster.bootstrap_servers(), "indexed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_on_a_real_broker() {
    let Some((brokers, topic)) = real(file!(), 2).await else { return };
    letters_are_listed_grouped_shown_and_redriven(&brokers, &topic).await;
}

/// A place is beyond the end of a topic that was deleted and made anew, or in the middle of other records.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_made_anew_is_read_from_its_beginning() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    prepare(&database).await;
    let letters = store(&own).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    let dlq = format!("{topic}-dlq");
    let texts = |prefix: &str, many: usize| -> Vec<Sent> {
        let from = |at: usize| Sent {
            headers: vec![
                Header::new("kafka_dlt-original-topic", format!("{topic}-{prefix}")),
                Header::new("kafka_dlt-original-partition", "0"),
                Header::new("kafka_dlt-original-offset", at.to_string()),
            ],
            ..Sent::text(0, "{")
        };
        (0..many).map(from).collect()
    };
    until("the topic", async || count(&brokers, &dlq).await == 0).await;
    produce(&brokers, &dlq, &texts("first", 10)).await;
    let indexing = Indexing::start(&running, &letters);
    until("ten", async || stored(&own).await == 10).await;
    indexing.stop().await;
    recreate(&brokers, &dlq).await;
    produce(&brokers, &dlq, &texts("second", 3)).await;
    let indexing = Indexing::start(&running, &letters);
    until("three more", async || stored(&own).await == 13).await;
    assert!(letters.places().await.unwrap().contains(&Place::new(&dlq, 0, 3)));
    indexing.stop().await;
    running.stop().await;
}

/// A letter that Kafka refused was on disk, and neither listed nor counted; it was tried again after five minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_kafka_refuses_is_listed_and_is_the_same_once_the_topic_takes_it() {
    let Some((brokers, topic)) = real(file!(), 1).await else { return };
    let dlq = format!("{topic}-dlq");
    create_with(&brokers, &dlq, 1, &[("max.message.bytes", "2000")]).await;
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    prepare(&database).await;
    let letters = store(&own).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, &topic, folder.path()), sink(&database));
    let indexing = Indexing::start(&running, &letters);
    let stop = CancellationToken::new();
    let refused =
        tokio::spawn(index_refused(Arc::clone(&running.pipeline), Arc::clone(&letters), stop.clone()));
    produce(&brokers, &topic, &[Sent::text(0, "x".repeat(10_000))]).await;
    until("one letter", async || letters.stats().await.unwrap().waiting() == 1).await;
    assert_eq!((running.pipeline.on_disk(), count(&brokers, &dlq).await), ((0, 1), 0));
    let listed = letters.list(&Filter::default(), Page::first(9)).await.unwrap().letters;
    let letter = letters.get(&listed[0].id.local).await.unwrap().unwrap();
    assert_eq!(letter.payload.len(), 10_000);
    assert_eq!(letter.origin, Origin::Topic { topic: topic.clone(), partition: 0, offset: 0 });
    assert!(letter.headers.iter().any(|(name, _)| name == "redrive:on-disk"), "{:?}", letter.headers);

    set(&brokers, &dlq, ("max.message.bytes", "1000000")).await;
    until("it is in its topic", async || count(&brokers, &dlq).await == 1).await;
    let is_read = async || letters.places().await.unwrap().contains(&Place::new(&dlq, 0, 1));
    until("it is read", is_read).await;
    assert_eq!(stored(&own).await, 1);
    stop.cancel();
    refused.await.unwrap();
    indexing.stop().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_has_fallen_out_of_its_topic_goes_on_with_what_is_left() {
    let cluster = mock("fallen", 1);
    let brokers = cluster.bootstrap_servers();
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    prepare(&database).await;
    let letters = store(&own).await;
    // Nothing is lost by what somebody sets for the pipeline's own consumers, and nothing is committed.
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&brokers, "fallen", folder.path());
    let settings =
        [("auto.offset.reset", "latest"), ("enable.auto.commit", "true"), ("auto.commit.interval.ms", "50")];
    options.cluster.properties.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let running = Running::start(options, sink(&database));
    let beyond = Place::new("fallen-dlq", 0, 1_000);
    letters.add_read(&Reading { next: vec![beyond], ..Reading::default() }).await.unwrap();
    produce(&brokers, "fallen-dlq", &[Sent::text(0, "a"), Sent::text(0, "b")]).await;
    let indexing = Indexing::start(&running, &letters);
    until("both", async || stored(&own).await == 2).await;
    assert_eq!(letters.places().await.unwrap(), [Place::new("fallen-dlq", 0, 2)]);
    indexing.stop().await;
    let group = running.pipeline.options().parking_group.clone();
    assert_eq!(committed(&brokers, "fallen-dlq", &group).await, 0);
    running.stop().await;
}
