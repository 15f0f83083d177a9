//! Handlers from their settings.

use std::sync::Arc;
use std::time::Duration;

use redrive::config;
#[cfg(feature = "kafka")]
use redrive_core::event::Event;
#[cfg(feature = "kafka")]
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_engine::handlers::{CommandHandler, CommandOptions, HttpHandler, HttpOptions, Secret};

/// The handler of a pipeline that these settings name.
pub(super) fn handler(
    pipeline: &str,
    setting: &config::Handler,
    timeout: Duration,
) -> anyhow::Result<Arc<dyn Handler>> {
    Ok(match setting {
        config::Handler::Http(http) => Arc::new(HttpHandler::new(pipeline, http_options(http))?),
        config::Handler::Command(command) => {
            Arc::new(CommandHandler::new(pipeline, command_options(command, timeout))?)
        }
        config::Handler::Kafka(kafka) => kafka_handler(pipeline, kafka, timeout)?,
    })
}

/// How long this handler takes at most.
pub(super) fn timeout(setting: &config::Handler, default: Duration) -> Duration {
    match setting {
        config::Handler::Http(http) => http.timeout,
        config::Handler::Command(_) | config::Handler::Kafka(_) => default,
    }
}

fn http_options(http: &config::HttpHandler) -> HttpOptions {
    let secret = |secret: &config::Secret| Secret::new(secret.expose());
    HttpOptions {
        url: http.url.as_url().clone(),
        timeout: http.timeout,
        secret: http.secret.as_ref().map(secret),
        headers: http.headers.iter().map(|(name, value)| (name.clone(), secret(value))).collect(),
    }
}

fn command_options(command: &config::CommandHandler, timeout: Duration) -> CommandOptions {
    CommandOptions { command: command.command.iter().map(Into::into).collect(), timeout }
}

#[cfg(feature = "kafka")]
fn kafka_handler(
    pipeline: &str,
    kafka: &config::KafkaHandler,
    timeout: Duration,
) -> anyhow::Result<Arc<dyn Handler>> {
    use redrive_engine::handlers::{KafkaHandler, KafkaOptions};

    let (brokers, topic) = (kafka.brokers.as_str().to_owned(), kafka.topic.as_str().to_owned());
    let properties =
        kafka.properties.iter().map(|(name, value)| (name.clone(), Secret::new(value.expose()))).collect();
    let made = KafkaHandler::new(pipeline, KafkaOptions { brokers, topic, timeout, properties });
    Ok(match made {
        Ok(handler) => Arc::new(handler),
        // Its events wait, and all that has nothing to do with it works.
        Err(error) => {
            tracing::error!(pipeline, %error, "a handler cannot work");
            Arc::new(Refused(error.to_string()))
        }
    })
}

/// A handler whose settings cannot be used: every event waits until a person has corrected them.
#[cfg(feature = "kafka")]
struct Refused(String);

#[cfg(feature = "kafka")]
#[async_trait::async_trait]
impl Handler for Refused {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        batch.iter().map(|_| Err(Failure::transient("Settings", self.0.clone()))).collect()
    }
}

#[cfg(not(feature = "kafka"))]
fn kafka_handler(_: &str, kafka: &config::KafkaHandler, _: Duration) -> anyhow::Result<Arc<dyn Handler>> {
    let topic = kafka.topic.as_str();
    anyhow::bail!(
        "the kafka handler for topic {topic} is not part of this build: build with the feature `kafka`"
    )
}
