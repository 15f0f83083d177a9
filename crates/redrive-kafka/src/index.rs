//! The index: letters in topics, also as letters in redrive's own store, so that they can be searched,
//! grouped and redriven one by one.
//!
//! Every instance reads all partitions, without being a member of a group: there is nothing to balance. Its
//! place is in the store that has the letters, and moves with them: a store that is new gets every letter that
//! is in the topics. Nothing is committed to Kafka. A parked letter is closed when the parking lot, by what its
//! group has committed, is done with it; which letters wait for that is in the store, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use redrive_core::dead_letter::Operator;
use redrive_store::{Left, Letters, Place};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;
use crate::defect;
use crate::health::Health;
use crate::place::{Partition, Places};
use crate::record::Record;
use crate::settings::RefusedSettings;
use crate::writer::LetterTopics;

/// The most that is stored at a time.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 8 << 20;
const POLL: Duration = Duration::from_millis(200);
/// How often to look for new partitions, and for parked letters that are done with.
const LOOK: Duration = Duration::from_secs(2);
const ASK: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What is said of a parked letter that is closed.
const DONE: &str = "the parking lot is done with it";

/// What is indexed.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// The pipeline.
    pub pipeline: String,
    /// Where Kafka is.
    pub cluster: Cluster,
    /// The topics.
    pub topics: LetterTopics,
    /// The group of the parking lot: what that has committed is done with. The index never joins it.
    pub parking_group: String,
}

/// Reads topics of letters into the store until it is told to stop.
pub async fn index(options: IndexOptions, letters: Arc<Letters>, health: Health, stop: CancellationToken) {
    loop {
        let (options, letters, runtime) = (options.clone(), Arc::clone(&letters), Handle::current());
        let (health_of_thread, stop_thread) = (health.clone(), stop.clone());
        let thread = tokio::task::spawn_blocking(move || {
            read(&options, &letters, &runtime, &health_of_thread, &stop_thread);
        });
        let Err(error) = thread.await else { return };
        let Ok(panic) = error.try_into_panic() else { return };
        let why = defect::said(panic.as_ref());
        health
            .note("index", Err(format!("the index panicked and is started again: {why}: please report it")));
        if stop.run_until_cancelled(tokio::time::sleep(LONGEST_PAUSE)).await.is_none() {
            return;
        }
    }
}

