//! The consumer: a thread that polls, and a lane for each partition it was given.
//!
//! The thread never waits for the work: it always polls again well within `max.poll.interval.ms`. When a
//! lane has too much waiting, its partition is paused; the others go on. What becomes of a lane whose partition
//! is taken away, the assignment knows.
//!
//! A client that loses its brokers for good, while Kafka answers others, is replaced (see [`topics::is_answered`]).
//!
//! A lane or a thread that panics is a defect of ours. It is told, and the consumer starts again from what is
//! committed: a partition that stands still in silence would be worse than a record that is read twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::metadata::MetadataTopic;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::assignment::{Assignment, Context};
use crate::client::Cluster;
use crate::defect;
use crate::health::Health;
use crate::lag::{self, Lag, Meter};
use crate::lane::{BatchOptions, Lane, Processor};
use crate::pause::Pause;
use crate::record::Record;
use crate::settings::RefusedSettings;
use crate::topics;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(50);
/// How many records are handed over at a time.
const CHUNK: usize = 256;
/// How long a full lane is waited for before its partition is paused: one that is merely busy needs no
/// pause, and a pause throws away what the client has fetched ahead.
const PATIENCE: Duration = Duration::from_millis(200);
/// What may wait in all lanes together, in bytes, whatever the lag.
const BUDGET: usize = 128 << 20;
/// How often it is looked whether brokers answer, and whether commits got there.
const LOOK: Duration = Duration::from_secs(5);
/// How long a broker may take to answer.
const ASK: Duration = Duration::from_secs(1);
/// After how long without an answer somebody else is asked whether Kafka is there, and how long that may take.
const UNANSWERED: Duration = Duration::from_secs(20);
const LONGEST_ASK: Duration = Duration::from_secs(5);

/// The pauses before it starts again after a defect.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a consumer consumes.
#[derive(Debug, Clone)]
pub(crate) struct ConsumerOptions {
    /// The pipeline, for logs and metrics.
    pub(crate) pipeline: String,
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// The topic.
    pub(crate) topic: String,
    /// The consumer group.
    pub(crate) group: String,
    /// When a batch is full.
    pub(crate) batch: BatchOptions,
    /// How long a lane may finish what it holds when its partition is taken away, or at the end.
    pub(crate) grace: Duration,
    /// Whether it is paused.
    pub(crate) pause: Pause,
    /// What its errors are called in the pipeline's health.
    pub(crate) part: &'static str,
    /// What defects of its lanes are called there.
    pub(crate) lanes_part: &'static str,
}

/// Consumes until it is told to stop; returns once everything that is finished is committed.
///
/// # Errors
/// [`RefusedSettings`] when librdkafka does not accept the settings.
pub(crate) async fn consume(
    options: ConsumerOptions,
    processor: Arc<dyn Processor>,
    health: Health,
    stop: CancellationToken,
) -> Result<(), RefusedSettings> {
    let mut pause = FIRST_PAUSE;
    loop {
        let (runtime, stop_thread) = (Handle::current(), stop.clone());
        let (with, processor, health_of_thread) = (options.clone(), Arc::clone(&processor), health.clone());
        let lag = Lag::default();
        let measuring = Measuring::start(&options, &lag);
        let thread = tokio::task::spawn_blocking(move || {
            let cluster = with.cluster.clone();
            let poller = Poller::new(with, (processor, lag), health_of_thread, runtime);
            Ok(poller.map_err(|error| cluster.refused(&error))?.run(&stop_thread))
        });
        let ended = thread.await;
        measuring.end().await;
        let why = match ended {
            Ok(Ok(Ended::Told)) => return Ok(()),
            Ok(Ok(Ended::CutOff)) => {
                tracing::warn!(pipeline = %options.pipeline, topic = %options.topic, "the Kafka consumer has lost its brokers and is replaced");
                continue;
            }
            Ok(Ok(Ended::Broken(partition))) => format!("its lane of partition {partition} panicked"),
            Ok(Err(error)) => return Err(error),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => format!("its thread panicked: {}", defect::said(panic.as_ref())),
                Err(_) => return Ok(()),
            },
        };
        let topic = &options.topic;
        tracing::error!(pipeline = %options.pipeline, %topic, %why, retry_in = ?pause, "the consumer broke");
        let advice =
            format!("the consumer of topic {topic} broke and is started again: {why}: please report it");
        health.note(options.lanes_part, Err(advice));
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return Ok(());
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The task that measures the lag of a poller, for as long as that runs.
struct Measuring {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Measuring {
    fn start(options: &ConsumerOptions, lag: &Lag) -> Self {
        let stop = CancellationToken::new();
        let meter = Meter {
            pipeline: options.pipeline.clone(),
            topic: options.topic.clone(),
            group: options.group.clone(),
            cluster: options.cluster.clone(),
            lag: lag.clone(),
        };
        Self { task: tokio::spawn(meter.measure(stop.clone())), stop }
    }

    async fn end(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "measuring the lag ended in a defect");
        }
    }
}

