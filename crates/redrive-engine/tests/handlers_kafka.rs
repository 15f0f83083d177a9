//! The `kafka` handler against the in-process broker, and a real one where there is one.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::{Class, Code};
use redrive_core::handler::Handler as _;
use redrive_engine::handlers::{KafkaHandler, KafkaOptions};

const PATIENCE: Duration = redrive_testkit::PATIENCE;

fn event(number: i64, payload: impl Into<Vec<u8>>) -> Event {
    Event {
        id: WorkId(number),
        origin: WorkId(number),
        event_type: "PaymentDone".into(),
        aggregate_type: "Payment".into(),
        key: "zażółć 42".into(),
        payload: payload.into(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: 2,
    }
}

fn handler(brokers: &str, topic: &str, timeout: Duration) -> KafkaHandler {
    let options = KafkaOptions {
        brokers: brokers.to_owned(),
        topic: topic.to_owned(),
        timeout,
        properties: Vec::new(),
    };
    KafkaHandler::new("payments", options).unwrap()
}

fn cluster(topic: &str) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(topic, 1, 1).unwrap();
    cluster
}

/// Reads so many records of a topic from its beginning.
fn read(brokers: &str, topic: &str, many: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", format!("read-{topic}"))
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let end = Instant::now() + PATIENCE;
    let mut records = Vec::new();
    while records.len() < many {
        assert!(Instant::now() < end, "{} of {many} records arrived", records.len());
        let record = consumer.poll(Duration::from_secs(1));
        records.extend(record.map(|record| record.expect("a record").detach()));
    }
    records
}

async fn publishes_a_batch(brokers: &str, topic: &str) {
    let handler = handler(brokers, topic, PATIENCE);
    let batch: Vec<_> = (1..=100).map(|number| event(number, format!("\0\u{fffd} {number}"))).collect();
    assert!(handler.handle(&batch).await.iter().all(Result::is_ok));
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    let records = tokio::task::spawn_blocking(move || read(&brokers, &topic, 100)).await.unwrap();
    for (event, record) in batch.iter().zip(&records) {
        assert_eq!(record.payload(), Some(&event.payload[..]), "records of one key keep their order");
        assert_eq!(record.key(), Some(event.key.as_bytes()));
        let headers = record.headers().unwrap();
        let headers: Vec<_> = headers.iter().map(|header| (header.key, header.value.unwrap())).collect();
        let number = event.id.to_string();
        let idempotency_key = format!("payments:{number}");
        let expected = [
            ("idempotency-key", idempotency_key.as_bytes()),
            ("redrive-event-id", number.as_bytes()),
            ("redrive-event-type", b"PaymentDone"),
            ("redrive-key", event.key.as_bytes()),
            ("redrive-attempt", b"2"),
        ];
        assert_eq!(headers, expected);
    }
}

#[tokio::test]
async fn a_batch_is_published_in_order_with_keys_and_headers() {
    let cluster = cluster("payments");
    publishes_a_batch(&cluster.bootstrap_servers(), "payments").await;
}

#[tokio::test]
async fn a_batch_is_published_to_a_real_broker() {
    let Some(brokers) = redrive_testkit::server("REDRIVE_TEST_KAFKA", file!()) else { return };
    let topic = format!("payments-{}", Timestamp::now().as_nanosecond());
    publishes_a_batch(&brokers, &topic).await;
}

#[tokio::test]
async fn a_record_that_never_fits_fails_alone() {
    let cluster = cluster("payments");
    let handler = handler(&cluster.bootstrap_servers(), "payments", PATIENCE);
    let batch = [event(1, "{}"), event(2, vec![b'x'; 2_000_000]), event(3, "{}")];
    let mut outcomes = handler.handle(&batch).await;
    let failure = outcomes.remove(1).unwrap_err();
    assert_eq!(failure.class, Class::Permanent);
    assert_eq!(failure.code, Some(Code::Kafka("MSG_SIZE_TOO_LARGE".into())));
    assert_eq!(outcomes, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn brokers_that_are_away_are_an_outage_that_ends() {
    let cluster = cluster("payments");
    let handler = handler(&cluster.bootstrap_servers(), "payments", Duration::from_secs(2));
    cluster.broker_down(1).unwrap();
    let failure = handler.handle(&[event(1, "{}")]).await.remove(0).unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert_eq!(failure.code, Some(Code::Kafka("_MSG_TIMED_OUT".into())));
    cluster.broker_up(1).unwrap();
    let mut outcome = handler.handle(&[event(1, "{}")]).await.remove(0);
    for _ in 0..10 {
        if outcome.is_ok() {
            break;
        }
        outcome = handler.handle(&[event(1, "{}")]).await.remove(0);
    }
    assert_eq!(outcome, Ok(()));
}

#[tokio::test]
async fn refused_authorisation_stops_every_event_alike_and_is_transient() {
    let cluster = cluster("payments");
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[error; 1]);
    let handler = handler(&cluster.bootstrap_servers(), "payments", Duration::from_secs(5));
    let failure = handler.handle(&[event(1, "{}")]).await.remove(0).unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert_eq!(failure.code, Some(Code::Kafka("TOPIC_AUTHORIZATION_FAILED".into())));
    let end = Instant::now() + PATIENCE;
    while handler.handle(&[event(1, "{}")]).await[0].is_err() {
        assert!(Instant::now() < end, "it works again once it is allowed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_broken_producer_is_replaced() {
    let cluster = cluster("payments");
    // Fatal for an idempotent producer: without replacing it, nothing would ever be published again.
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::InitProducerId, &[error]);
    let handler = handler(&cluster.bootstrap_servers(), "payments", Duration::from_secs(5));
    let failure = handler.handle(&[event(1, "{}")]).await.remove(0).unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert_eq!(handler.handle(&[event(1, "{}")]).await, [Ok(())]);
}
