//! The lag of a consumer: how many records of its partitions the group has not committed.
//!
//! What a consumer has polled says nothing about it: records wait in lanes, and after a restart nothing was polled yet. So
//! it is the end of each partition less what the group has committed, as Kafka's own tools count it. Both come from
//! librdkafka's statistics where it fetches the partition. Where it does not (paused, or without a leader) they are
//! asked for, on a thread of their own and for all such partitions at once: polling never waits for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;

/// How often it is measured, and librdkafka gives its statistics.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// How long the brokers may take to answer.
const ASK: Duration = Duration::from_secs(5);

/// What is known of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    /// What the group has committed.
    committed: Option<i64>,
    /// The first record that is still there, and the place of the next one.
    ends: Option<(i64, i64)>,
    /// Whether librdkafka fetches it, as far as its last statistics say.
    is_fetched: bool,
}

impl Known {
    /// How many records are not committed. A group that has committed nothing begins with the first that is there.
    fn lag(&self) -> Option<i64> {
        let (first, next) = self.ends?;
        Some((next - self.committed.unwrap_or(first).max(first)).max(0))
    }
}

/// The lag of one consumer. Clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lag(Arc<Mutex<HashMap<i32, Known>>>);

impl Lag {
    /// A partition was given to this consumer.
    pub(crate) fn open(&self, partition: i32) {
        self.known().insert(partition, Known::default());
    }

    /// It was taken away.
    pub(crate) fn close(&self, partition: i32) {
        self.known().remove(&partition);
    }

    /// So far is committed.
    pub(crate) fn committed(&self, partition: i32, next: i64) {
        if let Some(known) = self.known().get_mut(&partition) {
            known.committed = Some(known.committed.map_or(next, |before| before.max(next)));
        }
    }

    /// What librdkafka knows; of partitions that are paused it has stopped looking.
    pub(crate) fn read(&self, statistics: &Statistics, topic: &str, is_paused: impl Fn(i32) -> bool) {
        let Some(found) = statistics.topics.get(topic) else { return };
        let mut known = self.known();
        for found in found.partitions.values() {
            let Some(known) = known.get_mut(&found.partition) else { continue };
            let is_known = found.fetch_state == "active" && found.broker >= 0 && found.hi_offset >= 0;
            known.is_fetched = is_known && !is_paused(found.partition);
            if known.is_fetched {
                known.ends = Some((found.lo_offset.max(0), found.hi_offset));
            }
            if found.committed_offset >= 0 && known.committed.is_none() {
                known.committed = Some(found.committed_offset);
            }
        }
    }

    /// How many records are not committed, of the partitions of which that is known; and how many partitions there are.
    fn sum(&self) -> (i64, usize) {
        let known = self.known();
        (known.values().filter_map(Known::lag).sum(), known.len())
    }

    /// The partitions that librdkafka does not fetch, or of which it does not know what is committed.
    fn unknown(&self) -> Vec<i32> {
        let is_unknown = |known: &Known| !known.is_fetched || known.committed.is_none();
        self.known().iter().filter(|(_, known)| is_unknown(known)).map(|(partition, _)| *partition).collect()
    }

    fn answered(&self, partition: i32, ends: Option<(i64, i64)>, committed: Option<i64>) {
        if let Some(known) = self.known().get_mut(&partition) {
            known.ends = ends.or(known.ends);
            known.committed = committed.max(known.committed);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<i32, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose lag it is.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    pub(crate) pipeline: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) cluster: Cluster,
    pub(crate) lag: Lag,
}

impl Meter {
    /// Measures until it is told to stop.
    pub(crate) async fn measure(self, stop: CancellationToken) {
        let mut partitions = None;
        loop {
            if stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                return;
            }
            let unknown = self.lag.unknown();
            if !unknown.is_empty() {
                let meter = self.clone();
                let asked = tokio::task::spawn_blocking(move || meter.ask(&unknown));
                if let Ok(Err(error)) = asked.await {
                    let Self { pipeline, topic, .. } = &self;
                    tracing::debug!(pipeline, topic, %error, "the lag could not be asked for");
                }
            }
            self.tell(&mut partitions);
        }
    }

    fn tell(&self, partitions: &mut Option<usize>) {
        let (lag, many) = self.lag.sum();
        let labels = [("pipeline", self.pipeline.clone()), ("topic", self.topic.clone())];
        gauge!("redrive_kafka_lag", &labels).set(lag as f64);
        gauge!("redrive_kafka_partitions", &labels).set(many as f64);
        let Self { pipeline, topic, group, .. } = self;
        if many == 0 && *partitions != Some(0) {
            tracing::info!(
                pipeline,
                topic,
                group,
                "no partitions assigned: other members of the group have all of them, and this instance stands by"
            );
        }
        *partitions = Some(many);
    }

    /// Asks for all of these at once. The client has the group's name, and is no member of it.
    fn ask(&self, partitions: &[i32]) -> Result<(), KafkaError> {
        let mut config = self.cluster.asking();
        let client: BaseConsumer = config.set("group.id", &self.group).create()?;
        let list = |offset: Offset| {
            let mut list = TopicPartitionList::new();
            for partition in partitions {
                list.add_partition_offset(&self.topic, *partition, offset)?;
            }
            Ok::<_, KafkaError>(list)
        };
        let committed = offsets(&client.committed_offsets(list(Offset::Invalid)?, ASK)?);
        let first = offsets(&client.offsets_for_times(list(Offset::Beginning)?, ASK)?);
        let next = offsets(&client.offsets_for_times(list(Offset::End)?, ASK)?);
        for partition in partitions {
            let ends = next.get(partition).map(|next| (first.get(partition).copied().unwrap_or(0), *next));
            self.lag.answered(*partition, ends, committed.get(partition).copied());
        }
        Ok(())
    }
}

fn offsets(list: &TopicPartitionList) -> HashMap<i32, i64> {
    let elements = list.elements();
    let offset = |at: usize| match elements[at].offset() {
        Offset::Offset(offset) if elements[at].error().is_ok() => Some((elements[at].partition(), offset)),
        _ => None,
    };
    (0..elements.len()).filter_map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(committed: Option<i64>, ends: (i64, i64)) -> i64 {
        Known { committed, ends: Some(ends), is_fetched: true }.lag().unwrap()
    }

    #[test]
    fn it_is_what_lies_between_what_is_committed_and_the_end() {
        assert_eq!(lag(Some(40), (0, 100)), 60);
        assert_eq!(lag(Some(100), (0, 100)), 0, "whatever was polled since a restart");
        assert_eq!(lag(None, (30, 100)), 70, "a group that has committed nothing begins at the beginning");
        assert_eq!(lag(Some(10), (30, 100)), 70, "what is gone is not waited for");
        assert_eq!(lag(Some(7), (0, 3)), 0, "a topic that was made anew");
        assert_eq!(Known::default().lag(), None);
    }

    #[test]
    fn what_is_committed_does_not_go_back_and_a_partition_that_was_taken_away_does_not_count() {
        let lag = Lag::default();
        lag.open(0);
        lag.open(1);
        lag.answered(0, Some((0, 10)), Some(4));
        lag.answered(1, Some((0, 10)), None);
        assert_eq!(lag.sum(), (16, 2));
        lag.committed(0, 9);
        lag.committed(0, 5);
        lag.committed(7, 5);
        assert_eq!(lag.sum(), (11, 2));
        lag.close(1);
        assert_eq!(lag.sum(), (1, 1));
        lag.close(0);
        assert_eq!((lag.sum(), lag.unknown()), ((0, 0), vec![]));
    }
}
