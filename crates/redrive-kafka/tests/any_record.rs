//! No record, whatever its bytes, stops a partition or the index.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::prepare;
use common::stage::{Running, Sent, decision, lag, mock, options, produce, read, real, sink, until};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use redrive_core::dead_letter::{DeadLetterQueue as _, Filter, Page, PipelineKind};
use redrive_kafka::headers;
use redrive_kafka::index::{IndexOptions, index};
use redrive_kafka::letter::restored;
use redrive_kafka::record::Header;
use redrive_store::{Database, Letters};
use tokio_util::sync::CancellationToken;

const RECORDS: usize = 400;

/// Names that somebody reads, and names that nobody can.
fn header() -> impl Strategy<Value = Header> {
    let known = prop_oneof![
        Just("kafka_dlt-original-topic"),
        Just("kafka_dlt-original-partition"),
        Just("kafka_dlt-original-offset"),
        Just("kafka_dlt-exception-message"),
        Just("kafka_original-offset"),
        Just("retry_topic-attempts"),
        Just("redrive-attempts"),
        Just("redrive-failed-at"),
        Just("redrive-count"),
        Just("redrive-origin"),
        Just("redrive-seal"),
        Just("redrive:key"),
        Just("redrive:header-name"),
        Just("a\0b"),
        Just("größe"),
        Just(""),
    ];
    let bytes = || proptest::collection::vec(any::<u8>(), 0..12);
    let name = prop_oneof![known.prop_map(|name| name.as_bytes().to_vec()), bytes(), Just(vec![0xff, 0xfe])];
    // A name with a NUL and no value cannot be read to its end: that is a test of its own.
    (name, proptest::option::of(bytes())).prop_map(|(name, value)| {
        let value = if name.contains(&0) { value.or(Some(Vec::new())) } else { value };
        Header { name: name.into(), value }
    })
}

/// Key, value, headers, time, and whether it is good after all.
type Parts = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<Header>, Option<i64>, bool);

fn record() -> impl Strategy<Value = Parts> {
    let bytes = |most: usize| proptest::collection::vec(any::<u8>(), 0..most);
    let value = prop_oneof![
        8 => proptest::option::of(bytes(60)),
        1 => proptest::option::of(bytes(40_000)),
        2 => "\\PC{0,40}".prop_map(|text| Some(text.into_bytes())),
        2 => Just(Some(b"\0\0\0\0\x07\x02ab".to_vec())),
    ];
    let timestamp =
        prop_oneof![Just(None), (0..i64::MAX).prop_map(Some), Just(Some(i64::MAX)), Just(Some(0))];
    (
        proptest::option::of(bytes(20)),
        value,
        proptest::collection::vec(header(), 0..6),
        timestamp,
        any::<bool>(),
    )
}

fn records() -> Vec<Sent> {
    let mut runner = TestRunner::deterministic();
    let all = proptest::collection::vec(record(), RECORDS..=RECORDS).new_tree(&mut runner).unwrap().current();
    let sent = |(at, (key, value, headers, timestamp, is_good)): (usize, Parts)| Sent {
        partition: i32::try_from(at % 2).unwrap(),
        key,
        value: if is_good { decision(0, at).value } else { value },
        headers,
        timestamp,
    };
    all.into_iter().enumerate().map(sent).collect()
}

