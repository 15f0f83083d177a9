//! Retention: processed events and closed letters are kept for a while, then deleted, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metrics::counter;
use redrive_core::dead_letter::{DeadLetterQueue, Unavailable};
use redrive_store::Outbox;
use tokio_util::sync::CancellationToken;

/// How many events are deleted at once: few enough not to hold up anybody.
const CHUNK: u32 = 1_000;
/// The breath between two chunks.
const BREATH: Duration = Duration::from_millis(50);
/// How often to look, at least and at most.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// What is kept for a while only.
#[derive(Clone)]
enum Kept {
    /// Events that an outbox has delivered.
    Processed(Arc<Outbox>),
    /// Letters that were resolved or redriven.
    Closed(Arc<dyn DeadLetterQueue>),
}

/// How long a pipeline keeps what it is done with.
#[derive(Clone)]
pub(crate) struct Retention {
    pipeline: String,
    kept: Kept,
    keep: Duration,
}

impl Retention {
    /// Delivered events are kept for so long.
    pub(crate) fn of_processed(pipeline: &str, outbox: Arc<Outbox>, keep: Duration) -> Self {
        Self { pipeline: pipeline.to_owned(), kept: Kept::Processed(outbox), keep }
    }

    /// Closed letters are kept for so long.
    pub(crate) fn of_closed(letters: Arc<dyn DeadLetterQueue>, keep: Duration) -> Self {
        Self { pipeline: letters.pipeline().to_owned(), kept: Kept::Closed(letters), keep }
    }

    /// Deletes what is too old until it is told to stop.
    pub(crate) async fn keep(self, stop: CancellationToken) {
        let interval = (self.keep / 10).clamp(SHORTEST, LONGEST);
        let (pipeline, what) = (&self.pipeline, self.kept.name());
        loop {
            match self.purge(&stop).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(pipeline, deleted, "old {what} deleted"),
                Err(error) => tracing::warn!(pipeline, error, "old {what} could not be deleted"),
            }
            if stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_none() {
                return;
            }
        }
    }

    async fn purge(&self, stop: &CancellationToken) -> Result<u64, String> {
        let before = Timestamp::now().checked_sub(self.keep).unwrap_or(Timestamp::MIN);
        let mut deleted = 0;
        while !stop.is_cancelled() {
            // What is under way at the stop is undone, or done: both are right.
            let Some(purged) = stop.run_until_cancelled(self.kept.purge(before)).await else { break };
            let (count, is_all) = purged?;
            counter!("redrive_purged_total", "pipeline" => self.pipeline.clone()).increment(count);
            deleted += count;
            if is_all {
                break;
            }
            tokio::time::sleep(BREATH).await;
        }
        Ok(deleted)
    }
}

impl Kept {
    const fn name(&self) -> &'static str {
        match self {
            Self::Processed(_) => "processed events",
            Self::Closed(_) => "closed letters",
        }
    }

    /// Deletes some, and says how many, and whether that was all.
    async fn purge(&self, before: Timestamp) -> Result<(u64, bool), String> {
        match self {
            Self::Processed(outbox) => {
                let events =
                    outbox.purge_processed(before, CHUNK).await.map_err(|error| error.to_string())?;
                Ok((events, events < u64::from(CHUNK)))
            }
            Self::Closed(letters) => {
                let letters = letters.purge(before).await.map_err(|error: Unavailable| error.to_string())?;
                Ok((letters, true))
            }
        }
    }
}
