//! The `kafka` handler: one record per event.
//!
//! The key is the event's key (none where it is empty), the value the payload, the headers those of the
//! [envelope](Envelope). The producer waits for all in-sync replicas (`acks=all`) and is idempotent, so
//! that its own retries neither double nor reorder records. A whole batch is under way at once, and each
//! event is done when *its* delivery report says so.
//!
//! Failures are classified by [`redrive_core::classify::kafka`], with one difference: refused
//! authorisation, and a producer that broke, are transient here. They stop every event alike until a
//! person acts, and an event that waits in its table loses nothing by waiting.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use redrive_core::classify::kafka;
use redrive_core::event::Event;
use redrive_core::failure::{Class, Code, Failure};
use redrive_core::handler::Handler;
use tokio::time::{Instant, sleep};

use super::envelope::Envelope;
use super::secret::Secret;
use super::setup::SetupError;
use redrive_kafka::error_name::name;
use redrive_kafka::{PARTITIONER, RefusedSettings};

/// The most events that are handed over in one call.
const MAX_BATCH: usize = 500;
/// How often a full queue is looked at again.
const QUEUE_POLL: Duration = Duration::from_millis(10);
/// How much longer than the producer itself the delivery reports are waited for.
const REPORT_GRACE: Duration = Duration::from_secs(1);
/// How long Kafka may take to answer a new producer.
const LONGEST_ASK: Duration = Duration::from_secs(5);

/// Where a `kafka` handler publishes to.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// The brokers to start from, `host:port`, comma-separated.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// How long a record may take until all in-sync replicas have it.
    pub timeout: Duration,
    /// Further settings of the client, such as `security.protocol`; what makes a record safe stays as it is.
    pub properties: Vec<(String, Secret)>,
}

/// Publishes events to a topic.
pub struct KafkaHandler {
    pipeline: String,
    options: KafkaOptions,
    /// Replaced when it broke: a fatal error ends an idempotent producer for good.
    producer: RwLock<FutureProducer>,
}

impl fmt::Debug for KafkaHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaHandler").field("options", &self.options).finish_non_exhaustive()
    }
}

impl KafkaHandler {
    /// A handler for the events of this pipeline. Brokers that are away are found when it is used.
    ///
    /// # Errors
    /// [`SetupError::Kafka`] when librdkafka does not accept the settings.
    pub fn new(pipeline: &str, options: KafkaOptions) -> Result<Self, SetupError> {
        let producer = RwLock::new(producer(&options)?);
        Ok(Self { pipeline: pipeline.to_owned(), options, producer })
    }

