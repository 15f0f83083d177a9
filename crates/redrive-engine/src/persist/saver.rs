//! The saver: brings the records of a batch into the sink, as far as they can be.

use std::borrow::Cow;
use std::sync::Arc;

use redrive_core::backoff::Backoff;
use redrive_core::failure::Failure;
use redrive_store::Record;

use super::isolate::isolate;
use super::sink::Sink;

/// Saves batches, and repeats what fails transiently.
pub(super) struct Saver {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) retries: u32,
    pub(super) backoff: Backoff,
}

/// How far the records of a batch are, by index.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Saved since somebody last asked.
    pub(super) saved: Vec<usize>,
    /// Never to be saved.
    pub(super) poison: Vec<(usize, Failure)>,
    /// Not saved, or nobody knows.
    pub(super) open: Vec<usize>,
}

impl Progress {
    /// Nothing is done about a batch of this size.
    pub(super) fn new(records: usize) -> Self {
        Self { open: (0..records).collect(), ..Self::default() }
    }
}

impl Saver {
    /// Saves what is open; waits for an outage a little, and returns it if it lasts.
    pub(super) async fn save(&self, batch: &[Record], progress: &mut Progress) -> Option<Failure> {
        for failures in 1..=self.retries {
            self.attempt(batch, progress).await?;
            tokio::time::sleep(self.backoff.delay(failures, 0)).await;
        }
        self.attempt(batch, progress).await
    }

    /// Saves what is open in one attempt, and returns the outage that was in its way.
    pub(super) async fn attempt(&self, batch: &[Record], progress: &mut Progress) -> Option<Failure> {
        let open = std::mem::take(&mut progress.open);
        let records = part(batch, &open);
        let sorted = isolate(&*self.sink, &records).await;
        progress.saved.extend(sorted.saved.into_iter().map(|at| open[at]));
        progress.poison.extend(sorted.poison.into_iter().map(|(at, failure)| (open[at], failure)));
        progress.open.extend(sorted.open.into_iter().map(|at| open[at]));
        sorted.cause
    }
}

/// These records of the batch; mostly that is all of it.
fn part<'a>(batch: &'a [Record], of: &[usize]) -> Cow<'a, [Record]> {
    if of.len() == batch.len() {
        return Cow::Borrowed(batch);
    }
    Cow::Owned(of.iter().map(|at| batch[*at].clone()).collect())
}
