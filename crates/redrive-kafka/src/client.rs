//! How we speak to Kafka: the settings of every client, and its errors as failures.

use std::time::Duration;

use rdkafka::config::{ClientConfig, FromClientConfig};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::FutureProducer;
use redrive_core::classify::kafka;
use redrive_core::failure::{Class, Code, Failure};

use crate::error_name::name;
use crate::settings::{RefusedSettings, check_property};

/// Which partition a key belongs to, as Java's client decides it: records of one key stay together, whoever writes them.
/// A property of the same name overrides it.
pub const PARTITIONER: (&str, &str) = ("partitioner", "murmur2_random");

/// Where Kafka is, and how to log in.
#[derive(Clone)]
pub struct Cluster {
    /// The brokers to start from, `host:port`, comma-separated.
    pub brokers: String,
    /// Further settings of librdkafka, such as `security.protocol`; they may hold secrets.
    pub properties: Vec<(String, String)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Cluster {
    /// The brokers at this address.
    #[must_use]
    pub fn at(brokers: &str) -> Self {
        Self { brokers: brokers.to_owned(), properties: Vec::new() }
    }

    /// How our clients call themselves.
    pub(crate) fn client_id(&self) -> &str {
        let given = self.properties.iter().find(|(key, _)| key == "client.id");
        given.map_or("redrive", |(_, value)| value)
    }

    /// Whether librdkafka makes clients of these settings. No broker is asked.
    ///
    /// # Errors
    /// [`RefusedSettings`] says which one it does not accept, or which do not fit each other.
    pub fn check(&self) -> Result<(), RefusedSettings> {
        for (name, value) in &self.properties {
            check_property(name, value)?;
        }
        let nowhere = |mut config: ClientConfig| {
            config.remove("bootstrap.servers");
            config
        };
        drop(self.create::<BaseConsumer>(&nowhere(self.consumer("check")))?);
        self.create::<FutureProducer>(&nowhere(self.producer(Duration::from_secs(1)))).map(drop)
    }

    /// A client with these settings, which are those of the cluster and ours.
    pub(crate) fn create<T: FromClientConfig>(&self, config: &ClientConfig) -> Result<T, RefusedSettings> {
        config.create().map_err(|error| self.refused(&error))
    }

    /// What this error says of the settings, without their values.
    pub(crate) fn refused(&self, error: &KafkaError) -> RefusedSettings {
        RefusedSettings::new(error, self.properties.iter().map(|(_, value)| value.as_str()))
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", "redrive");
        // A producer would complain about each of the others.
        for (key, value) in self.properties.iter().filter(|(key, _)| !is_for_consumers(key)) {
            config.set(key, value);
        }
        config
            .set("bootstrap.servers", &self.brokers)
            // What a person has mended should work again soon, not after five minutes.
            .set("topic.metadata.refresh.interval.ms", "10000")
            .set("reconnect.backoff.max.ms", "2000");
        config
    }

    /// A producer that waits for all in-sync replicas and neither doubles nor reorders.
    pub(crate) fn producer(&self, timeout: Duration) -> ClientConfig {
        let mut config = self.client();
        if config.get(PARTITIONER.0).is_none() {
            config.set(PARTITIONER.0, PARTITIONER.1);
        }
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", timeout.as_millis().clamp(1, i32::MAX as u128).to_string())
            .set("linger.ms", "1")
            // The topic's own limit decides: a record that came out of Kafka should go back in.
            .set("message.max.bytes", "100000000");
        config
    }

    /// A consumer of a group that commits by hand.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config
            .set("auto.offset.reset", "earliest")
            // A member that comes or goes takes only what changes hands from the others.
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("allow.auto.create.topics", "false")
            // What waits in the client is memory, whatever the lag.
            .set("queued.max.messages.kbytes", "16384")
            .set("fetch.message.max.bytes", "4194304")
            .set("fetch.wait.max.ms", "100");
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        // Not up to anybody's properties: an offset that the client commits by itself is a record lost.
        config
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false");
        config
    }

    /// A client that only asks.
    pub(crate) fn asking(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("allow.auto.create.topics", "false");
        config
    }
}

/// What an error of the client means.
#[must_use]
pub fn failure(error: &KafkaError, what: &str) -> Failure {
    let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
    Failure::new(class(code), "Kafka", format!("{what}: {error}")).with_code(Code::Kafka(name(code)))
}

/// Whether only consumers know this setting.
fn is_for_consumers(key: &str) -> bool {
    const PREFIXES: [&str; 5] = ["group.", "fetch.", "queued.", "auto.", "consume."];
    const KEYS: [&str; 6] = [
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "isolation.level",
        "check.crcs",
    ];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || KEYS.contains(&key)
}

/// Whether the same may succeed later without a person: errors of a broken client are ours to mend.
fn class(code: RDKafkaErrorCode) -> Class {
    use RDKafkaErrorCode as E;
    match code {
        E::Fatal
        | E::PurgeQueue
        | E::PurgeInflight
        | E::BrokerDestroy
        | E::Inconsistent
        | E::OutOfOrderSequenceNumber
        | E::UnknownProducerId
        | E::InvalidProducerEpoch
        | E::InvalidProducerIdMapping
        | E::ProducerFenced
        | E::Fenced
        | E::GaplessGuarantee
        // The topic is missing, as far as the brokers know: it may be on its way.
        | E::UnknownTopic => Class::Transient,
        _ => kafka::classify(&name(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that commits by itself would lose what was read and not stored yet.
    #[test]
    fn nobodys_properties_change_who_commits() {
        let mut cluster = Cluster::at("here:9092");
        for (key, value) in [
            ("enable.auto.commit", "true"),
            ("enable.auto.offset.store", "true"),
            ("group.id", "another"),
            ("bootstrap.servers", "there:9092"),
            ("enable.idempotence", "false"),
            ("acks", "0"),
            ("session.timeout.ms", "6000"),
        ] {
            cluster.properties.push((key.to_owned(), value.to_owned()));
        }
        let consumer = cluster.consumer("ours");
        let of_consumer = |key| consumer.get(key);
        assert_eq!(of_consumer("enable.auto.commit"), Some("false"));
        assert_eq!(of_consumer("enable.auto.offset.store"), Some("false"));
        assert_eq!(of_consumer("group.id"), Some("ours"));
        assert_eq!(of_consumer("bootstrap.servers"), Some("here:9092"));
        assert_eq!(of_consumer("session.timeout.ms"), Some("6000"));
        let producer = cluster.producer(Duration::from_secs(1));
        assert_eq!(producer.get("acks"), Some("all"));
        assert_eq!(producer.get("enable.idempotence"), Some("true"));
    }
}
