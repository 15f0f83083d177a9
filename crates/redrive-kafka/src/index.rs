//! The index: letters in topics, also as letters in redrive's own store, so that they can be searched,
//! grouped and redriven one by one.
//!
//! A letter comes in once: it is known by its origin, the topic it lies in and how often it was redriven,
//! so one that was published twice (a crash between publishing and committing) is one letter. When it was
//! written at its origin belongs to that: a topic that is made anew counts its offsets from 0 again. The body,
//! key and headers are kept byte for byte; what a letter's fields cannot say (no value, no key, a header
//! without a value) is said by headers whose names start with `redrive:`.
//!
//! Every instance reads all partitions, without being a member of a group: there is nothing to balance. Its
//! place is in the store that has the letters, and moves with them: a store that is new gets every letter that
//! is in the topics. Nothing is committed to Kafka. A parked letter is closed when the parking lot, by what its
//! group has committed, is done with it; which letters wait for that is in the store, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use redrive_core::dead_letter::{Operator, Origin};
use redrive_core::event::{MAX_KEY, MAX_TYPE};
use redrive_core::fingerprint::digest;
use redrive_store::{Left, Letters, NewLetter, Place};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;
use crate::defect;
use crate::headers;
use crate::health::Health;
use crate::place::{Partition, Places};
use crate::record::{Header, Position, Record};
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

/// What only an index says about a letter.
const KEY: &str = "redrive:key";
const NO_VALUE: &str = "redrive:no-value";
const NO_HEADER_VALUE: &str = "redrive:no-header-value";
const LIES_AT: &str = "redrive:lies-at";

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
        let consumer: BaseConsumer = config.set("auto.offset.reset", "earliest").create()?;
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

/// A letter as the store keeps it.
#[must_use]
pub fn letter(record: &Record) -> NewLetter {
    let reading = headers::read(record);
    let written_at_origin = if reading.origin.is_some() { reading.written } else { record.timestamp };
    let origin = reading.origin.unwrap_or_else(|| record.position.clone());
    let written = record.timestamp.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let failed_at = reading.failed_at.or(written).unwrap_or_else(Timestamp::now);
    let key = record.key.as_deref().unwrap_or_default();
    NewLetter {
        source: source(&record.position.topic, &origin, written_at_origin, reading.redrives),
        event_type: cut(&record.position.topic, MAX_TYPE),
        key: cut(&String::from_utf8_lossy(key), MAX_KEY),
        payload: record.value.clone().unwrap_or_default(),
        headers: kept_headers(record),
        origin: Origin::Topic {
            topic: origin.topic.to_string(),
            partition: origin.partition,
            offset: origin.offset,
        },
        target: None,
        failure: reading.failure,
        attempts: reading.attempts,
        first_failed_at: reading.first_failed_at.unwrap_or(failed_at),
        failed_at,
    }
}

/// What a letter is known by. A redriven record is written anew, twice if the redrive was cut off, so the time
/// says nothing about it.
fn source(topic: &str, origin: &Position, written: Option<i64>, redrives: u32) -> String {
    match written.filter(|_| redrives == 0) {
        Some(millis) => fitting(&format!("{topic}:{origin}@{millis}#{redrives}")),
        None => fitting(&format!("{topic}:{origin}#{redrives}")),
    }
}

/// So that it fits its column. Of one that is too long the end is kept, which holds the offset, behind a
/// digest of the whole.
fn fitting(whole: &str) -> String {
    let Some(beyond) = whole.chars().count().checked_sub(MAX_KEY).filter(|beyond| *beyond > 0) else {
        return cut(whole, MAX_KEY);
    };
    let digest = format!("{:016x}~", digest(whole.as_bytes()));
    let end: String = whole.chars().skip(beyond + digest.len()).collect();
    cut(&format!("{digest}{end}"), MAX_KEY)
}

fn kept_headers(record: &Record) -> Vec<(String, Vec<u8>)> {
    let mut kept: Vec<(String, Vec<u8>)> = Vec::with_capacity(record.headers.len() + 3);
    for header in &record.headers {
        kept.push((header.name.clone(), header.value.clone().unwrap_or_default()));
    }
    for (at, _) in record.headers.iter().enumerate().filter(|(_, header)| header.value.is_none()) {
        kept.push((NO_HEADER_VALUE.to_owned(), at.to_string().into_bytes()));
    }
    kept.push((LIES_AT.to_owned(), record.position.to_string().into_bytes()));
    kept.extend(record.key.clone().map(|key| (KEY.to_owned(), key)));
    if record.value.is_none() {
        kept.push((NO_VALUE.to_owned(), Vec::new()));
    }
    kept
}

