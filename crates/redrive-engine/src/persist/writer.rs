//! The writer: takes batches from the intake and does not let go before somebody has them.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redrive_core::failure::Failure;
use redrive_store::Record;
use tokio::time::{Instant as Tick, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::saver::Progress;
use crate::ladder::Rung;

/// How long to wait before a batch that nobody takes is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Writer {
    core: Arc<Core>,
    stop: CancellationToken,
    /// When a stop gives up on what is left.
    deadline: OnceLock<Tick>,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, stop: CancellationToken) -> Self {
        Self { core, stop, deadline: OnceLock::new() }
    }

    /// Saves what comes in; after the stop, what is left.
    pub(super) async fn run(self) {
        let closing = async {
            self.stop.cancelled().await;
            self.core.intake.close();
        };
        tokio::join!(closing, self.drain());
    }

    async fn drain(&self) {
        while let Some(batch) = self.core.intake.take(self.core.options.batch_size).await {
            tokio::select! {
                biased;
                () = self.out_of_time() => self.drop(&batch),
                () = self.write(&batch) => {}
            }
            self.core.intake.finish();
        }
    }

    async fn out_of_time(&self) {
        self.stop.cancelled().await;
        let deadline = self.deadline.get_or_init(|| Tick::now() + self.core.options.grace);
        sleep_until(*deadline).await;
    }

    /// Saves a batch, or sets it aside; comes back when one of them is done.
    async fn write(&self, batch: &[Record]) {
        let mut progress = Progress::new(batch.len());
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let outage = self.core.saver.save(batch, &mut progress).await;
            self.core.tally.seconds.record(begun.elapsed());
            self.saved(batch, &mut progress).await;
            match self.set_aside(batch, &progress, outage.as_ref()).await {
                Ok(rung) => {
                    let why = outage.map(|outage| outage.to_string()).unwrap_or_default();
                    return self.core.ladder.stand(rung, &why);
                }
                Err(error) => self.core.ladder.stand(Rung::Nowhere, &error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Counts what was saved, and shows it to the cache.
    async fn saved(&self, batch: &[Record], progress: &mut Progress) {
        let saved: Vec<&Record> = progress.saved.drain(..).map(|at| &batch[at]).collect();
        self.core.tally.delivered.increment(saved.len() as u64);
        if let Some(cache) = &self.core.cache {
            cache.refresh(&saved).await;
        }
    }

    /// What could not be saved becomes failed events. Says on which rung the batch ended.
    async fn set_aside(
        &self,
        batch: &[Record],
        progress: &Progress,
        outage: Option<&Failure>,
    ) -> Result<Rung, String> {
        let poison = progress.poison.iter().map(|(at, failure)| (&batch[*at], failure));
        let open = outage.into_iter().flat_map(|outage| progress.open.iter().map(move |at| (*at, outage)));
        let letters: Vec<_> = poison.chain(open.map(|(at, outage)| (&batch[at], outage))).collect();
        if letters.is_empty() {
            self.core.tally.batches_saved.increment(1);
            return Ok(Rung::Target);
        }
        self.core.bury(&letters).await?;
        self.core.tally.batches_failed.increment(1);
        Ok(if outage.is_some() { Rung::DeadLetters } else { Rung::Target })
    }

    /// The end of the ladder.
    fn drop(&self, batch: &[Record]) {
        self.core.tally.dropped.increment(batch.len() as u64);
        let why = "the stop came before the target or the failed events could take them";
        self.core.ladder.dropped(batch.len() as u64, why);
    }
}
