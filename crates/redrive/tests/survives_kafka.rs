//! `redrive serve` with a Kafka pipeline, killed, stopped and joined by others in mid-stream: every record is
//! in the table or in the dead-letter topic, once, and nothing is committed that is not.
//!
//! `REDRIVE_TEST_KAFKA_KILLS` and `REDRIVE_TEST_KAFKA_REBALANCES` say how many rounds; the defaults are few.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use redrive_kafka::headers;
use redrive_kafka::outgoing::Outgoing;
use redrive_kafka::record::{Position, Record};
use redrive_spool::{Journal, JournalOptions};
use redrive_testkit::{Client, PATIENCE, TestDatabase, postgres, server};
use support::folder_with;
use survival::Process;
use tokio::sync::Mutex;

const PARTITIONS: usize = 4;

fn rounds(variable: &str, few: usize) -> usize {
    std::env::var(variable).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(few)
}

async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    redrive_testkit::eventually(PATIENCE, what, holds).await;
}

struct Stage {
    brokers: String,
    topic: String,
    database: TestDatabase,
    client: Mutex<Client>,
    sent: usize,
    ends: [i64; PARTITIONS],
    poison: BTreeSet<String>,
    producer: FutureProducer,
}

impl Stage {
    async fn set() -> Option<Self> {
        let brokers = server("REDRIVE_TEST_KAFKA", file!())?;
        let database = postgres(file!()).await?;
        let mut client = Client::connect(&database).await;
        client
            .run(
                "CREATE TABLE decision_log (topic text NOT NULL, partition int NOT NULL, \"offset\" bigint NOT NULL, \
                 id text NOT NULL, amount bigint CHECK (amount >= 0), body jsonb, UNIQUE (topic, partition, \"offset\"))",
            )
            .await;
        let topic = database.url.rsplit('/').next().unwrap().replace('_', "-");
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let new = NewTopic::new(&topic, PARTITIONS as i32, TopicReplication::Fixed(1));
        admin.create_topics(&[new], &AdminOptions::new()).await.unwrap();
        let producer =
            ClientConfig::new().set("bootstrap.servers", &brokers).set("linger.ms", "2").create().unwrap();
        let (ends, poison) = ([0; PARTITIONS], BTreeSet::new());
        let client = Mutex::new(client);
        Some(Self { brokers, topic, database, client, sent: 0, ends, poison, producer })
    }

    fn configuration(&self, properties: &str) -> String {
        format!(
            "[kafka.decisions]\nbrokers = \"{}\"\ntopic = \"{}\"\ngroup = \"{1}-writer\"\n\
             batch = {{ max-records = 50, max-delay = \"50ms\" }}\n\
             retry = {{ attempts = 2, initial = \"100ms\", factor = 2.0, max = \"200ms\" }}\n\
             parking = {{ initial = \"200ms\", max = \"1s\" }}\n\
             properties = {{ \"session.timeout.ms\" = \"6000\", \"heartbeat.interval.ms\" = \"500\"{properties} }}\n\
             sink = {{ database = \"{}\", table = \"decision_log\", columns = {{ id = {{ path = \"$.id\", required = true }}, \
             amount = \"$.amount\", body = \"$\" }} }}\n",
            self.brokers, self.topic, self.database.url
        )
    }

    async fn send(&mut self, many: usize) {
        let mut reports = Vec::new();
        for id in self.sent..self.sent + many {
            let partition = id % PARTITIONS;
            let value = match id % 25 {
                3 => "{\"id\":".to_owned(),
                16 => format!("{{\"id\":\"p{id}\",\"amount\":-1}}"),
                _ => format!("{{\"id\":\"d{id}\",\"amount\":{id}}}"),
            };
            if matches!(id % 25, 3 | 16) {
                self.poison.insert(format!("{}/{partition}/{}", self.topic, self.ends[partition]));
            }
            self.ends[partition] += 1;
            let record =
                FutureRecord::<str, str>::to(&self.topic).partition(partition as i32).payload(&value);
            reports.push(self.producer.send_result(record).map_err(|(error, _)| error).unwrap());
        }
        for report in reports {
            report.await.unwrap().unwrap();
        }
        self.sent += many;
    }

    async fn rows(&self) -> usize {
        self.client.lock().await.number("SELECT count(*) FROM decision_log").await as usize
    }

    fn good(&self) -> usize {
        self.sent - self.poison.len()
    }

