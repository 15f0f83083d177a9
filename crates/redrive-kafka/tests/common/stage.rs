//! A whole pipeline on a broker and a database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Message as _, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use redrive_core::backoff::{Backoff, Jitter};
use redrive_kafka::record::{Header, Record};
use redrive_kafka::seal::Seal;
use redrive_kafka::sink::Sink;
use redrive_kafka::topics::{self, Missing};
use redrive_kafka::{
    BatchOptions, Cluster, KafkaPipeline, KafkaPipelineOptions, LetterTopics, Retries, Silent,
};
use redrive_testkit::TestDatabase;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{decoder, sink_at, table};

pub(crate) const PATIENCE: Duration = redrive_testkit::PATIENCE;

pub(crate) type Mock = MockCluster<'static, DefaultProducerContext>;

/// A broker in this process, with the topics of a pipeline.
pub(crate) fn mock(topic: &str, partitions: i32) -> Mock {
    let cluster = MockCluster::new(1).unwrap();
    for suffix in ["", "-dlq", "-parking", "-parking-dlq"] {
        cluster.create_topic(&format!("{topic}{suffix}"), partitions, 1).unwrap();
    }
    cluster
}

/// The real broker, and a topic on it that nobody else uses.
pub(crate) async fn real(test: &str, partitions: i32) -> Option<(String, String)> {
    let brokers = redrive_testkit::server("REDRIVE_TEST_KAFKA", test)?;
    let topic = format!("t-{}", uuid::Uuid::now_v7().simple());
    create(&brokers, &topic, partitions).await;
    Some((brokers, topic))
}

pub(crate) async fn create(brokers: &str, topic: &str, partitions: i32) {
    create_with(brokers, topic, partitions, &[]).await;
}

pub(crate) async fn create_with(brokers: &str, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let admin: AdminClient<rdkafka::client::DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
    for result in admin.create_topics(&[new], &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
    while topics::partitions(&Cluster::at(brokers), topic).await != Ok(Some(partitions)) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn sink(database: &TestDatabase) -> Arc<dyn Sink> {
    sink_at(database.backend, &database.url, table(), Duration::from_secs(5))
}

pub(crate) fn options(brokers: &str, topic: &str, folder: &Path) -> KafkaPipelineOptions {
    let millis = Duration::from_millis;
    let quick = Backoff::new(millis(100), 2.0, millis(200)).unwrap().with_jitter(Jitter::None);
    KafkaPipelineOptions {
        name: "decisions".into(),
        cluster: Cluster {
            brokers: brokers.into(),
            // A member that was killed is missed soon.
            properties: vec![
                ("session.timeout.ms".into(), "6000".into()),
                ("heartbeat.interval.ms".into(), "500".into()),
            ],
        },
        topic: topic.into(),
        group: format!("{topic}-writer"),
        parking_group: format!("{topic}-writer-parking"),
        letters: LetterTopics {
            dlq: format!("{topic}-dlq"),
            parking: format!("{topic}-parking"),
            parking_dlq: format!("{topic}-parking-dlq"),
        },
        missing: Missing::Create,
        batch: BatchOptions { max_records: 100, max_bytes: 4 << 20, max_delay: millis(50) },
        retries: Retries { attempts: 2, backoff: quick },
        parking: Retries { attempts: 3, backoff: Backoff::new(millis(200), 2.0, millis(1000)).unwrap() },
        workers: 2,
        publish_timeout: Duration::from_secs(10),
        folder: folder.to_owned(),
        folder_size: 64 << 20,
        grace: Duration::from_secs(3),
    }
}

/// The seal of every pipeline here.
pub(crate) fn seal() -> Seal {
    Seal::from_secrets(["secret"])
}

/// A pipeline at work.
pub(crate) struct Running {
    pub(crate) pipeline: Arc<KafkaPipeline>,
    /// Pauses it.
    pub(crate) switch: watch::Sender<bool>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// A test that fails must not wait for ever for its consumers.
impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Running {
    pub(crate) fn start(options: KafkaPipelineOptions, sink: Arc<dyn Sink>) -> Self {
        Self::start_switched(options, sink, watch::Sender::new(false))
    }

    /// As this switch says, from the beginning.
    pub(crate) fn start_switched(
        options: KafkaPipelineOptions,
        sink: Arc<dyn Sink>,
        switch: watch::Sender<bool>,
    ) -> Self {
        let pipeline = KafkaPipeline::new(options, decoder(), sink, Arc::new(Silent)).unwrap();
        let pipeline = Arc::new(pipeline.sealed_by(seal()).paused_by(switch.subscribe()));
        let stop = CancellationToken::new();
        let task = tokio::spawn(Arc::clone(&pipeline).run(stop.clone()));
        Self { pipeline, switch, stop, task: Some(task) }
    }

    /// Waits until every letter on disk is in Kafka. Otherwise says how many are not, and why.
    pub(crate) async fn publishes_what_is_on_disk(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.pipeline.on_disk() != (0, 0) {
            let (outgoing, refused) = self.pipeline.on_disk();
            let health = self.pipeline.health().get();
            assert!(
                Instant::now() < deadline,
                "on disk: {outgoing} for Kafka, {refused} refused: {health:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let task = self.task.take().expect("it runs");
        tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
    }
}

pub(crate) fn producer(brokers: &str) -> FutureProducer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("message.max.bytes", "10000000")
        .set("linger.ms", "2")
        .create()
        .unwrap()
}

/// A record to produce.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<Header>,
    pub(crate) timestamp: Option<i64>,
}

impl Sent {
    pub(crate) fn text(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self { partition, value: Some(value.into()), ..Self::default() }
    }
}

/// A good record with this id.
pub(crate) fn decision(partition: i32, id: usize) -> Sent {
    Sent::text(
        partition,
        format!(r#"{{"id":"d{id}","ts":"2026-01-02T03:04:05Z","amount":{id},"account":"a"}}"#),
    )
}

/// A record that the table refuses.
pub(crate) fn poison(partition: i32, id: usize) -> Sent {
    Sent::text(partition, format!(r#"{{"id":"p{id}","amount":-1}}"#))
}

pub(crate) async fn produce(brokers: &str, topic: &str, records: &[Sent]) {
    produce_with(&producer(brokers), topic, records).await;
}

/// With a producer that packs what it sends.
pub(crate) async fn produce_packed(brokers: &str, topic: &str, codec: &str, records: &[Sent]) {
    let producer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("compression.codec", codec)
        .set("linger.ms", "20")
        .create()
        .unwrap();
    produce_with(&producer, topic, records).await;
}

async fn produce_with(producer: &FutureProducer, topic: &str, records: &[Sent]) {
    let mut reports = Vec::new();
    for sent in records {
        let headers = sent.headers.iter().fold(OwnedHeaders::new(), |headers, header| {
            redrive_kafka_headers::push(headers, header.name.as_bytes(), header.value.as_deref())
        });
        loop {
            let mut record =
                FutureRecord::<[u8], [u8]>::to(topic).partition(sent.partition).headers(headers.clone());
            if let Some(key) = &sent.key {
                record = record.key(key);
            }
            if let Some(value) = &sent.value {
                record = record.payload(value);
            }
            if let Some(timestamp) = sent.timestamp {
                record = record.timestamp(timestamp);
            }
            match producer.send_result(record) {
                Ok(report) => break reports.push(report),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
    for report in reports {
        report.await.unwrap().unwrap();
    }
}

/// Every record of a topic, from its beginning to its present end.
pub(crate) async fn read(brokers: &str, topic: &str) -> Vec<Record> {
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || read_blocking(&brokers, &topic)).await.unwrap()
}

fn read_blocking(brokers: &str, topic: &str) -> Vec<Record> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("fetch.message.max.bytes", "8000000")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    let mut list = TopicPartitionList::new();
    let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
    for partition in metadata.topics()[0].partitions() {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), PATIENCE).unwrap();
        list.add_partition_offset(topic, partition.id(), Offset::Offset(low)).unwrap();
        if high > low {
            ends.insert(partition.id(), high);
        }
    }
    consumer.assign(&list).unwrap();
    let name: Arc<str> = topic.into();
    let deadline = Instant::now() + PATIENCE;
    let mut records = Vec::new();
    while !ends.is_empty() {
        assert!(Instant::now() < deadline, "{topic}: {} records, {ends:?}", records.len());
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(200)) {
            if ends.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= *end) {
                ends.remove(&message.partition());
            }
            records.push(Record::of(&message, &name));
        }
    }
    records.sort_by_key(|record| (record.position.partition, record.position.offset));
    records
}

/// How many records a topic has.
pub(crate) async fn count(brokers: &str, topic: &str) -> i64 {
    ends(brokers, topic).await.values().sum()
}

async fn ends(brokers: &str, topic: &str) -> BTreeMap<i32, i64> {
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE).unwrap();
        let partitions = metadata.topics()[0].partitions();
        let end = |id: i32| consumer.fetch_watermarks(&topic, id, PATIENCE).map_or(0, |(_, high)| high);
        partitions.iter().map(|partition| (partition.id(), end(partition.id()))).collect()
    });
    asked.await.unwrap()
}

