//! A Kafka pipeline: the consumer of the stream, that of the parking lot, and the drainer of the disk.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redrive_spool::JournalOptions;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;
use crate::consumer::{ConsumerOptions, consume};
use crate::decode::Decoder;
use crate::health::Health;
use crate::ladder::Ladder;
use crate::lane::BatchOptions;
use crate::observer::Observer;
use crate::pause::Pause;
use crate::plan::Stage;
use crate::publisher::Publisher;
use crate::refused::Refused;
use crate::seal::Seal;
use crate::settings::RefusedSettings;
use crate::sink::{Guarded, Sink};
use crate::topics::{self, Missing};
use crate::writer::{LetterTopics, Retries, Writer};

/// The pauses between two looks at what is not ready.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a pipeline works.
#[derive(Debug, Clone)]
pub struct KafkaPipelineOptions {
    /// Its name.
    pub name: String,
    /// Where Kafka is.
    pub cluster: Cluster,
    /// The topic that is consumed.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// The consumer group of the parking lot.
    pub parking_group: String,
    /// Where letters go.
    pub letters: LetterTopics,
    /// What happens when those topics are missing.
    pub missing: Missing,
    /// When a batch is full.
    pub batch: BatchOptions,
    /// The quick retries of a batch.
    pub retries: Retries,
    /// The retries of the parking lot.
    pub parking: Retries,
    /// How many batches are stored at a time, of the stream and of the parking lot each.
    pub workers: usize,
    /// How long Kafka may take to confirm a letter before it goes to disk.
    pub publish_timeout: Duration,
    /// Where letters wait while Kafka is away.
    pub folder: PathBuf,
    /// How large that folder may get.
    pub folder_size: u64,
    /// How long a batch may finish when its partition is taken away, or at the end.
    pub grace: Duration,
}

/// A pipeline.
pub struct KafkaPipeline {
    options: KafkaPipelineOptions,
    decoder: Decoder,
    sink: Arc<dyn Sink>,
    observer: Arc<dyn Observer>,
    seal: Option<Seal>,
    pause: Pause,
    publisher: Arc<Publisher>,
    ladder: OnceLock<Arc<Ladder>>,
    health: Health,
}

impl KafkaPipeline {
    /// A pipeline that does nothing yet.
    ///
    /// # Errors
    /// [`RefusedSettings`] when librdkafka does not accept the settings.
    pub fn new(
        options: KafkaPipelineOptions,
        decoder: Decoder,
        sink: Arc<dyn Sink>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, RefusedSettings> {
        let publisher = Arc::new(Publisher::new(options.cluster.clone(), options.publish_timeout)?);
        let health = Health::new(Arc::clone(&observer));
        let sink = Arc::new(Guarded(sink));
        Ok(Self {
            options,
            decoder,
            sink,
            observer,
            seal: None,
            pause: Pause::never(),
            publisher,
            ladder: OnceLock::new(),
            health,
        })
    }

    /// The same pipeline, which knows redriven records by this seal. Without one, a redriven record is a
    /// new record.
    #[must_use]
    pub fn sealed_by(mut self, seal: Seal) -> Self {
        self.seal = Some(seal);
        self
    }

    /// The same pipeline, which consumes nothing while this says `true`.
    #[must_use]
    pub fn paused_by(mut self, switch: watch::Receiver<bool>) -> Self {
        self.pause = Pause::following(switch);
        self
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What publishes its records.
    #[must_use]
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// How it works.
    #[must_use]
    pub fn options(&self) -> &KafkaPipelineOptions {
        &self.options
    }

    /// How many letters wait on disk: for Kafka, and for a person.
    #[must_use]
    pub fn on_disk(&self) -> (u64, u64) {
        self.ladder.get().map_or((0, 0), |ladder| ladder.waiting())
    }

    /// The letters on disk that Kafka refused, once the folder is open.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.ladder.get().map(|ladder| ladder.refused())
    }

    /// Works until it is told to stop. What is wrong at the start is said by [`KafkaPipeline::health`], and
    /// looked at again until it is right.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let Some(ladder) = self.until_right(&stop, "disk", || self.open_ladder()).await else { return };
        // What waits on disk must not wait for the rest to be right.
        let drained = ladder.drain(&stop);
        let consumed = async {
            if self.until_right(&stop, "setup", || self.check()).await.is_some() {
                self.consume(&ladder, &stop).await;
            }
        };
        tokio::join!(drained, consumed);
    }

