//! `[kafka.NAME]`: a batch consumer into a database, with parking lot and dead-letter topics.

use std::num::NonZeroU32;
use std::time::Duration;

use super::context::Context;
use super::database::DatabaseUrl;
use super::document::Node;
use super::environment::Environment;
use super::identifier::{ColumnName, TableName};
use super::retry::{BackoffDefaults, Retry};
use super::section::Section;
use super::setting::{Setting, Wrong, text};

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
    /// Where records are stored.
    pub sink: KafkaSink,
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
    /// The database.
    pub database: DatabaseUrl,
    /// The table.
    pub table: TableName,
    /// Which part of a record goes into which column.
    pub columns: Vec<(ColumnName, JsonPath)>,
}

/// `host:port`, comma-separated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brokers(String);

/// The name of a topic, as Kafka allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(String);

/// A part of a JSON value: `$` is the whole, `$.user.id` a field of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(String);

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
checked_text!(
    JsonPath,
    "JSON path",
    "a path into the record, such as \"$.id\", or \"$\" for the whole",
    |text: &str| {
        let is_field = |field: &str| !field.is_empty() && !field.contains(char::is_whitespace);
        text == "$" || text.strip_prefix("$.").is_some_and(|fields| fields.split('.').all(is_field))
    }
);

const BACKOFF: BackoffDefaults = BackoffDefaults { initial: "1s", factor: "2.0", max: "2s" };

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
            sink: sink?,
        };
        kafka.refuse_equal_topics(section);
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

impl KafkaSink {
    fn read(section: &mut Section<'_>, name: &str, context: &Context) -> Option<Self> {
        let database = context.database(section);
        let table = TableName::read_own(
            section,
            name,
            "",
            "`NAME`, with `-` as `_`",
            "The table that records are stored in.",
        );
        let columns = section.required_table("columns", "What goes into which column.", read_columns);
        Some(Self { database, table, columns: columns? })
    }
}

fn read_columns(section: &mut Section<'_>) -> Option<Vec<(ColumnName, JsonPath)>> {
    let written = section.named_values("COLUMN", "A path into the record: `$.id`, or `$` for the whole.");
    let mut columns = Vec::new();
    for (name, path) in written {
        match ColumnName::new(&name) {
            Some(column) => columns.push((column, path)),
            None => section.refuse(
                &name,
                "found a key that is no column name, expected letters, digits and underscores",
            ),
        }
    }
    if columns.is_empty() {
        section.refuse_whole("found no column, expected at least one, such as { body = \"$\" }");
    }
    Some(columns)
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
