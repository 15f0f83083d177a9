//! The publisher: records to topics, each one confirmed by all in-sync replicas or said not to be.
//!
//! Two refusals have an answer of their own. A partition that the topic does not have (a dead-letter topic
//! with fewer of them, spring-kafka #1701): the key decides instead. Too large: a broker says so of all records
//! that the client sent it together, though each may be small enough, so they are sent again in halves; one
//! that is too large by itself goes without the headers that only explain the failure.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use redrive_core::failure::{Code, Failure};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Cluster, failure};
use crate::error_name::name;
use crate::headers::shortened;
use crate::outgoing::Outgoing;
use crate::settings::RefusedSettings;
use crate::topics;

/// How often a full queue is looked at again.
const QUEUE_POLL: Duration = Duration::from_millis(5);
/// How much longer than the client itself its reports are waited for.
const REPORT_GRACE: Duration = Duration::from_secs(2);

/// How long Kafka may take to say whether it is there.
const LONGEST_ASK: Duration = Duration::from_secs(5);

/// Publishes records.
pub struct Publisher {
    cluster: Cluster,
    timeout: Duration,
    /// Replaced when it broke: a fatal error ends an idempotent producer for good.
    producer: RwLock<FutureProducer>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// The way in which a record is sent.
#[derive(Clone, Copy)]
enum Way {
    AsIs,
    ByKey,
    Shortened,
}

impl Publisher {
    /// A publisher to this cluster; a record may take so long. Brokers that are away are found when it is used.
    ///
    /// # Errors
    /// [`RefusedSettings`] when librdkafka does not accept the settings.
    pub fn new(cluster: Cluster, timeout: Duration) -> Result<Self, RefusedSettings> {
        let producer = RwLock::new(cluster.create(&cluster.producer(timeout))?);
        Ok(Self { cluster, timeout, producer })
    }

    /// Publishes records in order, and says of each whether it is confirmed.
    pub async fn publish(&self, records: &[Outgoing]) -> Vec<Result<(), Failure>> {
        let mut ways = vec![Way::AsIs; records.len()];
        let mut results = self.send(records, &ways).await;
        let without: Vec<usize> = which(&results, is_without_partition);
        if !without.is_empty() {
            without.iter().for_each(|at| ways[*at] = Way::ByKey);
            self.send_some(records, &ways, &without, &mut results).await;
        }
        self.send_large(records, &mut ways, &mut results).await;
        let explain = |(record, result): (&Outgoing, Result<(), KafkaError>)| {
            result.map_err(|error| {
                failure(&error, &format!("topic {} at {}", record.topic, self.cluster.brokers))
            })
        };
        let results = records.iter().zip(results).map(explain).collect();
        self.mend();
        results
    }

    /// Whether Kafka answers at all when it is asked about this topic.
    pub(crate) async fn is_answered(&self, topic: &str) -> bool {
        let (cluster, topic) = (self.cluster.clone(), topic.to_owned());
        let asked = tokio::task::spawn_blocking(move || topics::is_answered(&cluster, &topic, LONGEST_ASK));
        asked.await.unwrap_or(false)
    }

    /// Kafka answers, and yet nothing was confirmed: if the time ran out, an idempotent producer may be stuck.
    /// After a restart of a broker one was seen that sent nothing any more, without saying that it broke.
    pub(crate) fn replace_stuck(&self, failure: &Failure) {
        if failure.code == Some(Code::Kafka(name(RDKafkaErrorCode::MessageTimedOut))) {
            let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
            self.replace(&mut current, &failure.message);
        }
    }

    /// Sends what was too large again: in halves of halves, then by itself, then without its explanations.
    async fn send_large(
        &self,
        records: &[Outgoing],
        ways: &mut [Way],
        results: &mut [Result<(), KafkaError>],
    ) {
        let large = which(results, is_too_large);
        // The first half is on top.
        let mut portions = if records.len() > 1 { halves(&large) } else { Vec::new() };
        let mut alone = if records.len() > 1 { Vec::new() } else { large };
        while let Some(portion) = portions.pop() {
            self.send_some(records, ways, &portion, results).await;
            let large: Vec<usize> =
                portion.iter().copied().filter(|at| is_too_large(&results[*at])).collect();
            if let Some(away) = portion.iter().find_map(|at| passing(&results[*at])) {
                // It would be waited for once more with each of the others.
                portions.into_iter().flatten().chain(large).for_each(|at| results[at] = Err(away.clone()));
                return;
            }
            if portion.len() > 1 { portions.extend(halves(&large)) } else { alone.extend(large) }
        }
        for at in alone {
            ways[at] = Way::Shortened;
            self.send_some(records, ways, &[at], results).await;
        }
    }