    /// Hands a record to the producer; the report comes later.
    async fn enqueue(&self, producer: &FutureProducer, event: &Event) -> Result<DeliveryFuture, KafkaError> {
        let deadline = Instant::now() + self.options.timeout;
        let mut record = self.record(event);
        loop {
            match producer.send_result(record) {
                Ok(report) => return Ok(report),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < deadline =>
                {
                    record = back;
                    sleep(QUEUE_POLL).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    fn record<'a>(&'a self, event: &'a Event) -> FutureRecord<'a, str, [u8]> {
        let envelope = Envelope::of(&self.pipeline, event);
        let headers = envelope.headers().into_iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        });
        let record = FutureRecord::to(&self.options.topic).payload(&event.payload[..]).headers(headers);
        if event.key.is_empty() { record } else { record.key(&event.key) }
    }

    async fn outcome(&self, report: Result<DeliveryFuture, KafkaError>) -> Result<(), Failure> {
        let patience = self.options.timeout + REPORT_GRACE;
        match tokio::time::timeout(patience, report.map_err(|error| self.explain(&error))?).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err((error, _)))) => Err(self.explain(&error)),
            Ok(Err(_)) => Err(self.failure(RDKafkaErrorCode::PurgeQueue, "the producer was closed")),
            Err(_) => Err(self.failure(RDKafkaErrorCode::MessageTimedOut, "no delivery report in time")),
        }
    }

    fn explain(&self, error: &KafkaError) -> Failure {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.failure(code, &error.to_string())
    }

    fn failure(&self, code: RDKafkaErrorCode, what: &str) -> Failure {
        let KafkaOptions { brokers, topic, .. } = &self.options;
        let message = format!("topic {topic} at {brokers}: {what}");
        Failure::new(class(code), "Kafka", message).with_code(Code::Kafka(name(code)))
    }

    fn current(&self) -> FutureProducer {
        self.producer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces a producer that broke, unless somebody else has done so.
    fn mend(&self, used: &FutureProducer) {
        let Some((_, why)) = used.client().fatal_error() else { return };
        let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
        if current.client().fatal_error().is_none() {
            return;
        }
        match producer(&self.options) {
            Ok(fresh) => self.replace(&mut current, fresh, &why),
            Err(error) => tracing::error!(%error, "the Kafka producer cannot be replaced"),
        }
    }

    /// Replaces a producer for which the time ran out with every record, if Kafka answers a new one. A restart of a
    /// broker may leave it stuck, or without any broker for good (confluentinc/librdkafka#5301), and it never says so.
    async fn replace_stuck(&self, outcomes: &[Result<(), Failure>]) {
        let late = Some(Code::Kafka(name(RDKafkaErrorCode::MessageTimedOut)));
        let is_late = |outcome: &Result<(), Failure>| outcome.as_ref().is_err_and(|why| why.code == late);
        if outcomes.is_empty() || !outcomes.iter().all(is_late) {
            return;
        }
        let Ok(fresh) = producer(&self.options) else { return };
        let topic = self.options.topic.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = fresh.client().fetch_metadata(Some(&topic), LONGEST_ASK).ok()?;
            (!metadata.brokers().is_empty()).then_some(fresh)
        });
        if let Ok(Some(fresh)) = asked.await {
            let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
            self.replace(&mut current, fresh, "nothing was confirmed in time, though Kafka answers");
        }
    }

    fn replace(&self, current: &mut FutureProducer, fresh: FutureProducer, why: &str) {
        tracing::warn!(brokers = %self.options.brokers, %why, "the Kafka producer broke and is replaced");
        let broken = std::mem::replace(current, fresh);
        // It waits for its threads: neither under the lock nor on a thread that others need.
        std::thread::spawn(move || drop(broken));
    }
}

#[async_trait]
impl Handler for KafkaHandler {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let producer = self.current();
        let mut reports = Vec::with_capacity(batch.len());
        // One after the other, so that records of one key keep their order.
        for event in batch {
            reports.push(self.enqueue(&producer, event).await);
        }
        let outcomes = join_all(reports.into_iter().map(|report| self.outcome(report))).await;
        self.mend(&producer);
        self.replace_stuck(&outcomes).await;
        outcomes
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }
}

fn producer(options: &KafkaOptions) -> Result<FutureProducer, RefusedSettings> {
    // librdkafka takes 0 for "for ever", and a whole number of milliseconds.
    let timeout = options.timeout.as_millis().clamp(1, i32::MAX as u128);
    let mut config = ClientConfig::new();
    config.set("client.id", "redrive").set(PARTITIONER.0, PARTITIONER.1);
    for (name, value) in &options.properties {
        config.set(name, value.expose());
    }
    config
        .set("bootstrap.servers", &options.brokers)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", timeout.to_string())
        // A batch is handed over at once; waiting longer for more only adds latency.
        .set("linger.ms", "1")
        // The client remembers that a topic is missing or refused until it asks again: by default for
        // five minutes after a person has mended it.
        .set("topic.metadata.refresh.interval.ms", "10000")
        .create()
        .map_err(|error| {
            RefusedSettings::new(&error, options.properties.iter().map(|(_, value)| value.expose()))
        })
}

