//! Who does the work: `{ http = … }`, `{ kafka = … }` or `{ command = … }`.

use std::time::Duration;

use redrive_engine::handlers::is_reserved_header;

use super::address::HttpUrl;
use super::kafka::{Brokers, TopicName};
use super::secret::Secret;
use super::section::Section;

/// A handler that the configuration names.
#[derive(Debug, Clone)]
pub enum Handler {
    /// A POST to a service.
    Http(HttpHandler),
    /// A message on a topic.
    Kafka(KafkaHandler),
    /// A program, with the payload on its standard input.
    Command(CommandHandler),
}

/// A POST to a service.
#[derive(Debug, Clone)]
pub struct HttpHandler {
    /// Where to.
    pub url: HttpUrl,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The key of the HMAC signature, if requests are signed.
    pub secret: Option<Secret>,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
}

/// A message on a topic.
#[derive(Debug, Clone)]
pub struct KafkaHandler {
    /// The brokers to start from.
    pub brokers: Brokers,
    /// The topic.
    pub topic: TopicName,
    /// Further settings of the client.
    pub properties: Vec<(String, Secret)>,
}

/// A program, with the payload on its standard input.
#[derive(Debug, Clone)]
pub struct CommandHandler {
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
}

/// The ways to name a handler.
const WAYS: [&str; 3] = ["http", "kafka", "command"];

impl Handler {
    /// Reads `{ http = … }` and its sisters: exactly one of them must be there.
    pub(crate) fn read(section: &mut Section<'_>, timeout: Duration) -> Option<Self> {
        let http = section.shortened_table(
            "http",
            "url",
            "POST to this address; text, or a table with the keys below.",
            |section| HttpHandler::read(section, timeout),
        );
        let kafka = section.optional_table("kafka", "Publish to a topic.", KafkaHandler::read);
        let command = section.optional(
            "command",
            "Run this program with the payload on standard input: exit 0 is done, 75 transient, any other permanent.",
        );
        section.exactly_one(&WAYS);
        let command = command.map(|command| Self::Command(CommandHandler { command }));
        http.map(Self::Http).or(kafka.map(Self::Kafka)).or(command)
    }
}

impl HttpHandler {
    fn read(section: &mut Section<'_>, timeout: Duration) -> Option<Self> {
        let url = section.required("url", "The address.");
        let timeout = section.derived("timeout", timeout, "the pipeline's", "How long an answer may take.");
        let secret = section.optional(
            "secret",
            "Signs every request with HMAC-SHA256; `\"env:NAME\"` takes it from a variable.",
        );
        let headers = section.table("headers", "Headers of every request.", read_headers);
        Some(Self { url: url?, timeout, secret, headers })
    }
}

impl KafkaHandler {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let brokers = section.required("brokers", "Brokers to start from, `host:port`, comma-separated.");
        let topic = section.required("topic", "The topic.");
        let properties = section.table(
            "properties",
            "Further settings of librdkafka, but for those that our guarantees rest on. Keys go to partitions as with Java's client (`partitioner`, `murmur2_random`).",
            read_properties,
        );
        Some(Self { brokers: brokers?, topic: topic?, properties })
    }
}

/// Settings of librdkafka, by its own names.
pub(crate) fn read_properties(section: &mut Section<'_>) -> Vec<(String, Secret)> {
    let properties: Vec<(String, Secret)> = section
        .named_values("PROPERTY", "Such as `\"sasl.password\"`; `\"env:NAME\"` takes it from a variable.");
    for (name, _) in &properties {
        if is_promised(name) {
            section.refuse(name, "found a setting that our guarantees rest on, expected another");
        }
    }
    properties
}

/// Settings of librdkafka with which redrive keeps its word: when an offset is committed, when a record
/// counts as written. `brokers` and `group` have keys of their own.
fn is_promised(property: &str) -> bool {
    const PROMISED: [&str; 11] = [
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "auto.commit.enable",
        "enable.auto.offset.store",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "message.timeout.ms",
    ];
    PROMISED.contains(&property)
}

pub(crate) fn read_headers(section: &mut Section<'_>) -> Vec<(String, Secret)> {
    let headers: Vec<(String, Secret)> =
        section.named_values("HEADER", "The value; `\"env:NAME\"` works too.");
    for (name, value) in &headers {
        if !is_header_name(name) {
            section.refuse(name, "found a name that is no HTTP header, expected letters, digits and dashes");
        } else if is_reserved_header(name) {
            section.refuse(name, "found a header that redrive sets itself, expected one of your own");
        } else if value.expose().chars().any(char::is_control) {
            section.refuse(name, "found a control character in the value, expected one line of text");
        }
    }
    headers
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
