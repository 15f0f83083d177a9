//! The publisher: records to topics, each one confirmed by all in-sync replicas or said not to be.
//!
//! Two refusals have an answer of their own. A partition that the topic does not have (a dead-letter topic
//! with fewer of them, spring-kafka #1701): the key decides instead. A record that is too large with its
//! headers: it goes without those that only explain the failure.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header as KafkaHeader, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use redrive_core::failure::Failure;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Cluster, failure};
use crate::headers::shortened;
use crate::outgoing::Outgoing;

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
    /// [`KafkaError`] when the settings contradict each other.
    pub fn new(cluster: Cluster, timeout: Duration) -> Result<Self, KafkaError> {
        let producer = RwLock::new(cluster.producer(timeout).create()?);
        Ok(Self { cluster, timeout, producer })
    }

    /// Publishes records in order, and says of each whether it is confirmed.
    pub async fn publish(&self, records: &[Outgoing]) -> Vec<Result<(), Failure>> {
        let ways = vec![Way::AsIs; records.len()];
        let mut results = self.send(records, &ways).await;
        for _ in 0..2 {
            let again: Vec<(usize, Way)> = results.iter().enumerate().filter_map(another_way).collect();
            if again.is_empty() {
                break;
            }
            let some: Vec<Outgoing> = again.iter().map(|(at, _)| records[*at].clone()).collect();
            let ways: Vec<Way> = again.iter().map(|(_, way)| *way).collect();
            let retried = self.send(&some, &ways).await;
            for ((at, _), result) in again.into_iter().zip(retried) {
                results[at] = result.map_err(|(error, _)| (error, Way::Shortened));
            }
        }
        let explain = |(record, result): (&Outgoing, Result<(), (KafkaError, Way)>)| {
            result.map_err(|(error, _)| {
                failure(&error, &format!("topic {} at {}", record.topic, self.cluster.brokers))
            })
        };
        let results = records.iter().zip(results).map(explain).collect();
        self.mend();
        results
    }

    /// Whether Kafka answers at all when it is asked about this topic.
    pub(crate) async fn is_answered(&self, topic: &str) -> bool {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (topic, within) = (topic.to_owned(), self.timeout.min(LONGEST_ASK));
        let asked = tokio::task::spawn_blocking(move || {
            producer.client().fetch_metadata(Some(&topic), within).is_ok()
        });
        asked.await.unwrap_or(false)
    }

    async fn send(&self, records: &[Outgoing], ways: &[Way]) -> Vec<Result<(), (KafkaError, Way)>> {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reports = Vec::with_capacity(records.len());
        // One after the other, so that they keep their order.
        for (record, way) in records.iter().zip(ways) {
            reports.push(self.enqueue(&producer, record, *way).await);
        }
        let outcomes = reports.into_iter().zip(ways).map(|(report, way)| self.outcome(report, *way));
        join_all(outcomes).await
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

    async fn outcome(
        &self,
        report: Result<DeliveryFuture, KafkaError>,
        way: Way,
    ) -> Result<(), (KafkaError, Way)> {
        let report = report.map_err(|error| (error, way))?;
        let error = match timeout(self.timeout + REPORT_GRACE, report).await {
            Ok(Ok(Ok(_))) => return Ok(()),
            Ok(Ok(Err((error, _)))) => error,
            Ok(Err(_)) => KafkaError::MessageProduction(RDKafkaErrorCode::PurgeQueue),
            Err(_) => KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut),
        };
        Err((error, way))
    }

    /// Replaces a producer that broke, unless somebody else has done so.
    fn mend(&self) {
        let broke = |producer: &FutureProducer| producer.client().fatal_error();
        let Some((_, why)) = broke(&self.producer.read().unwrap_or_else(PoisonError::into_inner)) else {
            return;
        };
        let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
        if broke(&current).is_none() {
            return;
        }
        tracing::warn!(brokers = %self.cluster.brokers, %why, "the Kafka producer broke and is replaced");
        match self.cluster.producer(self.timeout).create() {
            Ok(fresh) => *current = fresh,
            Err(error) => tracing::error!(%error, "the Kafka producer cannot be replaced"),
        }
    }
}

/// Another way for a record that was refused, where there is one.
fn another_way((at, result): (usize, &Result<(), (KafkaError, Way)>)) -> Option<(usize, Way)> {
    let (error, way) = result.as_ref().err()?;
    let next = match (error.rdkafka_error_code()?, way) {
        (RDKafkaErrorCode::UnknownPartition, Way::AsIs) => Way::ByKey,
        (
            RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize,
            Way::AsIs | Way::ByKey,
        ) => Way::Shortened,
        _ => return None,
    };
    Some((at, next))
}

fn record(outgoing: &Outgoing, way: Way) -> FutureRecord<'_, [u8], [u8]> {
    let short = matches!(way, Way::Shortened).then(|| shortened(&outgoing.headers));
    let headers = short.as_ref().unwrap_or(&outgoing.headers);
    let headers = headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |headers, header| {
        headers.insert(KafkaHeader { key: &header.name, value: header.value.as_deref() })
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
