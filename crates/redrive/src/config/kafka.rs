//! `[kafka.NAME]`: a batch consumer into a database, with parking lot and dead-letter topics.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use redrive_core::column::Column;

use super::address::HttpUrl;
use super::column;
use super::context::Context;
use super::database::DatabaseUrl;
use super::document::Node;
use super::environment::Environment;
use super::handler::{read_headers, read_properties};
use super::identifier::{ColumnName, TableName};
use super::outbox::keep_resolved;
use super::retry::{BackoffDefaults, Retry};
use super::secret::Secret;
use super::section::Section;
use super::setting::{Setting, Wrong, choice, text};
use super::size::ByteSize;

/// One consumer.
#[derive(Debug, Clone)]
pub struct KafkaConfig {
    /// The name of the pipeline.
    pub name: String,
    /// The brokers to start from.
    pub brokers: Brokers,
    /// The topic that is consumed.
    pub topic: TopicName,
    /// The consumer group.
    pub group: String,
    /// What follows the topic's name in that of its dead-letter topic.
    pub dlq_suffix: String,
    /// The same for its parking lot.
    pub parking_suffix: String,
    /// The same for what the parking lot gave up.
    pub parking_dlq_suffix: String,
    /// When a batch is full.
    pub batch: KafkaBatch,
    /// The quick retries of a batch.
    pub retry: Retry,
    /// The slow retries of parked records.
    pub parking: KafkaParking,
    /// What happens when topics of letters are missing.
    pub create_topics: CreateTopics,
    /// How many batches are stored at a time.
    pub workers: NonZeroU32,
    /// How long Kafka may take to confirm a letter before it goes to disk.
    pub publish_timeout: Duration,
    /// Where letters wait while Kafka is away.
    pub fallback: KafkaFallback,
    /// Further settings of the client.
    pub properties: Vec<(String, Secret)>,
    /// How many unresolved letters are too many.
    pub alert_threshold: NonZeroU32,
    /// How long resolved and redriven letters are kept.
    pub keep_resolved: Option<Duration>,
    /// Where records are stored.
    pub sink: KafkaSink,
}

/// The parking lot.
#[derive(Debug, Clone)]
pub struct KafkaParking {
    /// Its consumer group.
    pub group: String,
    /// Its retries.
    pub retry: Retry,
}

/// The folder of letters that Kafka could not take.
#[derive(Debug, Clone)]
pub struct KafkaFallback {
    /// The folder.
    pub dir: PathBuf,
    /// How large it may get.
    pub max_size: ByteSize,
}

choice! {
    /// What happens when topics of letters are missing.
    CreateTopics {
        /// They are made.
        Auto = "auto",
        /// That is a mistake which a person mends.
        Never = "never",
    }
}

/// When a batch is full.
#[derive(Debug, Clone)]
pub struct KafkaBatch {
    /// After so many records.
    pub max_records: NonZeroU32,
    /// Or after so long.
    pub max_delay: Duration,
}

/// Where records are stored.
#[derive(Debug, Clone)]
pub struct KafkaSink {
    /// A database or a service.
    pub place: KafkaPlace,
    /// How long one batch may take.
    pub timeout: Duration,
    /// Which part of a record goes into which column.
    pub columns: Vec<Column>,
}

/// A database or a service.
#[derive(Debug, Clone)]
pub enum KafkaPlace {
    /// A table of a database.
    Table {
        /// The database.
        database: DatabaseUrl,
        /// The table.
        table: TableName,
        /// The columns of topic, partition and offset.
        position: KafkaPosition,
    },
    /// A service.
    Http {
        /// Its address.
        url: HttpUrl,
        /// Headers of every request.
        headers: Vec<(String, Secret)>,
    },
}

/// The columns that say which record a row is.
#[derive(Debug, Clone)]
pub struct KafkaPosition {
    /// The topic.
    pub topic: ColumnName,
    /// The partition.
    pub partition: ColumnName,
    /// The offset.
    pub offset: ColumnName,
}

/// `host:port`, comma-separated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brokers(String);

/// The name of a topic, as Kafka allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(String);

macro_rules! checked_text {
    ($name:ident, $kind:literal, $expected:expr, $is_valid:expr) => {
        impl $name {
            /// The text as it was written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Setting for $name {
            fn kind() -> String {
                $kind.to_owned()
            }

            fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
                let text = text(node, $expected)?;
                if $is_valid(text) { Ok(Self(text.to_owned())) } else { Err(Wrong::expected($expected)) }
            }
        }
    };
}

checked_text!(
    Brokers,
    "brokers",
    "brokers as \"host:port\", comma-separated, such as \"127.0.0.1:9092\"",
    |text: &str| text.split(',').all(is_broker)
);
checked_text!(
    TopicName,
    "topic name",
    "a topic name of letters, digits, dots, dashes and underscores, at most 249 characters long",
    is_topic
);
const BACKOFF: BackoffDefaults = BackoffDefaults { initial: "1s", factor: "2.0", max: "2s" };
const PARKING: BackoffDefaults = BackoffDefaults { initial: "30s", factor: "2.0", max: "10m" };