/// The key, value and headers that a stored letter had in its topic.
#[must_use]
pub fn restored(payload: Vec<u8>, kept: Vec<(String, Vec<u8>)>) -> Restored {
    let of = |name: &str| kept.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let (key, value) = (of(KEY), of(NO_VALUE).map_or(Some(payload), |_| None));
    let number = |value: &[u8]| std::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
    let absent: Vec<usize> = kept
        .iter()
        .filter(|(name, _)| name == NO_HEADER_VALUE)
        .filter_map(|(_, value)| number(value))
        .collect();
    let is_ours = |name: &str| [KEY, NO_VALUE, NO_HEADER_VALUE, LIES_AT].contains(&name);
    let header = |(at, (name, value)): (usize, (String, Vec<u8>))| {
        (!is_ours(&name)).then(|| Header { name, value: (!absent.contains(&at)).then_some(value) })
    };
    let headers = kept.into_iter().enumerate().filter_map(header).collect();
    Restored { key, value, headers }
}

/// What a letter was in its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<Header>,
}

/// A text that fits its column: no NUL, so many characters.
fn cut(text: &str, max: usize) -> String {
    text.chars().map(|letter| if letter == '\0' { '\u{FFFD}' } else { letter }).take(max).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn what_a_letter_was_survives_the_store(
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
            headers in proptest::collection::vec(("[a-z]{0,4}", any::<Option<Vec<u8>>>()), 0..5),
        ) {
            let headers: Vec<Header> =
                headers.into_iter().map(|(name, value)| Header { name, value }).collect();
            let position = Position::new("decision-logs-dlq", 1, 2);
            let record = Record { position, timestamp: None, key, value, headers };
            let stored = letter(&record);
            let restored = restored(stored.payload, stored.headers);
            prop_assert_eq!(restored, Restored { key: record.key, value: record.value, headers: record.headers });
        }
    }

    /// The end was cut, which holds the offset: all letters of a topic with a long name were one.
    #[test]
    fn letters_of_topics_with_long_names_are_told_apart() {
        // 249 characters are the most that Kafka takes.
        for length in [100, 119, 120, 121, 122, 130, 200, 249] {
            let topic = "t".repeat(length);
            let record = |offset: i64, redrives: &str| Record {
                position: Position::new(format!("{}-dlq", &topic[..length - 4]).as_str(), 0, 9),
                timestamp: None,
                key: None,
                value: None,
                headers: vec![
                    Header::new("kafka_dlt-original-topic", topic.as_str()),
                    Header::new("kafka_dlt-original-partition", "3"),
                    Header::new("kafka_dlt-original-offset", offset.to_string()),
                    Header::new(headers::REDRIVE_COUNT, redrives),
                ],
            };
            let source = |offset: i64, redrives: &str| letter(&record(offset, redrives)).source;
            let different = [source(41, "0"), source(42, "0"), source(4_200, "0"), source(42, "1")];
            let unique: std::collections::BTreeSet<&String> = different.iter().collect();
            assert_eq!(unique.len(), 4, "{different:?}");
            assert!(different.iter().all(|source| source.chars().count() <= MAX_KEY));
            assert_eq!(source(42, "0"), source(42, "0"));
            assert!(different[2].ends_with("/3/4200#0"), "{}", different[2]);
        }
        let (one, other) = ("a".repeat(300), format!("b{}", "a".repeat(299)));
        assert_ne!(fitting(&one), fitting(&other), "also at the other end");
    }

    /// A letter at this offset of its topic, of one and the same record.
    fn record(offset: i64, redrives: &str) -> Record {
        Record {
            position: Position::new("logs-dlq", 0, offset),
            timestamp: Some(0),
            key: None,
            value: None,
            headers: vec![
                Header::new("kafka_dlt-original-topic", "logs"),
                Header::new("kafka_dlt-original-partition", "3"),
                Header::new("kafka_dlt-original-offset", "42"),
                Header::new(headers::REDRIVE_COUNT, redrives),
            ],
        }
    }

    /// The letters of a topic that was made anew were taken for those of the old one, and were not indexed.
    #[test]
    fn a_topic_made_anew_has_letters_of_its_own() {
        let source = |written: i64, redrives: &str| {
            let mut record = record(7, redrives);
            let written = written.to_be_bytes().to_vec();
            record.headers.push(Header::new("kafka_dlt-original-timestamp", written));
            letter(&record).source
        };
        assert_eq!(source(1_000, "0"), "logs-dlq:logs/3/42@1000#0");
        assert_ne!(source(1_000, "0"), source(2_000, "0"));
        assert_eq!(source(1_000, "1"), source(2_000, "1"), "the same record, redriven twice by a crash");
    }

    #[test]
    fn the_same_letter_published_twice_is_one_and_a_redriven_one_is_another() {
        assert_eq!(letter(&record(1, "0")).source, "logs-dlq:logs/3/42#0");
        assert_eq!(letter(&record(1, "0")).source, letter(&record(2, "0")).source);
        assert_ne!(letter(&record(1, "0")).source, letter(&record(2, "1")).source);
    }
}