    /// Sends those at these places, and notes what became of them.
    async fn send_some(
        &self,
        records: &[Outgoing],
        ways: &[Way],
        places: &[usize],
        results: &mut [Result<(), KafkaError>],
    ) {
        let some: Vec<Outgoing> = places.iter().map(|at| records[*at].clone()).collect();
        let ways: Vec<Way> = places.iter().map(|at| ways[*at]).collect();
        for (at, result) in places.iter().zip(self.send(&some, &ways).await) {
            results[*at] = result;
        }
    }

    async fn send(&self, records: &[Outgoing], ways: &[Way]) -> Vec<Result<(), KafkaError>> {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reports = Vec::with_capacity(records.len());
        // One after the other, so that they keep their order.
        for (record, way) in records.iter().zip(ways) {
            reports.push(self.enqueue(&producer, record, *way).await);
        }
        join_all(reports.into_iter().map(|report| self.outcome(report))).await
    }

    async fn enqueue(
        &self,
        producer: &FutureProducer,
        outgoing: &Outgoing,
        way: Way,
    ) -> Result<DeliveryFuture, KafkaError> {
        let deadline = Instant::now() + self.timeout;
        let mut next = record(outgoing, way);
        loop {
            match producer.send_result(next) {
                Ok(report) => return Ok(report),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < deadline =>
                {
                    next = back;
                    sleep(QUEUE_POLL).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    async fn outcome(&self, report: Result<DeliveryFuture, KafkaError>) -> Result<(), KafkaError> {
        match timeout(self.timeout + REPORT_GRACE, report?).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err((error, _)))) => Err(error),
            Ok(Err(_)) => Err(KafkaError::MessageProduction(RDKafkaErrorCode::PurgeQueue)),
            Err(_) => Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)),
        }
    }

    /// Replaces a producer that broke, unless somebody else has done so.
    fn mend(&self) {
        let broke = |producer: &FutureProducer| producer.client().fatal_error();
        let Some((_, why)) = broke(&self.producer.read().unwrap_or_else(PoisonError::into_inner)) else {
            return;
        };
        let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
        if broke(&current).is_some() {
            self.replace(&mut current, &why);
        }
    }

    fn replace(&self, current: &mut FutureProducer, why: &str) {
        tracing::warn!(brokers = %self.cluster.brokers, why, "the Kafka producer broke and is replaced");
        match self.cluster.create(&self.cluster.producer(self.timeout)) {
            // It waits for its threads: neither under the lock nor on a thread that others need.
            Ok(fresh) => {
                let broken = std::mem::replace(current, fresh);
                std::thread::spawn(move || drop(broken));
            }
            Err(error) => tracing::error!(%error, "the Kafka producer cannot be replaced"),
        }
    }
}

/// The places of results of which this holds.
fn which(results: &[Result<(), KafkaError>], holds: impl Fn(&Result<(), KafkaError>) -> bool) -> Vec<usize> {
    (0..results.len()).filter(|at| holds(&results[*at])).collect()
}

fn code(result: &Result<(), KafkaError>) -> Option<RDKafkaErrorCode> {
    result.as_ref().err().and_then(KafkaError::rdkafka_error_code)
}

fn is_without_partition(result: &Result<(), KafkaError>) -> bool {
    code(result) == Some(RDKafkaErrorCode::UnknownPartition)
}

fn is_too_large(result: &Result<(), KafkaError>) -> bool {
    use RDKafkaErrorCode::{InvalidMessageSize, MessageBatchTooLarge, MessageSizeTooLarge};
    matches!(code(result), Some(MessageSizeTooLarge | InvalidMessageSize | MessageBatchTooLarge))
}

/// An error that may pass.
fn passing(result: &Result<(), KafkaError>) -> Option<KafkaError> {
    let error = result.as_ref().err()?;
    failure(error, "").class.is_retryable().then(|| error.clone())
}

/// The second half and the first, without those that are empty.
fn halves(places: &[usize]) -> Vec<Vec<usize>> {
    let (first, second) = places.split_at(places.len().div_ceil(2));
    [second, first].into_iter().filter(|half| !half.is_empty()).map(<[usize]>::to_vec).collect()
}

