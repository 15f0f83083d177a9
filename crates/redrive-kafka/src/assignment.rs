//! The assignment: the partitions that a consumer has been given, and a lane for each.
//!
//! The client calls back when the group gives or takes partitions. Given: each gets a lane. Taken away: its
//! lane may finish what it holds for a short while, and what is finished is committed before the partition
//! changes hands. A lane that takes longer is dropped, and commits nothing: its records come again, and the
//! sink takes each one once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::consumer::ConsumerOptions;
use crate::health::Health;
use crate::lag::Lag;
use crate::lane::{Finished, Lane, Processor, Room};

/// What the thread that polls and the callbacks of the client share.
pub(crate) struct Assignment {
    pub(crate) options: ConsumerOptions,
    processor: Arc<dyn Processor>,
    runtime: Handle,
    lanes: Mutex<HashMap<i32, Lane>>,
    pub(crate) finished: Arc<Finished>,
    pub(crate) room: Arc<Room>,
    pub(crate) health: Health,
    lag: Lag,
    /// Partitions that were taken away since the poller last looked.
    taken: Mutex<Vec<i32>>,
}

impl Assignment {
    pub(crate) fn new(
        options: ConsumerOptions,
        (processor, lag): (Arc<dyn Processor>, Lag),
        health: Health,
        runtime: Handle,
    ) -> Self {
        Self {
            options,
            processor,
            runtime,
            lanes: Mutex::default(),
            finished: Arc::default(),
            room: Arc::default(),
            health,
            lag,
            taken: Mutex::default(),
        }
    }

    /// The lane of each partition.
    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<i32, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends lanes together; each may finish what it holds until the deadline.
    pub(crate) fn close(&self, partitions: &[i32], grace: Duration) {
        let lanes: Vec<Lane> = {
            let mut held = self.held();
            partitions.iter().filter_map(|partition| held.remove(partition)).collect()
        };
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).extend(partitions);
        partitions.iter().for_each(|partition| self.lag.close(*partition));
        lanes.iter().for_each(Lane::stop);
        let deadline = Instant::now() + grace;
        self.runtime.block_on(async {
            for lane in lanes {
                lane.end(deadline).await;
            }
        });
    }

    /// Commits how far these partitions are done. What is not committed is read again, and the sink takes it once.
    pub(crate) fn commit(
        &self,
        consumer: &BaseConsumer<Context>,
        finished: &HashMap<i32, i64>,
        mode: CommitMode,
    ) {
        if let Err(error) = consumer.commit(&self.offsets(finished), mode) {
            let ConsumerOptions { pipeline, topic, .. } = &self.options;
            tracing::warn!(pipeline, topic, %error, "offsets could not be committed");
            return;
        }
        finished.iter().for_each(|(partition, next)| self.lag.committed(*partition, *next));
    }

    /// Partitions that were taken away since this was last asked.
    pub(crate) fn take_taken(&self) -> Vec<i32> {
        std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self, partition: i32) {
        self.lag.open(partition);
        let (finished, room) = (Arc::clone(&self.finished), Arc::clone(&self.room));
        let processor = Arc::clone(&self.processor);
        let work = (processor, self.options.pause.clone());
        let lane = Lane::start(&self.runtime, partition, self.options.batch, work, finished, room);
        if let Some(old) = self.held().insert(partition, lane) {
            self.runtime.block_on(old.end(Instant::now()));
        }
    }

    /// As a commit wants them.
    fn offsets(&self, finished: &HashMap<i32, i64>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, next) in finished {
            // Only a list that is too large fails.
            let _ = list.add_partition_offset(&self.options.topic, *partition, Offset::Offset(*next));
        }
        list
    }
}

/// What the client calls back.
pub(crate) struct Context(pub(crate) Arc<Assignment>);

impl ClientContext for Context {
    fn stats(&self, statistics: Statistics) {
        let assignment = &self.0;
        let paused: HashSet<i32> =
            assignment.held().iter().filter(|(_, lane)| lane.paused).map(|(at, _)| *at).collect();
        assignment.lag.read(&statistics, &assignment.options.topic, |partition| paused.contains(&partition));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(pipeline = %self.0.options.pipeline, %error, reason, "Kafka client");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            let brokers = &self.0.options.cluster.brokers;
            let message = format!("no broker at {brokers} answers: check that they run, and `brokers`");
            self.0.health.note(self.0.options.part, Err(message));
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(list) = rebalance else { return };
        let assignment = &self.0;
        let partitions: Vec<i32> = list.elements().iter().map(TopicPartitionListElem::partition).collect();
        let lost = consumer.assignment_lost();
        tracing::info!(pipeline = %assignment.options.pipeline, topic = %assignment.options.topic, ?partitions, lost, "partitions taken away");
        // Somebody else has them already: there is nothing to finish for.
        let grace = if lost { Duration::ZERO } else { assignment.options.grace };
        assignment.close(&partitions, grace);
        let finished: HashMap<i32, i64> = partitions
            .iter()
            .filter_map(|partition| Some((*partition, assignment.finished.take_of(*partition)?)))
            .collect();
        if !lost && !finished.is_empty() {
            assignment.commit(consumer, &finished, CommitMode::Sync);
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(list) = rebalance else { return };
        let partitions: Vec<i32> = list.elements().iter().map(TopicPartitionListElem::partition).collect();
        let options = &self.0.options;
        tracing::info!(pipeline = %options.pipeline, topic = %options.topic, ?partitions, "partitions given");
        for partition in partitions {
            self.0.open(partition);
        }
        // The client remembers that a partition was paused before it was taken away; its new lane is empty.
        if let Err(error) = consumer.resume(list) {
            tracing::warn!(pipeline = %options.pipeline, topic = %options.topic, %error, "cannot resume");
        }
    }
}