fn read(
    options: &IndexOptions,
    letters: &Letters,
    runtime: &Handle,
    health: &Health,
    stop: &CancellationToken,
) {
    let mut pause = Duration::from_millis(500);
    while !stop.is_cancelled() {
        let reader = Reader::new(options, letters, runtime);
        let ended = reader.and_then(|mut reader| reader.run(stop, health));
        if let Err(error) = ended {
            health.note("index", Err(format!("letters in topics cannot be read: {error}")));
            runtime.block_on(async { stop.run_until_cancelled(tokio::time::sleep(pause)).await });
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Why reading had to stop.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Settings(#[from] RefusedSettings),
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

struct Reader<'a> {
    options: &'a IndexOptions,
    letters: &'a Letters,
    runtime: &'a Handle,
    /// Bears the name of the parking lot's group, of which it asks how far it is; it never joins it.
    consumer: BaseConsumer,
    names: HashMap<String, Arc<str>>,
    assigned: usize,
    places: Places,
}

impl<'a> Reader<'a> {
    fn new(options: &'a IndexOptions, letters: &'a Letters, runtime: &'a Handle) -> Result<Self, Trouble> {
        let mut config = options.cluster.consumer(&options.parking_group);
        // Whatever the settings say for the pipeline's own consumers: no letter is passed over.
        let consumer: BaseConsumer = options.cluster.create(config.set("auto.offset.reset", "earliest"))?;
        let topics = [&options.topics.dlq, &options.topics.parking, &options.topics.parking_dlq];
        let names = topics.into_iter().map(|topic| (topic.clone(), Arc::from(topic.as_str()))).collect();
        let places = Places::new(options.topics.parking.as_str().into());
        Ok(Self { options, letters, runtime, consumer, names, assigned: 0, places })
    }

    fn run(&mut self, stop: &CancellationToken, health: &Health) -> Result<(), Trouble> {
        let (mut looked, mut wait): (Option<Instant>, _) = (None, POLL);
        while !stop.is_cancelled() {
            if looked.is_none_or(|looked| looked.elapsed() > LOOK) {
                self.assign()?;
                health.note("index", Ok(()));
                // New letters have their turn between two portions of old ones.
                let is_behind = self.close_settled();
                wait = if is_behind { Duration::ZERO } else { POLL };
                looked = (!is_behind).then(Instant::now);
            }
            let batch = self.poll(wait)?;
            if batch.is_empty() {
                continue;
            }
            self.store(&batch, stop, health);
            if stop.is_cancelled() {
                return Ok(());
            }
            self.places.stored(&batch);
            health.note("index", Ok(()));
        }
        Ok(())
    }

    /// Every partition there is; again when there are more.
    fn assign(&mut self) -> Result<(), Trouble> {
        let partitions = self.partitions()?;
        if partitions.len() == self.assigned {
            return Ok(());
        }
        let known = self.runtime.block_on(self.letters.places())?;
        let known: BTreeMap<(String, i32), i64> =
            known.into_iter().map(|place| ((place.topic, place.partition), place.offset)).collect();
        let mut list = TopicPartitionList::new();
        for (topic, partition) in &partitions {
            let next = known.get(&(topic.to_string(), *partition)).copied();
            let next = self.still_there((topic, *partition), next)?;
            self.places.begin((Arc::clone(topic), *partition), next);
            list.add_partition_offset(topic, *partition, next.map_or(Offset::Beginning, Offset::Offset))?;
        }
        self.consumer.assign(&list)?;
        self.assigned = partitions.len();
        Ok(())
    }

    fn partitions(&self) -> Result<Vec<Partition>, Trouble> {
        let mut partitions = Vec::new();
        for (name, topic) in &self.names {
            let metadata = self.consumer.fetch_metadata(Some(name), ASK)?;
            for found in metadata.topics().iter().filter(|found| found.error().is_none()) {
                partitions.extend(found.partitions().iter().map(|found| (Arc::clone(topic), found.id())));
            }
        }
        Ok(partitions)
    }

    /// The place, unless the topic ends before it: then it was made anew, and is read from its beginning. (What
    /// lies before the first record that is still there is skipped by the client.)
    fn still_there(
        &self,
        (topic, partition): (&str, i32),
        next: Option<i64>,
    ) -> Result<Option<i64>, Trouble> {
        let Some(next) = next else { return Ok(None) };
        let (_, end) = self.consumer.fetch_watermarks(topic, partition, ASK)?;
        if next <= end {
            return Ok(Some(next));
        }
        self.runtime.block_on(self.letters.begin_again(topic, partition))?;
        Ok(None)
    }

    fn poll(&self, mut wait: Duration) -> Result<Vec<Record>, Trouble> {
        let (mut batch, mut bytes): (Vec<Record>, _) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(message) = self.consumer.poll(wait) else { break };
            let message = message?;
            if let Some(topic) = self.names.get(message.topic()) {
                let record = Record::of(&message, topic);
                bytes += record.size();
                batch.push(record);
            }
            wait = Duration::ZERO;
        }
        Ok(batch)
    }

    /// Until they are stored, or it is told to stop.
    fn store(&self, batch: &[Record], stop: &CancellationToken, health: &Health) {
        let mut pause = Duration::from_millis(200);
        while let Err(error) = self.runtime.block_on(self.store_once(batch)) {
            if stop.is_cancelled() {
                return;
            }
            health.note("index", Err(format!("letters cannot be indexed: {error}")));
            self.runtime.block_on(async { stop.run_until_cancelled(tokio::time::sleep(pause)).await });
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    async fn store_once(&self, batch: &[Record]) -> Result<(), redrive_store::Error> {
        for (topic, partition) in self.places.begun_again(batch) {
            self.letters.begin_again(&topic, partition).await?;
        }
        self.letters.add_read(&self.places.reading(batch)).await.map(drop)
    }

    /// Closes parked letters that the parking lot is done with, a portion of each partition; says whether there
    /// are more.
    fn close_settled(&mut self) -> bool {
        let Ok(committed) = self.parking_progress() else { return false };
        let operator = Operator::new("redrive");
        let mut is_behind = false;
        for place in committed {
            match self.runtime.block_on(self.letters.close_parked(&place, &operator, DONE)) {
                Ok(Left::More) => is_behind = true,
                Ok(Left::Waiting) => {}
                Ok(Left::Nothing) => self.places.closed(place.partition),
                Err(error) => {
                    let pipeline = &self.options.pipeline;
                    tracing::debug!(pipeline, %error, "parked letters could not be closed");
                    return false;
                }
            }
        }
        is_behind
    }

    /// How far the parking lot is, where letters may be open.
    fn parking_progress(&self) -> Result<Vec<Place>, KafkaError> {
        if self.places.open().is_empty() {
            return Ok(Vec::new());
        }
        let mut list = TopicPartitionList::new();
        for partition in self.places.open() {
            list.add_partition(&self.options.topics.parking, *partition);
        }
        let committed = self.consumer.committed_offsets(list, ASK)?;
        let place =
            |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match element.offset() {
                Offset::Offset(next) => Some(Place::new(element.topic(), element.partition(), next)),
                _ => None,
            };
        Ok(committed.elements().iter().filter_map(place).collect())
    }
}
