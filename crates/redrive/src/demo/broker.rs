//! A Kafka broker in this process, and what is sent to it.

#[cfg(feature = "kafka")]
pub(super) use with::Broker;
#[cfg(not(feature = "kafka"))]
pub(super) use without::Broker;

/// The topic of the decisions.
pub(super) const TOPIC: &str = "decisions";

#[cfg(feature = "kafka")]
mod with {
    use std::time::Duration;

    use anyhow::Context as _;
    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};

    use super::TOPIC;

    const PARTITIONS: i32 = 3;
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A broker in this process.
    pub(in crate::demo) struct Broker {
        /// Goes before the broker does.
        producer: FutureProducer,
        cluster: MockCluster<'static, DefaultProducerContext>,
    }

    impl Broker {
        /// Starts it; nothing when this build has none.
        pub(in crate::demo) fn start() -> anyhow::Result<Option<Self>> {
            let cluster = MockCluster::new(1).context("the broker in this process cannot start")?;
            for topic in [TOPIC, "decisions-dlq", "decisions-parking", "decisions-parking-dlq"] {
                cluster.create_topic(topic, PARTITIONS, 1).context("a topic cannot be made")?;
            }
            let producer = ClientConfig::new()
                .set("bootstrap.servers", cluster.bootstrap_servers())
                .create()
                .context("the producer cannot start")?;
            Ok(Some(Self { producer, cluster }))
        }

        pub(in crate::demo) fn address(&self) -> String {
            self.cluster.bootstrap_servers()
        }

        /// Sends records.
        pub(in crate::demo) async fn send(&self, records: Vec<(String, String)>) -> anyhow::Result<()> {
            let sends = records.iter().map(|(key, value)| {
                self.producer.send(FutureRecord::to(TOPIC).key(key).payload(value), PATIENCE)
            });
            for sent in futures_util::future::join_all(sends).await {
                sent.map_err(|(error, _)| error).context("the broker does not take a record")?;
            }
            Ok(())
        }
    }
}

#[cfg(not(feature = "kafka"))]
mod without {
    /// None: this build has no Kafka.
    pub(in crate::demo) enum Broker {}

    impl Broker {
        /// Nothing: this build has no Kafka.
        pub(in crate::demo) fn start() -> anyhow::Result<Option<Self>> {
            Ok(None)
        }

        pub(in crate::demo) fn address(&self) -> String {
            match *self {}
        }

        pub(in crate::demo) async fn send(&self, _: Vec<(String, String)>) -> anyhow::Result<()> {
            match *self {}
        }
    }
}
