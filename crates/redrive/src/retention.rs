//! Retention: processed events are kept for a while, then deleted, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metrics::counter;
use redrive_store::{Error, Outbox};
use tokio_util::sync::CancellationToken;

/// How many are deleted at once: few enough not to hold up anybody.
const CHUNK: u32 = 1_000;
/// The breath between two chunks.
const BREATH: Duration = Duration::from_millis(50);
/// How often to look, at least and at most.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// How long an outbox keeps what it has delivered.
#[derive(Debug, Clone)]
pub(crate) struct Retention {
    pipeline: String,
    outbox: Arc<Outbox>,
    keep: Duration,
}

impl Retention {
    pub(crate) fn new(pipeline: &str, outbox: Arc<Outbox>, keep: Duration) -> Self {
        Self { pipeline: pipeline.to_owned(), outbox, keep }
    }

    /// Deletes what is too old until it is told to stop.
    pub(crate) async fn keep(self, stop: CancellationToken) {
        let interval = (self.keep / 10).clamp(SHORTEST, LONGEST);
        loop {
            match self.purge(&stop).await {
                Ok(0) => {}
                Ok(events) => {
                    tracing::info!(pipeline = %self.pipeline, events, "old processed events deleted");
                }
                Err(error) => {
                    tracing::warn!(pipeline = %self.pipeline, %error, "old events could not be deleted");
                }
            }
            if stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_none() {
                return;
            }
        }
    }

    async fn purge(&self, stop: &CancellationToken) -> Result<u64, Error> {
        let before = Timestamp::now().checked_sub(self.keep).unwrap_or(Timestamp::MIN);
        let mut deleted = 0;
        while !stop.is_cancelled() {
            let events = self.outbox.purge_processed(before, CHUNK).await?;
            counter!("redrive_purged_total", "pipeline" => self.pipeline.clone()).increment(events);
            deleted += events;
            if events < u64::from(CHUNK) {
                break;
            }
            tokio::time::sleep(BREATH).await;
        }
        Ok(deleted)
    }
}
