//! The writer: takes batches and does not let go before somebody has them.
//!
//! ```text
//!   memory ──(nothing on disk)──▶ target, or failed events ◀── disk, oldest first
//!      └──(something on disk, or neither takes it)──▶ disk ──────▲
//! ```
//! What comes while the journal still holds something queues behind it, so everything is saved in the
//! order in which it was accepted. With `Durability::Journal` callers fill the journal themselves, and
//! the queue in memory stays empty.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redrive_core::failure::Failure;
use redrive_spool::journal::Reader;
use redrive_store::Record;
use tokio::time::{Instant as Tick, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::disk::{Disk, Read};
use super::saver::Progress;
use crate::ladder::Rung;

/// How long to wait before a batch that nobody takes is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the number of waiting events is shown.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// What became of events on disk.
enum Lifted {
    /// Somebody else has them, but for these, which nobody can hold: by index.
    Yes(Vec<usize>),
    /// They stay for the next start.
    Stopped,
}

pub(super) struct Writer {
    core: Arc<Core>,
    stop: CancellationToken,
    /// The queue in memory is closed and empty: nothing is added to the journal any more.
    emptied: CancellationToken,
    /// When a stop gives up on what is left.
    deadline: OnceLock<Tick>,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, stop: CancellationToken) -> Self {
        Self { core, stop, emptied: CancellationToken::new(), deadline: OnceLock::new() }
    }

    /// Saves what comes in; after the stop, what is left.
    pub(super) async fn run(self) {
        let closing = async {
            self.stop.cancelled().await;
            self.core.intake.close();
        };
        tokio::join!(closing, self.empty_memory(), self.empty_disk(), self.show_waiting());
        self.core.show_waiting();
    }

    async fn empty_memory(&self) {
        while let Some(batch) = self.core.intake.take(self.core.options.batch_size).await {
            tokio::select! {
                biased;
                () = self.out_of_time() => self.give_up(&batch).await,
                () = self.pass_on(&batch) => {}
            }
            self.core.intake.finish();
        }
        self.emptied.cancel();
    }

    async fn empty_disk(&self) {
        let Some(disk) = &self.core.disk else { return };
        let mut reader = disk.reader();
        while let Some(read) = self.next_on_disk(disk, &mut reader).await {
            tokio::select! {
                biased;
                () = self.out_of_time() => return,
                lifted = self.lift(&read.records) => match lifted {
                    Lifted::Yes(left) => {
                        disk.acknowledge(&read, &left);
                        if !disk.has_left() {
                            self.core.pipeline.health.unplaced(None);
                        }
                    }
                    Lifted::Stopped => return,
                },
            }
            self.core.intake.finish_disk();
        }
    }

    /// The next events on disk; none once nothing is left and nothing more comes.
    async fn next_on_disk(&self, disk: &Disk, reader: &mut Reader) -> Option<Read> {
        let mut pause = FIRST_PAUSE;
        loop {
            let is_last = self.emptied.is_cancelled();
            match disk.read(reader, self.core.options.batch_size).await {
                Ok(read) if !read.records.is_empty() => return Some(read),
                Ok(_) if is_last => return None,
                Ok(_) => drop(self.emptied.run_until_cancelled(self.wait(disk, reader)).await),
                Err(error) => {
                    tracing::error!(pipeline = %self.core.pipeline.name, %error, "the journal cannot be read");
                    tokio::select! {
                        () = self.out_of_time() => return None,
                        () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    }
                }
            }
        }
    }

    /// Waits for more. What is left where it is has its turn again when failed events have theirs: somebody
    /// may have mended a table.
    async fn wait(&self, disk: &Disk, reader: &mut Reader) {
        if !disk.has_left() {
            return reader.wait().await;
        }
        if timeout(self.core.options.schedule.fixed_delay, reader.wait()).await.is_err() {
            disk.rewind(reader);
        }
    }

    async fn out_of_time(&self) {
        self.stop.cancelled().await;
        let deadline = self.deadline.get_or_init(|| Tick::now() + self.core.options.grace);
        sleep_until(*deadline).await;
    }

    /// Sees to it that somebody has a batch of the memory's.
    async fn pass_on(&self, batch: &[Record]) {
        let mut pause = FIRST_PAUSE;
        loop {
            let written = if self.behind() { None } else { Some(self.write(batch).await) };
            if let Some(Ok(left)) = written {
                let left: Vec<Record> = left.into_iter().map(|at| batch[at].clone()).collect();
                return self.keep(&left).await;
            }
            match (self.put_on_disk(batch).await, written) {
                (Ok(()), Some(Err(why))) => return self.core.ladder.stand(Rung::Disk, &why),
                (Ok(()), _) => return,
                (Err(error), _) => self.core.ladder.stand(Rung::Nowhere, &error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What nobody can hold goes to the disk, or is dropped: it must not keep the others waiting.
    async fn keep(&self, left: &[Record]) {
        if left.is_empty() {
            return;
        }
        if self.core.disk.is_none() {
            return self.give_up(left).await;
        }
        while let Err(error) = self.put_on_disk(left).await {
            self.core.ladder.stand(Rung::Nowhere, &error);
            sleep(LONGEST_PAUSE).await;
        }
    }

    /// Whether older events are still on disk.
    fn behind(&self) -> bool {
        self.core.disk.as_ref().is_some_and(|disk| disk.waiting() > 0)
    }

    async fn put_on_disk(&self, batch: &[Record]) -> Result<(), String> {
        let Some(disk) = &self.core.disk else { return Err("there is no journal below".to_owned()) };
        disk.append(batch).await.map_err(|error| error.to_string())
    }

    /// Lifts events from the disk; they stay there as long as nobody takes them, and after a stop.
    async fn lift(&self, batch: &[Record]) -> Lifted {
        let mut pause = FIRST_PAUSE;
        loop {
            let why = match self.write(batch).await {
                Ok(left) => return Lifted::Yes(left),
                Err(why) => why,
            };
            self.core.ladder.stand(Rung::Disk, &why);
            if self.stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return Lifted::Stopped;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Shows how much waits, until there is nothing more to show.
    async fn show_waiting(&self) {
        while self.emptied.run_until_cancelled(sleep(SHOWN_EVERY)).await.is_some() {
            self.core.show_waiting();
        }
    }

    /// Saves a batch, or sets aside what cannot be saved. Returns what nobody can hold, by index.
    async fn write(&self, batch: &[Record]) -> Result<Vec<usize>, String> {
        let mut progress = Progress::new(batch.len());
        let begun = Instant::now();
        let outage = self.core.saver.save(batch, &mut progress).await;
        self.core.tally.seconds.record(begun.elapsed());
        let (rung, left) = self.set_aside(batch, &progress, outage.as_ref()).await?;
        self.saved(batch, &progress).await;
        let why = outage.map(|outage| outage.to_string()).unwrap_or_default();
        self.core.ladder.stand(rung, &why);
        Ok(left)
    }

    /// Counts what was saved, and shows it to the cache.
    async fn saved(&self, batch: &[Record], progress: &Progress) {
        let saved: Vec<&Record> = progress.saved.iter().map(|at| &batch[*at]).collect();
        self.core.tally.delivered.increment(saved.len() as u64);
        if let Some(cache) = &self.core.cache {
            cache.refresh(&saved).await;
        }
    }

    /// What could not be saved becomes failed events. Says on which rung the batch ended, and what those
    /// cannot hold, either.
    async fn set_aside(
        &self,
        batch: &[Record],
        progress: &Progress,
        outage: Option<&Failure>,
    ) -> Result<(Rung, Vec<usize>), String> {
        let poison = progress.poison.iter().map(|(at, failure)| (*at, failure));
        let open = outage.into_iter().flat_map(|outage| progress.open.iter().map(move |at| (*at, outage)));
        let (places, failures): (Vec<usize>, Vec<&Failure>) = poison.chain(open).unzip();
        if places.is_empty() {
            self.core.tally.batches_saved.increment(1);
            return Ok((Rung::Target, Vec::new()));
        }
        self.core.tally.batches_failed.increment(1);
        let letters: Vec<_> = places.iter().map(|at| &batch[*at]).zip(failures).collect();
        let left = self.core.bury(&letters).await?.into_iter().map(|letter| places[letter]).collect();
        Ok((if outage.is_some() { Rung::DeadLetters } else { Rung::Target }, left))
    }

    /// The disk keeps them for the next start, or nobody does.
    async fn give_up(&self, batch: &[Record]) {
        let Err(why) = self.put_on_disk(batch).await else { return };
        self.core.tally.dropped.increment(batch.len() as u64);
        self.core.ladder.dropped(batch.len() as u64, &why);
    }
}