/// Why a poller ended.
enum Ended {
    /// It was told to.
    Told,
    /// The lane of this partition panicked.
    Broken(i32),
    /// Its client gets no answer, though Kafka answers others.
    CutOff,
}

struct Poller {
    consumer: BaseConsumer<Context>,
    assignment: Arc<Assignment>,
    topic: Arc<str>,
    /// Polled and not handed over yet.
    polled: HashMap<i32, Vec<Record>>,
    /// Commits whose answer nobody tells us: one that met a rebalance is refused in silence.
    unconfirmed: HashMap<i32, i64>,
    /// Whether it has said that it is paused.
    is_paused: bool,
}

impl Poller {
    fn new(
        options: ConsumerOptions,
        (processor, lag): (Arc<dyn Processor>, Lag),
        health: Health,
        runtime: Handle,
    ) -> Result<Self, KafkaError> {
        let mut config = options.cluster.consumer(&options.group);
        config.set("statistics.interval.ms", lag::INTERVAL.as_millis().to_string());
        let topic: Arc<str> = options.topic.as_str().into();
        let assignment = Arc::new(Assignment::new(options, (processor, lag), health, runtime));
        let context = Context(Arc::clone(&assignment));
        let consumer: BaseConsumer<Context> = config.create_with_context(context)?;
        consumer.subscribe(&[&topic])?;
        Ok(Self {
            consumer,
            assignment,
            topic,
            polled: HashMap::new(),
            unconfirmed: HashMap::new(),
            is_paused: false,
        })
    }

    fn run(mut self, stop: &CancellationToken) -> Ended {
        let mut looked = std::time::Instant::now();
        let mut answered = looked;
        let mut ended = Ended::Told;
        while !stop.is_cancelled() {
            if let Some(partition) = self.broken() {
                ended = Ended::Broken(partition);
                break;
            }
            self.poll();
            self.hand_over();
            self.follow_pause();
            self.resume();
            self.commit(CommitMode::Async);
            if looked.elapsed() > LOOK {
                looked = std::time::Instant::now();
                self.confirm();
                if let Some(state) = self.ask_for_topic() {
                    answered = looked;
                    self.assignment.health.note(self.assignment.options.part, state);
                } else if answered.elapsed() > UNANSWERED && self.is_cut_off() {
                    ended = Ended::CutOff;
                    break;
                }
            }
        }
        let all: Vec<i32> = self.assignment.held().keys().copied().collect();
        self.assignment.close(&all, self.assignment.options.grace);
        self.commit(CommitMode::Sync);
        // Dropping the consumer leaves the group, so that others need not wait for a time-out.
        ended
    }

    fn broken(&self) -> Option<i32> {
        self.assignment.held().iter().find(|(_, lane)| lane.is_broken()).map(|(partition, _)| *partition)
    }

