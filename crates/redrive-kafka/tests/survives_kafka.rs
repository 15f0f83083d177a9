//! Kafka away, Kafka that refuses: letters wait on disk, in order, and are never lost.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::prepare;
use common::stage::{Running, Sent, count, decision, lag, mock, options, produce, read, sink, until};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use redrive_kafka::headers;
use redrive_kafka::ladder::Ladder;
use redrive_kafka::outgoing::Outgoing;
use redrive_kafka::publisher::Publisher;
use redrive_kafka::record::{Header, Record};
use redrive_kafka::{Cluster, Health, KafkaPipeline, KafkaPipelineOptions, Silent};
use redrive_spool::{Journal, JournalOptions};
use tokio_util::sync::CancellationToken;

/// How long a letter may take: longer than the first one of a new producer, also on a busy machine.
const LETTER_TIMEOUT: Duration = Duration::from_secs(10);

fn letter(topic: &str, number: usize) -> Outgoing {
    Outgoing {
        topic: topic.into(),
        partition: Some(0),
        timestamp: None,
        key: None,
        value: Some(number.to_string().into_bytes()),
        headers: vec![Header::new("kafka_dlt-exception-message", "x".repeat(500))],
    }
}

fn ladder(brokers: &str, folder: &Path) -> Ladder {
    ladder_of(brokers, folder, JournalOptions::default()).0
}

fn ladder_of(brokers: &str, folder: &Path, journal: JournalOptions) -> (Ladder, Health) {
    let publisher = Publisher::new(Cluster::at(brokers), LETTER_TIMEOUT).unwrap();
    // A health to report to, from a pipeline that does not run.
    let pipeline = KafkaPipeline::new(
        options(brokers, "unused", folder),
        common::decoder(),
        sink(&redrive_testkit::sqlite()),
        Arc::new(Silent),
    );
    let health = pipeline.unwrap().health().clone();
    let ladder = Ladder::open("decisions", Arc::new(publisher), folder, journal, health.clone());
    (ladder.unwrap(), health)
}

/// Drains what lies on disk for as long as this goes on.
async fn drain_during(ladder: &Ladder, what: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let ended = async {
        what.await;
        stop.cancel();
    };
    tokio::join!(ladder.drain(&stop), ended);
}

async fn drain(ladder: &Ladder) {
    drain_during(ladder, until("drained", async || ladder.waiting() == (0, 0))).await;
}

fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.value.clone().unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_wait_on_disk_while_kafka_is_away_and_come_back_in_order() {
    let cluster = mock("down", 1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    {
        let ladder = ladder(&brokers, folder.path());
        cluster.broker_down(1).unwrap();
        let letters: Vec<Outgoing> = (0..30).map(|number| letter("down-dlq", number)).collect();
        ladder.settle(&letters).await.unwrap();
        let letters: Vec<Outgoing> = (30..60).map(|number| letter("down-dlq", number)).collect();
        ladder.settle(&letters).await.unwrap();
        assert_eq!(ladder.waiting(), (60, 0));
    }
    // The process ended; another one finds them.
    let ladder = ladder(&brokers, folder.path());
    assert_eq!(ladder.waiting(), (60, 0));
    drain_during(&ladder, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.broker_up(1).unwrap();
        until("drained", async || ladder.waiting() == (0, 0)).await;
    })
    .await;
    let expected: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    assert_eq!(values(&read(&brokers, "down-dlq").await), expected);
}

