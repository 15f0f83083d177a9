//! The topics that a pipeline needs: looked for, and made where that is allowed.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::groups::GroupInfo;
use rdkafka::types::RDKafkaRespErr;
use tokio::time::{sleep, timeout};

use crate::client::Cluster;
use crate::settings::RefusedSettings;

const PATIENCE: Duration = Duration::from_secs(5);
/// How often a topic that was made is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// What the headers of a letter may add to its size.
const HEADROOM: i64 = 64 * 1024;

/// Whether missing topics of letters are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// They are made, like the topic they belong to.
    Create,
    /// They are a mistake that a person mends.
    Refuse,
}

/// Looks for the topic that is consumed and those of its letters, and makes the latter if that is allowed.
///
/// # Errors
/// A sentence for a person: what is wrong, and what to do.
pub async fn ensure(
    cluster: &Cluster,
    topic: &str,
    letters: &[&str],
    missing: Missing,
) -> Result<(), String> {
    let partitions = partitions(cluster, topic).await?;
    let Some(partitions) = partitions else {
        return Err(format!(
            "topic {topic} does not exist at {}: create it, or correct `topic`",
            cluster.brokers
        ));
    };
    for letter_topic in letters {
        if self::partitions(cluster, letter_topic).await?.is_some() {
            continue;
        }
        match missing {
            Missing::Create => create(cluster, topic, letter_topic, partitions).await?,
            Missing::Refuse => {
                return Err(format!(
                    "topic {letter_topic} does not exist and `create-topics` is \"never\": create it with {partitions} \
                     partitions"
                ));
            }
        }
    }
    Ok(())
}

/// How many partitions a topic has; nothing where there is no such topic.
///
/// # Errors
/// A sentence for a person when no broker answers.
pub async fn partitions(cluster: &Cluster, topic: &str) -> Result<Option<i32>, String> {
    let (cluster, name, brokers) = (cluster.clone(), topic.to_owned(), cluster.brokers.clone());
    let asked = tokio::task::spawn_blocking(move || {
        let client: BaseConsumer = cluster.create(&cluster.asking()).map_err(|error| wrong(&error))?;
        let metadata = client.fetch_metadata(Some(&name), PATIENCE).map_err(|error| {
            format!("no broker at {brokers} answers: check that they run, and `brokers`: {error}")
        })?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == name) else {
            return Ok(None);
        };
        match found.error() {
            None if found.partitions().is_empty() => Ok(None),
            None => Ok(i32::try_from(found.partitions().len()).ok()),
            Some(
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
            ) => Ok(None),
            Some(error) => Err(format!("topic {name} cannot be used: {}", RDKafkaErrorCode::from(error))),
        }
    });
    asked.await.unwrap_or_else(|_| Err("asking Kafka ended in a defect".to_owned()))
}

/// Whether Kafka answers a new client that asks about this topic. The clients that are in use cannot be asked: one that
/// hears from a broker in mid-restart that there are no brokers forgets all of them, and never looks for them again
/// (confluentinc/librdkafka#5301).
pub(crate) fn is_answered(cluster: &Cluster, topic: &str, within: Duration) -> bool {
    let client: Result<BaseConsumer, _> = cluster.asking().create();
    let asked = client.and_then(|client| client.fetch_metadata(Some(topic), within));
    asked.is_ok_and(|metadata| !metadata.brokers().is_empty())
}

/// Says who else is in a consumer group: a program that is not redrive would get a part of its records.
///
/// # Errors
/// A sentence for a person that names the group, the topic and the other program.
pub async fn check_group(cluster: &Cluster, group: &str, topic: &str, setting: &str) -> Result<(), String> {
    let (config, ours) = (cluster.asking(), cluster.client_id().to_owned());
    let name = group.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let client: BaseConsumer = config.create().ok()?;
        // A broker that cannot tell is no reason not to start.
        let groups = client.fetch_group_list(Some(&name), PATIENCE).ok()?;
        let members = groups.groups().iter().flat_map(GroupInfo::members);
        let other = members.into_iter().find(|member| !member.client_id().starts_with(&ours))?;
        Some(format!("{} at {}", other.client_id(), other.client_host()))
    });
    match asked.await {
        Ok(Some(other)) => Err(format!(
            "consumer group {group} on topic {topic} is also used by {other}, which would get a part of its records: \
             stop that, or give `{setting}` another name"
        )),
        _ => Ok(()),
    }
}

async fn create(cluster: &Cluster, like: &str, topic: &str, partitions: i32) -> Result<(), String> {
    let admin: AdminClient<DefaultClientContext> =
        cluster.create(&cluster.asking()).map_err(|error| wrong(&error))?;
    let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
    let size = largest_record(&admin, like, &options).await.map(|size| (size + HEADROOM).to_string());
    let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(-1));
    if let Some(size) = &size {
        new = new.set("max.message.bytes", size);
    }
    let advice = |error: &str| {
        format!(
            "topic {topic} does not exist and cannot be created: {error}: create it with {partitions} partitions, or allow this user to"
        )
    };
    let created = admin.create_topics(&[new], &options).await.map_err(|error| advice(&error.to_string()))?;
    match created.into_iter().next() {
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) | Some(Ok(_)) | None => {}
        Some(Err((_, error))) => return Err(advice(&error.to_string())),
    }
    tracing::info!(topic, partitions, "topic created");
    is_there(cluster, topic).await;
    Ok(())
}

/// Waits until the brokers know a topic that was made: whoever asks for it before that is told that it is missing.
async fn is_there(cluster: &Cluster, topic: &str) {
    let there = async {
        while !matches!(partitions(cluster, topic).await, Ok(Some(_))) {
            sleep(LOOK).await;
        }
    };
    // The consumers look for it, too.
    let _ = timeout(PATIENCE, there).await;
}

fn wrong(error: &RefusedSettings) -> String {
    format!("the Kafka settings are wrong: {error}")
}

/// How large a record of this topic may be.
async fn largest_record(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    options: &AdminOptions,
) -> Option<i64> {
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], options).await.ok()?;
    let resource = described.into_iter().next()?.ok()?;
    resource.get("max.message.bytes")?.value.as_ref()?.parse().ok()
}