    /// Takes what is there, up to a chunk; waits only for the first.
    fn poll(&mut self) {
        let mut wait = POLL;
        for _ in 0..CHUNK {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    let (partition, record) = (message.partition(), Record::of(&message, &self.topic));
                    drop(message);
                    // One call may take a partition away, give it back and return its first record.
                    self.forget_taken();
                    self.polled.entry(partition).or_default().push(record);
                    wait = Duration::ZERO;
                }
                Some(Err(error)) => self.complain(&error),
            }
        }
        self.forget_taken();
    }

    /// What was polled of a partition before it was taken away must not reach the lane that it gets when
    /// it comes back: that one starts further back, and would commit beyond what it has not seen. Called
    /// before a record is taken in: the callbacks of a poll come before what it returns.
    fn forget_taken(&mut self) {
        for partition in self.assignment.take_taken() {
            self.polled.remove(&partition);
            self.unconfirmed.remove(&partition);
        }
    }

    fn complain(&self, error: &KafkaError) {
        use RDKafkaErrorCode::{UnknownTopic, UnknownTopicOrPartition};
        let options = &self.assignment.options;
        // A broker may not know yet that the topic was made. If it is missing, that is found when it is asked for.
        if matches!(error.rdkafka_error_code(), Some(UnknownTopic | UnknownTopicOrPartition)) {
            tracing::debug!(pipeline = %options.pipeline, topic = %options.topic, %error, "not there yet");
            return;
        }
        tracing::warn!(pipeline = %options.pipeline, topic = %options.topic, %error, "cannot consume");
        let message = format!("topic {} cannot be consumed: {error}", options.topic);
        self.assignment.health.note(options.part, Err(message));
    }

    fn hand_over(&mut self) {
        if self.polled.is_empty() {
            return;
        }
        self.assignment.health.note(self.assignment.options.part, Ok(()));
        for (partition, records) in self.polled.drain() {
            // A partition that was just taken away has no lane: its records come again elsewhere.
            if let Some(lane) = self.assignment.held().get(&partition) {
                lane.push(records);
            }
        }
        let begun = std::time::Instant::now();
        while !self.is_paused && self.full().next().is_some() && begun.elapsed() < PATIENCE {
            self.assignment.room.wait(PATIENCE - begun.elapsed().min(PATIENCE));
        }
        let full: Vec<i32> = self.full().collect();
        self.switch(&full, Switch::Pause);
    }

    /// The lanes that are full and not paused.
    fn full(&self) -> impl Iterator<Item = i32> + use<> {
        let held = self.assignment.held();
        let share = BUDGET / held.len().max(1);
        let is_full = |lane: &Lane| !lane.paused && lane.is_full(share);
        let full: Vec<i32> = held.iter().filter(|(_, lane)| is_full(lane)).map(|(at, _)| *at).collect();
        full.into_iter()
    }

    /// Fetches nothing while the pipeline is paused, and says so when that changes. Its partitions stay its own.
    fn follow_pause(&mut self) {
        let options = &self.assignment.options;
        let is_paused = options.pause.is_paused();
        if is_paused != self.is_paused {
            let (pipeline, topic) = (&options.pipeline, &options.topic);
            match is_paused {
                true => tracing::info!(pipeline, topic, "paused: nothing is consumed"),
                false => tracing::info!(pipeline, topic, "resumed"),
            }
            self.is_paused = is_paused;
        }
        if is_paused {
            let held = self.assignment.held();
            let running: Vec<i32> = held.iter().filter(|(_, lane)| !lane.paused).map(|(at, _)| *at).collect();
            drop(held);
            self.switch(&running, Switch::Pause);
        }
    }

    fn resume(&self) {
        if self.is_paused {
            return;
        }
        let ready: Vec<i32> = {
            let held = self.assignment.held();
            let share = BUDGET / held.len().max(1);
            held.iter().filter(|(_, lane)| lane.paused && lane.has_room(share)).map(|(at, _)| *at).collect()
        };
        self.switch(&ready, Switch::Resume);
    }

    fn switch(&self, partitions: &[i32], switch: Switch) {
        if partitions.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.topic, *partition);
        }
        let switched = match switch {
            Switch::Pause => self.consumer.pause(&list),
            Switch::Resume => self.consumer.resume(&list),
        };
        if let Err(error) = switched {
            tracing::warn!(pipeline = %self.assignment.options.pipeline, %error, "cannot pause or resume");
            return;
        }
        for partition in partitions {
            if let Some(lane) = self.assignment.held().get_mut(partition) {
                lane.paused = matches!(switch, Switch::Pause);
            }
        }
    }

    fn commit(&mut self, mode: CommitMode) {
        let finished = self.assignment.finished.take();
        if !finished.is_empty() {
            self.assignment.commit(&self.consumer, &finished, mode);
            self.unconfirmed.extend(finished);
            self.assignment.health.note(self.assignment.options.lanes_part, Ok(()));
        }
    }

    /// Asks how far the group is, and commits again what did not get there.
    fn confirm(&mut self) {
        if self.unconfirmed.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for partition in self.unconfirmed.keys() {
            list.add_partition(&self.topic, *partition);
        }
        let Ok(committed) = self.consumer.committed_offsets(list, ASK) else { return };
        for element in committed.elements() {
            let partition = element.partition();
            let Some(wanted) = self.unconfirmed.remove(&partition) else { continue };
            let there = element.offset().to_raw().unwrap_or(-1);
            if there < wanted && self.assignment.held().contains_key(&partition) {
                self.assignment.finished.note(partition, wanted);
            }
        }
    }

    fn is_answered(&self) -> bool {
        self.consumer.fetch_metadata(Some(&self.topic), ASK).is_ok()
    }

    /// Whether the topic is there; nothing when nobody answers.
    fn ask_for_topic(&self) -> Option<Result<(), String>> {
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), ASK).ok()?;
        let found = metadata.topics().iter().find(|found| found.name() == &*self.topic);
        Some(match found.map(MetadataTopic::error) {
            Some(None) => Ok(()),
            Some(Some(error)) => {
                Err(format!("topic {} cannot be consumed: {}", self.topic, RDKafkaErrorCode::from(error)))
            }
            None => Err(format!("topic {} does not exist: create it, or correct `topic`", self.topic)),
        })
    }

    fn is_cut_off(&self) -> bool {
        let cluster = &self.assignment.options.cluster;
        !self.is_answered() && topics::is_answered(cluster, &self.topic, LONGEST_ASK)
    }
}

