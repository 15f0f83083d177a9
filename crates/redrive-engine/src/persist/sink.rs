//! A sink: where a persister saves.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::Failure;
use redrive_store::{Record, Target};
use tokio::time::timeout;

/// When an answer is given up: a server that vanished without a word never sends one.
pub(super) const GIVE_UP: Duration = Duration::from_secs(30);

/// Where a persister saves. [`Target`] is the one that ships: a table of keys and payloads.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Saves the records, and returns those that never can be beside the others: by index.
    ///
    /// It must be idempotent: records come again when an answer was lost.
    ///
    /// # Errors
    /// A [`Failure`] when the batch as a whole was not saved. A retryable one is an outage; any other
    /// has the batch halved until the records that fail alone are found.
    async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Failure>;
}

#[async_trait]
impl Sink for Target {
    async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
        Self::save(self, records).await.map_err(|error| error.failure())
    }
}

/// Saves, or fails transiently when no answer comes.
pub(super) async fn save_in_time(
    sink: &dyn Sink,
    records: &[Record],
) -> Result<Vec<(usize, Failure)>, Failure> {
    match timeout(GIVE_UP, sink.save(records)).await {
        Ok(saved) => saved,
        Err(_) => Err(Failure::transient("Timeout", format!("the target did not answer within {GIVE_UP:?}"))),
    }
}
