//! A topic full of records.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use crate::decision;

/// How many partitions it has.
const PARTITIONS: i32 = 4;

/// Makes a topic with so many records, spread evenly over its partitions.
pub(crate) async fn filled(brokers: &str, name: &str, records: u32) -> anyhow::Result<String> {
    let topic = format!("bench-{name}-{}", std::process::id());
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create()?;
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    admin.create_topics(&[new], &AdminOptions::new()).await?;
    let (brokers, into) = (brokers.to_owned(), topic.clone());
    tokio::task::spawn_blocking(move || fill(&brokers, &into, records)).await??;
    Ok(topic)
}

fn fill(brokers: &str, topic: &str, records: u32) -> anyhow::Result<()> {
    let producer: ThreadedProducer<_> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("linger.ms", "20")
        .set("queue.buffering.max.messages", "200000")
        .create::<ThreadedProducer<rdkafka::producer::DefaultProducerContext>>()?;
    for number in 0..records {
        let value = decision::value(number, i64::from(number));
        let partition = (number % PARTITIONS as u32) as i32;
        let mut record = BaseRecord::<str, str>::to(topic).payload(&value).partition(partition);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }
    producer.flush(Duration::from_secs(60))?;
    Ok(())
}