#[derive(Clone, Copy)]
enum Switch {
    Pause,
    Resume,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};

    use super::*;
    use crate::observer::{NewLetterNotice, Observer};

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Observer for Heard {
        fn letter(&self, _: &NewLetterNotice<'_>) {}

        fn down(&self, part: &str, error: &str) {
            self.0.lock().unwrap().push(format!("{part}: {error}"));
        }

        fn up(&self, part: &str) {
            self.0.lock().unwrap().push(format!("{part}: up"));
        }
    }

    /// Panics at the first batch that holds this offset, and notes all others.
    struct Fragile {
        panics: AtomicUsize,
        done: Mutex<Vec<i64>>,
    }

    #[async_trait]
    impl Processor for Fragile {
        async fn process(&self, batch: &[Record], _: &CancellationToken) -> bool {
            let holds = batch.iter().any(|record| record.position.offset == 5);
            assert!(!holds || self.panics.fetch_add(1, Ordering::Relaxed) > 0, "offset 5");
            self.done.lock().unwrap().extend(batch.iter().map(|record| record.position.offset));
            true
        }
    }

    fn options(brokers: String) -> ConsumerOptions {
        ConsumerOptions {
            pipeline: "fragile".into(),
            cluster: Cluster {
                brokers,
                properties: vec![
                    // The broker in this process waits for members that have left.
                    ("session.timeout.ms".into(), "6000".into()),
                    ("heartbeat.interval.ms".into(), "500".into()),
                ],
            },
            topic: "fragile".into(),
            group: "fragile".into(),
            batch: BatchOptions { max_records: 2, max_bytes: 1 << 20, max_delay: Duration::from_millis(10) },
            grace: Duration::from_secs(1),
            pause: Pause::never(),
            part: "stream",
            lanes_part: "stream lanes",
        }
    }

    /// A consumer whose client had lost its brokers in a restart read nothing any more, for ever.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_has_lost_its_brokers_is_cut_off_when_kafka_answers_others() {
        let cluster: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        cluster.create_topic("fragile", 1, 1).unwrap();
        let fragile = Arc::new(Fragile { panics: AtomicUsize::new(0), done: Mutex::default() });
        let health = Health::new(Arc::new(Heard::default()));
        let options = options(cluster.bootstrap_servers());
        let mut poller = Poller::new(options, (fragile, Lag::default()), health, Handle::current()).unwrap();
        assert!(!poller.is_cut_off());
        let lost = Cluster::at("127.0.0.1:9").consumer("fragile");
        poller.consumer = lost.create_with_context(Context(Arc::clone(&poller.assignment))).unwrap();
        assert!(poller.is_cut_off());
        cluster.broker_down(1).unwrap();
        assert!(!poller.is_cut_off(), "Kafka is away");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lane_that_panics_is_told_and_its_partition_goes_on() {
        let cluster: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        cluster.create_topic("fragile", 1, 1).unwrap();
        let brokers = cluster.bootstrap_servers();
        let producer: FutureProducer =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        for number in 0..20 {
            let value = number.to_string();
            let record = FutureRecord::<(), str>::to("fragile").payload(&value).partition(0);
            producer.send(record, Duration::from_secs(10)).await.unwrap();
        }
        let heard = Arc::new(Heard::default());
        let fragile = Arc::new(Fragile { panics: AtomicUsize::new(0), done: Mutex::default() });
        let health = Health::new(Arc::<Heard>::clone(&heard));
        let options = options(brokers);
        let stop = CancellationToken::new();
        let _at_the_end = stop.clone().drop_guard();
        let consuming =
            tokio::spawn(consume(options, Arc::<Fragile>::clone(&fragile), health.clone(), stop.clone()));
        let is_done = async || fragile.done.lock().unwrap().contains(&19);
        redrive_testkit::eventually(redrive_testkit::PATIENCE, "the last record", is_done).await;
        redrive_testkit::eventually(redrive_testkit::PATIENCE, "well again", async || health.get().is_ok())
            .await;
        stop.cancel();
        consuming.await.unwrap().unwrap();
        let mut done = fragile.done.lock().unwrap().clone();
        done.sort_unstable();
        done.dedup();
        assert_eq!(done, (0..20).collect::<Vec<i64>>(), "none is left out");
        let heard = heard.0.lock().unwrap().clone();
        assert!(heard[0].contains("stream lanes: the consumer of topic fragile broke"), "{heard:?}");
        assert!(heard.contains(&"stream lanes: up".to_owned()), "{heard:?}");
    }
}