/// Changes a setting of a topic.
pub(crate) async fn set(brokers: &str, topic: &str, (name, value): (&str, &str)) {
    use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
    let admin: AdminClient<rdkafka::client::DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
    for result in admin.alter_configs(&[change], &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
}

/// Deletes a topic, and makes it anew.
pub(crate) async fn recreate(brokers: &str, topic: &str) {
    use rdkafka::admin::{AdminClient, AdminOptions};
    let admin: AdminClient<rdkafka::client::DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    for result in admin.delete_topics(&[topic], &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
    let gone = async || topics::partitions(&Cluster::at(brokers), topic).await == Ok(None);
    until("the topic is gone", gone).await;
    create(brokers, topic, 1).await;
}

/// How many records of a topic a group has committed.
pub(crate) async fn committed(brokers: &str, topic: &str, group: &str) -> i64 {
    count(brokers, topic).await - lag(brokers, topic, group).await
}

/// How far a group has committed, and how far it could.
pub(crate) async fn lag(brokers: &str, topic: &str, group: &str) -> i64 {
    let ends = ends(brokers, topic).await;
    let (brokers, topic, group) = (brokers.to_owned(), topic.to_owned(), group.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &brokers).set("group.id", &group).create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in ends.keys() {
            list.add_partition(&topic, *partition);
        }
        // A broker that has just started may not know its groups yet: then nobody knows the lag.
        let Ok(committed) = consumer.committed_offsets(list, PATIENCE) else { return i64::MAX };
        let committed: BTreeMap<i32, i64> = committed
            .elements()
            .iter()
            .map(|element| {
                (element.partition(), element.offset().to_raw().filter(|at| *at >= 0).unwrap_or(0))
            })
            .collect();
        ends.iter().map(|(partition, end)| end - committed.get(partition).copied().unwrap_or(0)).sum()
    });
    asked.await.unwrap()
}

/// Waits until something holds, and says what did not.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    redrive_testkit::eventually(PATIENCE, what, holds).await;
}