/// The first 500 letters of a topic that is not there kept all others behind them from being read.
#[tokio::test(flavor = "multi_thread")]
async fn letters_of_a_topic_that_is_not_there_hold_up_no_others() {
    let cluster = mock("there", 1);
    cluster.create_topic("gone-dlq", 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let ladder = ladder(&brokers, folder.path());
    cluster.broker_down(1).unwrap();
    let letters: Vec<Outgoing> = (0..1_200)
        .map(|number| letter(if number % 400 == 399 { "there-dlq" } else { "gone-dlq" }, number))
        .collect();
    // All of the first chunk and most of the others are for the one that is not there.
    ladder.settle(&[&letters[..399], &letters[400..]].concat()).await.unwrap();
    assert_eq!(ladder.waiting(), (1_199, 0));
    cluster.topic_error("gone-dlq", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    cluster.broker_up(1).unwrap();
    drain_during(&ladder, async {
        until("the others", async || ladder.waiting() == (1_197, 0)).await;
        cluster.topic_error("gone-dlq", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
        until("all", async || ladder.waiting() == (0, 0)).await;
    })
    .await;
    assert_eq!(values(&read(&brokers, "there-dlq").await), ["799", "1199"]);
}

/// A stop waited for each of the letters that Kafka refuses, up to the time-out of a letter each.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_letters_that_kafka_refuses() {
    let cluster = mock("stop", 1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    {
        let ladder = ladder(&brokers, folder.path());
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
        let letters: Vec<Outgoing> = (0..5).map(|number| letter("stop-dlq", number)).collect();
        ladder.settle(&letters).await.unwrap();
        assert_eq!(ladder.waiting(), (0, 5));
    }
    cluster.broker_down(1).unwrap();
    // Another process: the client of this one does not know yet what is refused.
    let ladder = ladder(&brokers, folder.path());
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    };
    // The first letter alone would take its time-out.
    let drained = async { tokio::join!(ladder.drain(&stop), stopping) };
    tokio::time::timeout(LETTER_TIMEOUT, drained).await.expect("it waits for no letter");
    assert_eq!(ladder.waiting(), (0, 5), "nothing is lost");
}

/// Letters that are refused and nothing else on disk: once Kafka had been away, health and people were never told
/// that it was back.
#[tokio::test(flavor = "multi_thread")]
async fn kafka_is_known_to_be_back_when_only_refused_letters_wait() {
    let cluster = mock("back", 1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    {
        let ladder = ladder(&brokers, folder.path());
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
        ladder.settle(&[letter("back-dlq", 0)]).await.unwrap();
        assert_eq!(ladder.waiting(), (0, 1));
    }
    cluster.broker_down(1).unwrap();
    let (ladder, health) = ladder_of(&brokers, folder.path(), JournalOptions::default());
    let says = |what: &str| health.get().is_err_and(|said| said.contains(what));
    drain_during(&ladder, async {
        until("away", async || says("cannot be tried again now")).await;
        cluster.broker_up(1).unwrap();
        until("back", async || health.get().is_ok()).await;
    })
    .await;
    assert_eq!(ladder.waiting(), (0, 0));
}

/// It was moved aside and lay there for ever, and health knew nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_on_disk_that_is_no_letter_is_kept_and_told() {
    let cluster = mock("entry", 1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    {
        let outgoing = Journal::open(&folder.path().join("outgoing"), JournalOptions::default()).unwrap();
        outgoing.append(vec!["no letter".into(), letter("entry-dlq", 1).encode()]).await.unwrap();
    }
    for start in ["first", "second"] {
        let (ladder, health) = ladder_of(&brokers, folder.path(), JournalOptions::default());
        let is_told = || health.get().is_err_and(|said| said.contains("is no letter that redrive wrote"));
        drain_during(&ladder, until(start, async || is_told() && ladder.waiting() == (0, 1))).await;
    }
    assert_eq!(values(&read(&brokers, "entry-dlq").await), ["1"], "the others are published");
}

/// Letters had found no place on disk, and then Kafka took them: health went on to say that they wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_is_well_again_when_kafka_takes_what_had_no_room_on_disk() {
    let cluster = mock("room", 1);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    produce(&brokers, "room", &[Sent::text(0, "{")]).await;
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
    let options = KafkaPipelineOptions { folder_size: 100, ..options(&brokers, "room", folder.path()) };
    let running = Running::start(options, sink(&database));
    let health = running.pipeline.health();
    until("no room", async || health.get().is_err_and(|said| said.contains("max-size"))).await;
    until("the letter", async || count(&brokers, "room-dlq").await == 1).await;
    until("well again", async || health.get().is_ok()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kafka_refuses_is_kept_apart_and_holds_up_nobody() {
    let cluster = mock("refused", 1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let ladder = ladder(&brokers, folder.path());
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
    ladder.settle(&[letter("refused-dlq", 0)]).await.unwrap();
    assert_eq!(ladder.waiting(), (0, 1), "on disk, at once, and not in the way");
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    until("the topic is allowed again", async || {
        ladder.settle(&[letter("refused-dlq", 1)]).await.unwrap();
        count(&brokers, "refused-dlq").await > 0
    })
    .await;
    // At the next start it is tried again, and goes.
    drain(&ladder).await;
    assert!(values(&read(&brokers, "refused-dlq").await).contains(&"0".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_too_large_with_its_headers_goes_without_them_and_else_to_disk() {
    let Some(brokers) = redrive_testkit::server("REDRIVE_TEST_KAFKA", file!()) else { return };
    let topic = format!("t-{}", uuid::Uuid::now_v7().simple());
    common::stage::create(&brokers, &topic, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let ladder = ladder(&brokers, folder.path());
    // The topic takes 1,048,588 bytes.
    let fits = Outgoing { value: Some(vec![b'x'; 1_048_200]), ..letter(&topic, 0) };
    let never = Outgoing { value: Some(vec![b'x'; 1_100_000]), ..letter(&topic, 0) };
    ladder.settle(&[fits, never, letter(&topic, 7)]).await.unwrap();
    assert_eq!(ladder.waiting(), (0, 1));
    let records = read(&brokers, &topic).await;
    assert_eq!(records.len(), 2);
    let large = records.iter().find(|record| record.size() > 1_000).unwrap();
    assert!(large.headers.is_empty(), "without what only explains");
}

/// A broker refuses what the client sends it together as one: letters that are small enough by themselves went to
/// disk, or lost the headers that explain them, because of one that is not, or because there were many of them.
#[tokio::test(flavor = "multi_thread")]
async fn small_letters_are_not_refused_for_their_company() {
    let Some(brokers) = redrive_testkit::server("REDRIVE_TEST_KAFKA", file!()) else { return };
    let topic = format!("t-{}", uuid::Uuid::now_v7().simple());
    common::stage::create_with(&brokers, &topic, 1, &[("max.message.bytes", "20000")]).await;
    let folder = tempfile::tempdir().unwrap();
    let ladder = ladder(&brokers, folder.path());
    let mut letters: Vec<Outgoing> = (0..100).map(|number| letter(&topic, number)).collect();
    let never = Outgoing { value: Some(vec![b'x'; 30_000]), ..letter(&topic, 0) };
    letters.insert(40, never);
    letters.insert(7, Outgoing { value: Some(vec![b'y'; 19_800]), ..letter(&topic, 0) });
    ladder.settle(&letters).await.unwrap();
    assert_eq!(ladder.waiting(), (0, 1), "only what is too large by itself");
    let records = read(&brokers, &topic).await;
    let (large, small): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.size() > 1_000);
    assert_eq!(large.len(), 1);
    assert!(large[0].headers.is_empty(), "without what only explains");
    let mut numbers: Vec<usize> = values(&small).iter().map(|value| value.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "each once");
    assert!(small.iter().all(|record| record.headers.len() == 1), "with what explains them");
}

/// A letter for which there is no room on disk had all letters of its batch published again, every five
/// seconds, for as long as it waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_without_a_safe_place_has_no_other_published_twice() {
    let Some(brokers) = redrive_testkit::server("REDRIVE_TEST_KAFKA", file!()) else { return };
    let topic = format!("t-{}", uuid::Uuid::now_v7().simple());
    common::stage::create(&brokers, &topic, 1).await;
    let folder = tempfile::tempdir().unwrap();
    // Larger than what its records may be in all: one of those that are too large for Kafka fits.
    let journal = JournalOptions { max_size: 2 << 20, ..Default::default() };
    let (ladder, health) = ladder_of(&brokers, folder.path(), journal);
    let too_large = |bytes: usize| Outgoing { value: Some(vec![b'x'; bytes]), ..letter(&topic, 0) };
    let mut letters: Vec<Outgoing> = (0..5).map(|number| letter(&topic, number)).collect();
    letters.insert(2, too_large(1_200_000));
    letters.push(too_large(2_200_000));
    let unsettled = ladder.settle(&letters).await.unwrap_err();
    assert_eq!(unsettled.open, letters[6..], "the other one is on disk, and the small ones in Kafka");
    assert_eq!(ladder.waiting(), (0, 1));
    let said = health.get().unwrap_err();
    assert!(said.contains("and 1 wait") && said.contains("raise `fallback.max-size`"), "{said}");
    assert!(!said.contains("fit, 0 of"), "{said}");
    let unsettled = ladder.settle(&unsettled.open).await.unwrap_err();
    assert_eq!(unsettled.open, letters[6..]);
    assert_eq!(values(&read(&brokers, &topic).await), ["0", "1", "2", "3", "4"], "each once");
}

/// The same of a whole pipeline: while its batch waits for room, no letter is published again.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_waits_for_room_publishes_nothing_again() {
    let Some(brokers) = redrive_testkit::server("REDRIVE_TEST_KAFKA", file!()) else { return };
    let topic = format!("t-{}", uuid::Uuid::now_v7().simple());
    let database = redrive_testkit::sqlite();
    prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    // Larger than what the topic of letters takes.
    common::stage::create_with(&brokers, &topic, 1, &[("max.message.bytes", "4000000")]).await;
    common::stage::create(&brokers, &format!("{topic}-dlq"), 1).await;
    let mut sent: Vec<Sent> = (0..5).map(|_| Sent::text(0, "{")).collect();
    sent.insert(2, Sent::text(0, vec![b'x'; 1_200_000]));
    produce(&brokers, &topic, &sent).await;
    let options = KafkaPipelineOptions { folder_size: 1 << 20, ..options(&brokers, &topic, folder.path()) };
    let running = Running::start(options, sink(&database));
    until("it says so", async || {
        running.pipeline.health().get().is_err_and(|said| said.contains("max-size"))
    })
    .await;
    // Longer than the pause between two attempts.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(count(&brokers, &format!("{topic}-dlq")).await, 5);
    assert!(lag(&brokers, &topic, &format!("{topic}-writer")).await > 0, "nothing of it is committed");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_stops_in_mid_stream_loses_nothing() {
    let cluster = mock("stops", 2);
    let brokers = cluster.bootstrap_servers();
    let database = redrive_testkit::sqlite();
    let mut client = prepare(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(options(&brokers, "stops", folder.path()), sink(&database));
    let sent = |from: usize| -> Vec<Sent> {
        let one = |id: usize| {
            if id % 10 == 3 { Sent::text(id as i32 % 2, "{") } else { decision(id as i32 % 2, id) }
        };
        (from..from + 200).map(one).collect()
    };
    produce(&brokers, "stops", &sent(0)).await;
    until("it runs", async || client.number("SELECT COUNT(*) FROM decision_log").await == 180).await;
    for round in 1..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.broker_down(1).unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.broker_up(1).unwrap();
        produce(&brokers, "stops", &sent(round * 200)).await;
    }
    until("rows", async || client.number("SELECT COUNT(*) FROM decision_log").await == 720).await;
    until("no lag", async || lag(&brokers, "stops", "stops-writer").await == 0).await;
    until("all is well", async || running.pipeline.health().get().is_ok()).await;
    until("letters", async || count(&brokers, "stops-dlq").await >= 80).await;
    let mut origins: Vec<String> = read(&brokers, "stops-dlq")
        .await
        .iter()
        .map(|letter| headers::read(letter).origin.unwrap().to_string())
        .collect();
    origins.sort();
    origins.dedup();
    assert_eq!(origins.len(), 80);
    assert_eq!(running.pipeline.on_disk(), (0, 0));
    running.stop().await;
}

/// A drainer that asked an empty journal again and again took a whole processor.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_ladder_costs_nothing() {
    let cluster = mock("idle", 1);
    let folder = tempfile::tempdir().unwrap();
    let brokers = cluster.bootstrap_servers();
    {
        // With something acknowledged in its past, too.
        let ladder = ladder(&brokers, folder.path());
        cluster.broker_down(1).unwrap();
        ladder.settle(&[letter("idle-dlq", 0)]).await.unwrap();
        cluster.broker_up(1).unwrap();
        drain(&ladder).await;
    }
    let ladder = ladder(&brokers, folder.path());
    let stop = CancellationToken::new();
    let polls = std::sync::atomic::AtomicU64::new(0);
    let drain = ladder.drain(&stop);
    tokio::pin!(drain);
    let watched = std::future::poll_fn(|context| {
        polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        drain.as_mut().poll(context)
    });
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        stop.cancel();
    };
    tokio::join!(watched, stopping);
    let polls = polls.into_inner();
    assert!(polls < 50, "{polls} looks in about a second");
}
