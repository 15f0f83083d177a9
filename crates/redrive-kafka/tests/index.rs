//! Letters in topics, found again in the store, and redriven.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::sync::Arc;

use common::prepare;
use common::stage::{
    Running, Sent, count, decision, lag, mock, options, poison, produce, read, real, seal, sink, until,
};
use redrive_core::dead_letter::{
    DeadLetterQueue as _, Filter, Operator, Order, Origin, Page, PipelineKind, Status,
};
use redrive_core::event::{Event, WorkId};
use redrive_core::handler::Handler as _;
use redrive_kafka::index::{IndexOptions, index};
use redrive_kafka::record::Header;
use redrive_kafka::redriver::Redriver;
use redrive_store::{Database, Letters};
use redrive_testkit::TestDatabase;
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

async fn letters_are_listed_grouped_shown_and_redriven(brokers: &str, topic: &str) {
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    let mut client = prepare(&database).await;
    let letters = store(&own).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(brokers, topic, folder.path()), sink(&database));
    let stop = CancellationToken::new();
    let _at_the_end = stop.clone().drop_guard();
    let index_options = IndexOptions {
        pipeline: "decisions".into(),
        cluster: running.pipeline.options().cluster.clone(),
        topics: running.pipeline.options().letters.clone(),
        group: format!("{topic}-index"),
        parking_group: running.pipeline.options().parking_group.clone(),
    };
    let indexing =
        tokio::spawn(index(index_options, letters.clone(), running.pipeline.health().clone(), stop.clone()));

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
    produce(brokers, topic, &[decision(0, 900), decision(1, 901)]).await;
    until("parked", async || count(brokers, &format!("{topic}-parking")).await == 2).await;
    let parked = Filter { event_type: Some(format!("{topic}-parking")), ..Filter::default() };
    let open = Filter { status: Some(Status::Open), ..parked.clone() };
    until("indexed", async || letters.list(&open, Page::first(9)).await.unwrap().letters.len() == 2).await;
    client.run("ALTER TABLE away RENAME TO decision_log").await;
    let closed = Filter { status: Some(Status::Resolved), ..parked };
    until("closed", async || letters.list(&closed, Page::first(9)).await.unwrap().letters.len() == 2).await;

    stop.cancel();
    indexing.await.unwrap();
    running.stop().await;
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