fn record(outgoing: &Outgoing, way: Way) -> FutureRecord<'_, [u8], [u8]> {
    let short = matches!(way, Way::Shortened).then(|| shortened(&outgoing.headers));
    let headers = short.as_ref().unwrap_or(&outgoing.headers);
    let headers = headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |headers, header| {
        redrive_kafka_headers::push(headers, header.name.as_bytes(), header.value.as_deref())
    });
    let mut record = FutureRecord::to(&outgoing.topic).headers(headers);
    if let (Some(partition), Way::AsIs) = (outgoing.partition, way) {
        record = record.partition(partition);
    }
    if let Some(key) = &outgoing.key {
        record = record.key(&key[..]);
    }
    if let Some(value) = &outgoing.value {
        record = record.payload(&value[..]);
    }
    if let Some(timestamp) = outgoing.timestamp {
        record = record.timestamp(timestamp);
    }
    record
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    use super::*;

    fn in_use(publisher: &Publisher) -> usize {
        publisher.producer.read().unwrap().client().native_ptr() as usize
    }

    fn letter() -> Outgoing {
        Outgoing {
            topic: "logs-dlq".to_owned(),
            partition: None,
            timestamp: None,
            key: None,
            value: Some(b"{}".to_vec()),
            headers: Vec::new(),
        }
    }

    fn broker() -> MockCluster<'static, DefaultProducerContext> {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("logs-dlq", 1, 1).unwrap();
        broker
    }

    async fn publishes(publisher: &Publisher) {
        let is_published = async || publisher.publish(&[letter()]).await.remove(0).is_ok();
        redrive_testkit::eventually(redrive_testkit::PATIENCE, "it is published", is_published).await;
    }

    /// After a restart of a broker a producer sent nothing any more, and letters stayed on disk for ever. Here it
    /// is never given the number that it must have before it sends, while the broker answers all else.
    #[tokio::test]
    async fn a_producer_that_is_stuck_while_kafka_answers_is_replaced() {
        let broker = broker();
        let wait = RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
        broker.request_errors(RDKafkaApiKey::InitProducerId, &[wait; 1_000]);
        let cluster = Cluster::at(&broker.bootstrap_servers());
        let publisher = Publisher::new(cluster, Duration::from_secs(1)).unwrap();

        let failure = publisher.publish(&[letter()]).await.remove(0).unwrap_err();
        assert_eq!(failure.code, Some(Code::Kafka(name(RDKafkaErrorCode::MessageTimedOut))));
        assert!(publisher.is_answered("logs-dlq").await);
        let stuck = in_use(&publisher);
        publisher.replace_stuck(&Failure::transient("Kafka", "something else"));
        assert_eq!(in_use(&publisher), stuck, "only what timed out speaks of the producer");
        publisher.replace_stuck(&failure);
        assert_ne!(in_use(&publisher), stuck);

        broker.clear_request_errors(RDKafkaApiKey::InitProducerId);
        publishes(&publisher).await;
    }

    /// librdkafka's own default sends keys elsewhere than Java's client does: a redriven record without a partition of
    /// its own was in another one than its neighbours.
    #[tokio::test]
    async fn keys_go_to_the_partitions_that_javas_client_chooses() {
        let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        broker.create_topic("logs", 100, 1).unwrap();
        let mut cluster = Cluster::at(&broker.bootstrap_servers());
        let partition = async |cluster: &Cluster, key: &str| {
            let producer: FutureProducer = cluster.producer(redrive_testkit::PATIENCE).create().unwrap();
            let record = FutureRecord::to("logs").key(key).payload("{}");
            producer.send(record, redrive_testkit::PATIENCE).await.unwrap().partition
        };
        // The hashes are those of the tests of Kafka's own client.
        for (key, hash) in [("21", -973_932_308_i32), ("foobar", -790_332_482), ("abc", 479_470_107)] {
            assert_eq!(partition(&cluster, key).await, (hash & 0x7fff_ffff) % 100, "{key}");
        }
        cluster.properties.push(("partitioner".to_owned(), "fnv1a".to_owned()));
        assert_ne!(partition(&cluster, "abc").await, 479_470_107 % 100, "a property overrides it");
    }

    /// A producer that had lost its brokers was asked itself whether Kafka answers: so it seemed to be away, the
    /// producer stayed, and letters stayed on disk for ever.
    #[tokio::test]
    async fn a_producer_that_has_lost_its_brokers_is_replaced_when_kafka_answers_others() {
        let broker = broker();
        let second = Duration::from_secs(1);
        let lost = Cluster::at("127.0.0.1:9").producer(second).create().unwrap();
        let cluster = Cluster::at(&broker.bootstrap_servers());
        let publisher = Publisher { cluster, timeout: second, producer: RwLock::new(lost) };
        let failure = publisher.publish(&[letter()]).await.remove(0).unwrap_err();
        assert!(publisher.is_answered("logs-dlq").await);
        publisher.replace_stuck(&failure);
        publishes(&publisher).await;
    }
}