impl KafkaConfig {
    pub(crate) fn read(name: &str, section: &mut Section<'_>, context: &mut Context) -> Option<Self> {
        section.about(
            "A batch consumer: records of `topic` are stored in a database; bad ones go to a dead-letter \
             topic, and to a parking lot while the database is away.",
        );
        context.name(section, name);
        let brokers = section.required("brokers", "Brokers to start from, `host:port`, comma-separated.");
        let topic =
            section.derived("topic", TopicName(name.to_owned()), "`NAME`", "The topic that is consumed.");
        let group =
            section.derived("group", format!("{name}-writer"), "`NAME-writer`", "The consumer group.");
        let dlq_suffix = section.get("dlq-suffix", "-dlq", "Topic + this is the dead-letter topic.");
        let parking_suffix = section.get("parking-suffix", "-parking", "Topic + this is the parking lot.");
        let parking_dlq_suffix =
            section.get("parking-dlq-suffix", "-parking-dlq", "Topic + this takes what parking gave up.");
        let batch = section.table("batch", "When a batch is full.", KafkaBatch::read);
        let retry = section
            .table("retry", "The quick retries of a batch.", |section| Retry::read(section, "2", &BACKOFF));
        let parking = section.table("parking", "The slow retries of parked records.", |section| {
            KafkaParking::read(section, &group)
        });
        let create_topics = section.get(
            "create-topics",
            "auto",
            "`\"auto\"` makes missing topics of letters; with `\"never\"` a person must.",
        );
        let workers = section.get("workers", "2", "How many batches are stored at a time.");
        let publish_timeout = section.get(
            "publish-timeout",
            "10s",
            "How long Kafka may take to confirm a letter before that goes to disk.",
        );
        let fallback = section.table("fallback", "Letters that Kafka could not take.", |section| {
            KafkaFallback::read(section, context.data_dir.join("kafka").join(name))
        });
        let properties = section.table(
            "properties",
            "Further settings of librdkafka, but for those that our guarantees rest on. Keys go to partitions as with Java's client (`partitioner`, `murmur2_random`).",
            read_properties,
        );
        let alert_threshold = section.derived(
            "alert-threshold",
            context.alert_threshold,
            "`alerts.threshold`",
            "So many unresolved letters are too many.",
        );
        let keep_resolved = keep_resolved(section);
        let sink = section.required_table("sink", "Where records are stored.", |section| {
            KafkaSink::read(section, name, context)
        });
        let kafka = Self {
            name: name.to_owned(),
            brokers: brokers?,
            topic,
            group,
            dlq_suffix,
            parking_suffix,
            parking_dlq_suffix,
            batch,
            retry,
            parking,
            create_topics,
            workers,
            publish_timeout,
            fallback,
            properties,
            alert_threshold,
            keep_resolved,
            sink: sink?,
        };
        kafka.refuse_equal_topics(section);
        context.group(section, "group", kafka.brokers.as_str(), &kafka.group);
        context.group(section, "parking", kafka.brokers.as_str(), &kafka.parking.group);
        Some(kafka)
    }

    fn refuse_equal_topics(&self, section: &mut Section<'_>) {
        let suffixes = [
            ("dlq-suffix", &self.dlq_suffix),
            ("parking-suffix", &self.parking_suffix),
            ("parking-dlq-suffix", &self.parking_dlq_suffix),
        ];
        for (index, (key, suffix)) in suffixes.iter().enumerate() {
            if !is_topic(&format!("{}{suffix}", self.topic.as_str())) {
                section.refuse(
                    key,
                    "found a suffix that makes no valid topic name, expected one such as \"-dlq\"",
                );
            }
            if suffixes[..index].iter().any(|(_, other)| other == suffix) {
                section.refuse(key, "found the suffix of another topic, expected one of its own");
            }
        }
    }
}

impl KafkaBatch {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            max_records: section.get("max-records", "500", "After so many records."),
            max_delay: section.get("max-delay", "500ms", "Or after so long."),
        }
    }
}

impl KafkaParking {
    fn read(section: &mut Section<'_>, group: &str) -> Self {
        Self {
            group: section.derived(
                "group",
                format!("{group}-parking"),
                "`GROUP-parking`",
                "The consumer group of the parking lot.",
            ),
            retry: Retry::read(section, "5", &PARKING),
        }
    }
}

impl KafkaFallback {
    fn read(section: &mut Section<'_>, dir: PathBuf) -> Self {
        Self {
            dir: section.derived("dir", dir, "`DATA-DIR/kafka/NAME`", "The folder."),
            max_size: section.get("max-size", "1GiB", "How large it may get; then partitions wait."),
        }
    }
}

impl KafkaSink {
    fn read(section: &mut Section<'_>, name: &str, context: &Context) -> Option<Self> {
        let timeout = section.get("timeout", "30s", "How long one batch may take.");
        let http: Option<HttpUrl> =
            section.optional("http", "POST batches to this address, instead of a database.");
        let headers = section.table("headers", "Headers of every request to it.", read_headers);
        for key in ["database", "table", "position"] {
            if section.has("http") && section.has(key) {
                section.refuse(key, "found beside `http`, expected a database or a service, not both");
            }
        }
        let database = context.database(section);
        let table = TableName::read_own(
            section,
            name,
            "",
            "`NAME`, with `-` as `_`",
            "The table that records are stored in.",
        );
        let position = section.table("position", "The columns that say which record a row is.", |section| {
            KafkaPosition {
                topic: section.get("topic", "topic", "The topic."),
                partition: section.get("partition", "partition", "The partition."),
                offset: section.get("offset", "offset", "The offset; unique together with the other two."),
            }
        });
        let columns = section.required_table("columns", "What goes into which column.", |section| {
            let columns = column::read(section, "A path into the record: `$.id`, or `$` for the whole.");
            if columns.is_empty() {
                section.refuse_whole("found no column, expected at least one, such as { body = \"$\" }");
            }
            Some(columns)
        });
        let place = match http {
            Some(url) => KafkaPlace::Http { url, headers },
            None => KafkaPlace::Table { database, table, position },
        };
        Some(Self { place, timeout, columns: columns? })
    }
}

fn is_broker(text: &str) -> bool {
    text.trim().rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', ' ', '@']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn is_topic(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&text.len()) && !matches!(text, "." | "..") && text.bytes().all(allowed)
}