    /// How many records of the topic no consumer has committed.
    fn lag(&self) -> i64 {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", format!("{}-writer", self.topic))
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition(&self.topic, partition as i32);
        }
        let committed = consumer.committed_offsets(list, PATIENCE).unwrap();
        let done: i64 =
            committed.elements().iter().map(|element| element.offset().to_raw().unwrap_or(0).max(0)).sum();
        self.ends.iter().sum::<i64>() - done
    }

    /// The letters of the dead-letter topic.
    fn letters(&self) -> Vec<Record> {
        let topic = format!("{}-dlq", self.topic);
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", "reader")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        let mut left = 0;
        for partition in 0..PARTITIONS as i32 {
            let (low, high) = consumer.fetch_watermarks(&topic, partition, PATIENCE).unwrap();
            list.add_partition_offset(&topic, partition, Offset::Offset(low)).unwrap();
            left += high - low;
        }
        consumer.assign(&list).unwrap();
        let name = topic.as_str().into();
        let mut letters = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while (letters.len() as i64) < left {
            assert!(Instant::now() < deadline, "{} of {left} letters", letters.len());
            if let Some(Ok(message)) = consumer.poll(Duration::from_millis(200)) {
                assert!(message.partition() >= 0);
                letters.push(Record::of(&message, &name));
            }
        }
        letters
    }

    /// The origins of letters that lie on the disk of a member that has ended.
    fn on_disk(&self, folder: &Path) -> BTreeSet<String> {
        let mut origins = BTreeSet::new();
        for member in std::fs::read_dir(folder).unwrap().flatten() {
            for rung in ["outgoing", "refused"] {
                let dir = member.path().join("kafka/decisions").join(rung);
                if !dir.exists() {
                    continue;
                }
                let journal = Journal::open(&dir, JournalOptions::default()).unwrap();
                for entry in journal.reader().read(usize::MAX, usize::MAX).unwrap() {
                    let letter = Outgoing::decode(entry.payload).unwrap();
                    let position = Position::new(letter.topic.as_str(), 0, 0);
                    let (key, value, headers) = (letter.key, letter.value, letter.headers);
                    let record = Record { position, timestamp: None, key, value, headers };
                    origins.insert(headers::read(&record).origin.unwrap().to_string());
                }
            }
        }
        origins
    }

    /// Everything is in its place; says how many letters were published more than once, and how many lie on
    /// the disk of a member that is gone.
    async fn is_conserved(&self, members: Vec<Process>, folder: &Path) -> (usize, usize) {
        eventually("every good record is stored", || async { self.rows().await == self.good() }).await;
        eventually("no lag", || async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            self.lag() == 0
        })
        .await;
        members.into_iter().for_each(Process::kill);
        let letters = self.letters();
        let mut origins: BTreeSet<String> =
            letters.iter().map(|letter| headers::read(letter).origin.unwrap().to_string()).collect();
        let twice = letters.len() - origins.len();
        let on_disk = self.on_disk(folder);
        let left = on_disk.difference(&origins).count();
        origins.extend(on_disk);
        let lost: Vec<_> = self.poison.difference(&origins).collect();
        assert!(lost.is_empty(), "{} letters are nowhere: {lost:?}", lost.len());
        assert_eq!(origins.len(), self.poison.len(), "healthy records are dead");
        assert_eq!(self.rows().await, self.good());
        (twice, left)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_consumer_is_killed_again_and_again() {
    let Some(mut stage) = Stage::set().await else { return };
    let kills = rounds("REDRIVE_TEST_KAFKA_KILLS", 5);
    // A member that comes back under its name need not wait until it is missed.
    let folder = folder_with(&stage.configuration(", \"group.instance.id\" = \"one\""));
    let mut seed = 0x9E37_79B9_u64;
    for _ in 0..kills {
        let process = Process::serve(folder.path(), "one");
        stage.send(400).await;
        let before = stage.rows().await;
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = (seed >> 33) as usize % 300;
        let moved = || async { stage.rows().await >= (before + more).min(stage.good()) };
        eventually("records are stored", moved).await;
        process.kill();
    }
    let process = Process::serve(folder.path(), "one");
    let (twice, left) = stage.is_conserved(vec![process], folder.path()).await;
    // A batch of each partition at most.
    assert!(twice <= kills * PARTITIONS * 50, "{twice} letters were published twice");
    println!(
        "{kills} kills, {} records, {} poison, {twice} letters twice, {left} on disk",
        stage.sent,
        stage.poison.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_members_come_and_go() {
    let Some(mut stage) = Stage::set().await else { return };
    let rebalances = rounds("REDRIVE_TEST_KAFKA_REBALANCES", 5);
    let folder = folder_with(&stage.configuration(""));
    let mut members: Vec<Process> = vec![Process::serve(folder.path(), "m0")];
    for round in 1..=rebalances {
        stage.send(200).await;
        match round % 5 {
            // One hangs for longer than the group waits, and comes back with what it held.
            4 => {
                let process = &members[0];
                process.signal("STOP");
                stage.send(100).await;
                tokio::time::sleep(Duration::from_secs(8)).await;
                process.signal("CONT");
            }
            0 | 3 if members.len() > 1 => {
                let mut leaving = members.remove(0);
                leaving.signal("TERM");
                let left = Instant::now() + PATIENCE;
                while leaving.ended().is_none() {
                    assert!(Instant::now() < left, "it does not stop");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            _ => members.push(Process::serve(folder.path(), &format!("m{round}"))),
        }
        let before = stage.rows().await;
        let moved = || async { stage.rows().await >= (before + 50).min(stage.good()) };
        eventually("records are stored", moved).await;
    }
    let (twice, left) = stage.is_conserved(members, folder.path()).await;
    println!(
        "{rebalances} changes, {} records, {} poison, {twice} letters twice, {left} on disk",
        stage.sent,
        stage.poison.len()
    );
    if left > 0 {
        tell_of_disks(folder.path());
    }
}

/// Why letters went to disk.
fn tell_of_disks(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for line in
            log.lines().filter(|line| line.contains("part=\"kafka\"") || line.contains("producer broke"))
        {
            eprintln!("{}: {line}", entry.path().display());
        }
    }
}