fn class(code: RDKafkaErrorCode) -> Class {
    use RDKafkaErrorCode as E;
    match code {
        // Ours is broken, not the event.
        E::Fatal | E::PurgeQueue | E::PurgeInflight | E::BrokerDestroy | E::Inconsistent
        | E::OutOfOrderSequenceNumber | E::UnknownProducerId | E::InvalidProducerEpoch
        | E::InvalidProducerIdMapping | E::ProducerFenced | E::Fenced | E::GaplessGuarantee
        // A person must act, and then every event can go.
        | E::TopicAuthorizationFailed | E::ClusterAuthorizationFailed | E::SaslAuthenticationFailed
        | E::Authentication | E::UnsupportedSASLMechanism | E::IllegalSASLState
        // The topic is missing, as far as the brokers know: it may be on its way.
        | E::UnknownTopic => Class::Transient,
        _ => kafka::classify(&name(code)),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;

    use super::*;

    /// A restart of the broker left a producer without any broker: every event waited until redrive was restarted.
    #[tokio::test]
    async fn a_producer_that_has_lost_its_brokers_is_replaced_when_kafka_answers() {
        let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        broker.create_topic("payments", 1, 1).unwrap();
        let options = |brokers: String| KafkaOptions {
            brokers,
            topic: "payments".into(),
            timeout: Duration::from_secs(1),
            properties: Vec::new(),
        };
        let lost = producer(&options("127.0.0.1:9".into())).unwrap();
        let handler = KafkaHandler {
            pipeline: "orders".into(),
            options: options(broker.bootstrap_servers()),
            producer: RwLock::new(lost),
        };
        let late = handler.failure(RDKafkaErrorCode::MessageTimedOut, "");
        let other = handler.failure(RDKafkaErrorCode::MessageSizeTooLarge, "");
        let in_use = || handler.current().client().native_ptr() as usize;
        let was = in_use();
        handler.replace_stuck(&[Err(late.clone()), Err(other)]).await;
        handler.replace_stuck(&[Err(late.clone()), Ok(())]).await;
        assert_eq!(in_use(), was, "an answer speaks for the producer");
        handler.replace_stuck(&[Err(late)]).await;
        assert_ne!(in_use(), was);
    }

    /// librdkafka's own default sends keys elsewhere than Java's client does, so events of one aggregate were in two
    /// partitions, and out of order.
    #[tokio::test]
    async fn keys_go_to_the_partitions_that_javas_client_chooses() {
        let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        broker.create_topic("payments", 100, 1).unwrap();
        let options = KafkaOptions {
            brokers: broker.bootstrap_servers(),
            topic: "payments".into(),
            timeout: Duration::from_secs(120),
            properties: Vec::new(),
        };
        let producer = producer(&options).unwrap();
        // The hashes are those of the tests of Kafka's own client.
        for (key, hash) in [("21", -973_932_308_i32), ("foobar", -790_332_482), ("abc", 479_470_107)] {
            let record = FutureRecord::to("payments").key(key).payload("{}");
            let delivery = producer.send(record, options.timeout).await.unwrap();
            assert_eq!(delivery.partition, (hash & 0x7fff_ffff) % 100, "{key}");
        }
    }

    #[test]
    fn what_stops_every_event_alike_is_transient() {
        use RDKafkaErrorCode as E;
        for code in [
            E::MessageTimedOut,
            E::BrokerTransportFailure,
            E::AllBrokersDown,
            E::QueueFull,
            E::Resolve,
            E::NotEnoughReplicas,
            E::NotLeaderForPartition,
            E::UnknownTopicOrPartition,
            E::UnknownTopic,
            E::TopicAuthorizationFailed,
            E::Fatal,
            E::OutOfOrderSequenceNumber,
        ] {
            assert_eq!(class(code), Class::Transient, "{code:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_record_is_permanent() {
        for code in [RDKafkaErrorCode::MessageSizeTooLarge, RDKafkaErrorCode::InvalidRecord] {
            assert_eq!(class(code), Class::Permanent, "{code:?}");
        }
    }
}