/// A header whose name is not UTF-8 made the client library panic: the consumer was started again and panicked again,
/// for ever, and so did the index.
async fn every_record_is_stored_or_a_letter_and_every_letter_is_indexed(
    brokers: &str,
    topic: &str,
    all: Vec<Sent>,
) {
    let (database, own) = (redrive_testkit::sqlite(), redrive_testkit::sqlite());
    let mut client = prepare(&database).await;
    let letters = Letters::new(Database::open(&own.url).unwrap(), "decisions", PipelineKind::Kafka);
    letters.migrate().await.unwrap();
    let letters = Arc::new(letters);
    let folder = tempfile::tempdir().unwrap();
    let good = all
        .iter()
        .filter(|sent| sent.value.as_deref().is_some_and(|value| value.starts_with(b"{\"id\":\"d")))
        .count();
    produce(brokers, topic, &all).await;
    let running = Running::start(options(brokers, topic, folder.path()), sink(&database));
    let stop = CancellationToken::new();
    let indexing = {
        let options = running.pipeline.options();
        let options = IndexOptions {
            pipeline: "decisions".into(),
            cluster: options.cluster.clone(),
            topics: options.letters.clone(),
            parking_group: options.parking_group.clone(),
        };
        tokio::spawn(index(options, Arc::clone(&letters), running.pipeline.health().clone(), stop.clone()))
    };
    until("no lag", async || lag(brokers, topic, &format!("{topic}-writer")).await == 0).await;
    assert_eq!(client.number("SELECT COUNT(*) FROM decision_log").await, i64::try_from(good).unwrap());
    let dead = all.len() - good;
    until("indexed", async || letters.stats().await.unwrap().waiting() as usize == dead).await;

    let mut of_partition: BTreeMap<i32, Vec<&Sent>> = BTreeMap::new();
    for sent in &all {
        of_partition.entry(sent.partition).or_default().push(sent);
    }
    for letter in read(brokers, &format!("{topic}-dlq")).await {
        let origin = headers::read(&letter).origin.unwrap();
        let sent = of_partition[&origin.partition][usize::try_from(origin.offset).unwrap()];
        assert_eq!((&letter.key, &letter.value), (&sent.key, &sent.value));
        assert_eq!(headers::original(&letter.headers), headers::original(&sent.headers), "byte for byte");
    }
    let listed = letters.list(&Filter::default(), Page::first(500)).await.unwrap().letters;
    assert_eq!(listed.len(), dead);
    for summary in listed {
        let letter = letters.get(&summary.id.local).await.unwrap().unwrap();
        let redrive_core::dead_letter::Origin::Topic { partition, offset, .. } = letter.origin else {
            panic!()
        };
        let sent = of_partition[&partition][usize::try_from(offset).unwrap()];
        let back = restored(letter.payload, letter.headers);
        assert_eq!((back.key, back.value), (sent.key.clone(), sent.value.clone()));
        assert_eq!(headers::original(&back.headers), headers::original(&sent.headers));
    }
    stop.cancel();
    indexing.await.unwrap();
    assert_eq!(running.pipeline.health().get(), Ok(()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_its_bytes_no_record_stops_a_partition_on_the_broker_in_this_process() {
    let cluster = mock("anything", 2);
    let brokers = cluster.bootstrap_servers();
    every_record_is_stored_or_a_letter_and_every_letter_is_indexed(&brokers, "anything", records()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_its_bytes_no_record_stops_a_partition_of_a_real_broker() {
    let Some((brokers, topic)) = real(file!(), 2).await else { return };
    // A real broker refuses times far from its own.
    let all = records().into_iter().map(|sent| Sent { timestamp: None, ..sent }).collect();
    every_record_is_stored_or_a_letter_and_every_letter_is_indexed(&brokers, &topic, all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_says_which_header_could_not_be_read() {
    let cluster = mock("cut", 1);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let headers_sent = vec![Header::new("a", "1"), Header { name: "a\0b".into(), value: None }];
    let cut = vec![Header { name: "c\0d".into(), value: None }, Header::new("e", "2")];
    let odd = |headers| Sent { headers, ..Sent::text(0, "{") };
    produce(&brokers, "cut", &[odd(cut), odd(headers_sent)]).await;
    let running = Running::start(options(&brokers, "cut", folder.path()), sink(&database));
    until("no lag", async || lag(&brokers, "cut", "cut-writer").await == 0).await;
    let letters = read(&brokers, "cut-dlq").await;
    let said = letters[0].header("redrive-unreadable-headers").unwrap().text().unwrap();
    assert_eq!(said, "the name of header 1 (c…): it goes on after a zero byte");
    assert_eq!(letters[0].header("e").unwrap().text(), Some("2"), "the others are kept");
    assert_eq!(letters.len(), 2);
    running.stop().await;
}