    /// Whether everything is there that it needs.
    ///
    /// # Errors
    /// A sentence for a person: what is wrong, and what to do.
    pub async fn check(&self) -> Result<(), String> {
        let options = &self.options;
        let letters = [&*options.letters.dlq, &*options.letters.parking, &*options.letters.parking_dlq];
        let cluster = &options.cluster;
        topics::ensure(cluster, &options.topic, &letters, options.missing).await?;
        topics::check_group(cluster, &options.group, &options.topic, "group").await?;
        let parking = &options.letters.parking;
        topics::check_group(cluster, &options.parking_group, parking, "parking.group").await?;
        self.sink.check().await
    }

    async fn open_ladder(&self) -> Result<Arc<Ladder>, String> {
        let journal = JournalOptions { max_size: self.options.folder_size, ..JournalOptions::default() };
        let (name, folder) = (&self.options.name, &self.options.folder);
        let opened = Ladder::open(name, Arc::clone(&self.publisher), folder, journal, self.health.clone());
        let ladder =
            Arc::new(opened.map_err(|error| format!("the folder for letters cannot be used: {error}"))?);
        Ok(Arc::clone(self.ladder.get_or_init(|| ladder)))
    }

    async fn until_right<T, F: Future<Output = Result<T, String>>>(
        &self,
        stop: &CancellationToken,
        part: &'static str,
        attempt: impl Fn() -> F,
    ) -> Option<T> {
        let mut pause = FIRST_PAUSE;
        loop {
            match stop.run_until_cancelled(attempt()).await? {
                Ok(right) => {
                    self.health.note(part, Ok(()));
                    return Some(right);
                }
                Err(wrong) => {
                    tracing::warn!(pipeline = %self.options.name, retry_in = ?pause, error = %wrong, "not ready");
                    self.health.note(part, Err(wrong));
                }
            }
            stop.run_until_cancelled(sleep(pause)).await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn consume(&self, ladder: &Arc<Ladder>, stop: &CancellationToken) {
        let stream = self.consume_stage(Stage::Stream, ladder, stop);
        let parking = self.consume_stage(Stage::Parking, ladder, stop);
        tokio::join!(stream, parking);
    }

    async fn consume_stage(&self, stage: Stage, ladder: &Arc<Ladder>, stop: &CancellationToken) {
        let options = &self.options;
        let (topic, group, retries) = match stage {
            Stage::Stream => (&options.topic, &options.group, options.retries),
            Stage::Parking => (&options.letters.parking, &options.parking_group, options.parking),
        };
        let (part, lanes_part) = match stage {
            Stage::Stream => ("stream", "stream lanes"),
            Stage::Parking => ("parking", "parking lanes"),
        };
        let writer = Writer {
            stage,
            pipeline: options.name.clone(),
            topic: options.topic.as_str().into(),
            group: group.clone(),
            retries,
            decoder: self.decoder.clone(),
            seal: self.seal.clone(),
            sink: Arc::clone(&self.sink),
            gate: Semaphore::new(options.workers.max(1)),
            pause: self.pause.clone(),
            ladder: Arc::clone(ladder),
            topics: options.letters.clone(),
            observer: Arc::clone(&self.observer),
            health: self.health.clone(),
        };
        let consumer = ConsumerOptions {
            pipeline: options.name.clone(),
            cluster: options.cluster.clone(),
            topic: topic.clone(),
            group: group.clone(),
            batch: options.batch,
            grace: options.grace,
            pause: self.pause.clone(),
            part,
            lanes_part,
        };
        if let Err(error) = consume(consumer, Arc::new(writer), self.health.clone(), stop.clone()).await {
            tracing::error!(pipeline = %options.name, topic, %error, "the consumer cannot start");
            let advice =
                format!("topic {topic} is not consumed, since the Kafka settings are wrong: {error}");
            self.health.note(part, Err(advice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent<T: Send>(_: impl Fn(Arc<KafkaPipeline>, CancellationToken) -> T) {}

    #[test]
    fn it_runs_on_any_thread() {
        sent(KafkaPipeline::run);
    }
}
