//! Reprocessing: failed events are tried again by a schedule, oldest first.
//!
//! The first run comes a while after the start, each further one a while after the last one *ended*.
//! Claims are leased and fenced, so two schedulers share the work, and what a dead one held is taken
//! over. An event whose save fails for a reason of its own counts a failed run, and is `FAILED` after the
//! last of them. An outage of the target ends the run and counts for nobody; so does the death of a
//! scheduler, as a save is the same whoever repeats it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::failure::Failure;
use redrive_core::lease::{Failed, Lease, Settlement, Work};
use redrive_store::{Claim, Error, Record, TakeOver, Turn, WorkStore as _};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::saver::Progress;
use super::sink::GIVE_UP;

/// How often the settlements of a run are tried.
const SETTLE_TRIES: u32 = 5;
const SETTLE_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Reprocess {
    core: Arc<Core>,
    worker: String,
    stop: CancellationToken,
}

/// A claimed batch that was tried.
#[derive(Default)]
struct Tried {
    settled: Vec<(Lease, Settlement)>,
    /// For whoever is told, once it is durable.
    notes: Vec<Note>,
    outage: Option<Failure>,
}

struct Note {
    work: WorkId,
    key: String,
    retry_count: u32,
    /// What it failed with, and whether for good.
    failed: Option<(Failure, End)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Again,
    ForGood,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("no answer within {GIVE_UP:?}")]
    NoAnswer,
    #[error(transparent)]
    Store(#[from] Error),
}

impl Trouble {
    const fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer => true,
            Self::Store(error) => error.is_unavailable(),
        }
    }
}

impl Reprocess {
    pub(super) fn new(core: Arc<Core>, worker: String, stop: CancellationToken) -> Self {
        Self { core, worker, stop }
    }

    /// Runs by the schedule until it is told to stop; a redrive does not wait for it.
    pub(super) async fn run(self) {
        let mut wait = self.core.options.schedule.initial_delay;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.core.pipeline.bell.rung() => {}
                () = sleep(wait) => {}
            }
            let ran = tokio::select! {
                ran = self.process() => ran,
                // What it holds is taken over when its leases run out.
                () = self.out_of_time() => return,
            };
            if let Err(error) = ran {
                let pipeline = &self.core.pipeline.name;
                tracing::warn!(%pipeline, %error, "the failed events do not answer: the next run goes on");
            }
            wait = self.core.options.schedule.fixed_delay;
        }
    }

    async fn out_of_time(&self) {
        self.stop.cancelled().await;
        sleep(self.core.options.grace).await;
    }

    /// One run: at most what waits now, so that what fails again waits for the next one.
    async fn process(&self) -> Result<(), Trouble> {
        let mut left = in_time(self.core.failed.backlog()).await?;
        let mut tried = Tried::default();
        while left > 0 && tried.outage.is_none() && !self.stop.is_cancelled() {
            let claimed = match self.turn(&mut tried, Some(&self.claim(left))).await {
                Ok(turn) => turn.claimed,
                // What was tried is settled all the same, if it can be.
                Err(_) if !tried.settled.is_empty() => break,
                Err(trouble) => return Err(trouble),
            };
            if claimed.is_empty() {
                return Ok(());
            }
            left = left.saturating_sub(claimed.len() as u64);
            tried = self.try_again(claimed).await;
        }
        if let Some(outage) = &tried.outage {
            let pipeline = &self.core.pipeline.name;
            tracing::warn!(%pipeline, error = %outage, "the target does not take failed events: nobody's retries are counted");
        }
        self.settle(&mut tried).await
    }

    fn claim(&self, left: u64) -> Claim {
        let most = self.core.options.batch_size as u64;
        Claim {
            worker: self.worker.clone(),
            limit: u32::try_from(left.min(most)).unwrap_or(u32::MAX),
            lease: self.core.options.schedule.lease,
            take_over: TakeOver::Expired,
        }
    }

    /// The last settlements of a run. In vain, their leases run out and the rows are claimed again.
    async fn settle(&self, tried: &mut Tried) -> Result<(), Trouble> {
        for _ in 1..SETTLE_TRIES {
            match self.turn(tried, None).await {
                Err(trouble) if trouble.may_pass() => sleep(SETTLE_PAUSE).await,
                turn => return turn.map(drop),
            }
        }
        self.turn(tried, None).await.map(drop)
    }

    /// Settles, claims, and tells what is durable by then.
    async fn turn(&self, tried: &mut Tried, claim: Option<&Claim>) -> Result<Turn, Trouble> {
        let turn = in_time(self.core.failed.turn(&mut tried.settled, claim)).await?;
        for note in tried.notes.drain(..) {
            if turn.lost.contains(&note.work) {
                tracing::warn!(pipeline = %self.core.pipeline.name, work = %note.work, "lease lost: another scheduler took it over");
            } else {
                self.tell(&note);
            }
        }
        Ok(turn)
    }

    fn tell(&self, note: &Note) {
        match &note.failed {
            None => self.core.tally.recovered.increment(1),
            Some((failure, end)) => {
                self.core.tally.retried.increment(1);
                if *end == End::ForGood {
                    self.core.log(note.work, &note.key, note.retry_count, failure);
                    self.core.alert(note.work, &note.key, note.retry_count, failure);
                    self.core.pipeline.watch.nudge();
                }
            }
        }
    }

    /// Tries to save what was claimed, in one attempt; its leases are extended meanwhile.
    async fn try_again(&self, claimed: Vec<(Lease, Work)>) -> Tried {
        let records: Vec<Record> = claimed.iter().map(|(_, work)| Record::from(work)).collect();
        let (mut leases, works): (Vec<Lease>, Vec<Work>) = claimed.into_iter().unzip();
        let mut progress = Progress::new(records.len());
        let outage = {
            let saving = self.core.saver.attempt(&records, &mut progress);
            tokio::pin!(saving);
            loop {
                tokio::select! {
                    outage = &mut saving => break outage,
                    () = sleep(self.core.options.schedule.lease / 3) => self.extend(&mut leases).await,
                }
            }
        };
        if let Some(cache) = &self.core.cache {
            let saved: Vec<&Record> = progress.saved.iter().map(|at| &records[*at]).collect();
            cache.refresh(&saved).await;
        }
        self.judge(leases, &works, progress, outage)
    }

    async fn extend(&self, leases: &mut [Lease]) {
        let mut all: Vec<&mut Lease> = leases.iter_mut().collect();
        let extended = in_time(self.core.failed.extend(&mut all, self.core.options.schedule.lease)).await;
        if let Err(error) = extended {
            tracing::warn!(pipeline = %self.core.pipeline.name, %error, "leases could not be extended");
        }
    }

    fn judge(
        &self,
        leases: Vec<Lease>,
        works: &[Work],
        progress: Progress,
        outage: Option<Failure>,
    ) -> Tried {
        let mut failures: Vec<Option<Failure>> = vec![None; works.len()];
        for (at, failure) in progress.poison {
            failures[at] = Some(failure);
        }
        let mut is_open = vec![false; works.len()];
        progress.open.into_iter().for_each(|at| is_open[at] = true);
        let mut tried = Tried { outage, ..Tried::default() };
        for (((lease, work), failure), is_open) in leases.into_iter().zip(works).zip(failures).zip(is_open) {
            if is_open {
                tried.settled.push((lease, Settlement::Release { after: Duration::ZERO }));
                continue;
            }
            let failed = failure.map(|failure| (failure, self.end(work)));
            let settlement = match &failed {
                None => Settlement::Done,
                Some((failure, end)) => self.sentence(work, failure, *end),
            };
            tried.settled.push((lease, settlement));
            let (key, retry_count) = (work.event.key.clone(), work.retry_count.saturating_add(1));
            tried.notes.push(Note { work: work.event.id, key, retry_count, failed });
        }
        tried
    }

    /// Every failed run counts, whatever the failure: a person may mend the row in the meantime.
    fn end(&self, work: &Work) -> End {
        let runs = work.retry_count.saturating_add(1);
        if runs >= self.core.options.schedule.max_retry_count { End::ForGood } else { End::Again }
    }

    fn sentence(&self, work: &Work, failure: &Failure, end: End) -> Settlement {
        let failed = Failed::new(&self.core.pipeline.name, work, failure.clone(), Timestamp::now());
        match end {
            End::ForGood => Settlement::Dead { failed },
            // A little before the next run of this scheduler, and not in one of another's before that.
            End::Again => {
                Settlement::Retry { after: self.core.options.schedule.fixed_delay.mul_f64(0.9), failed }
            }
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    timeout(GIVE_UP, call).await.map_or(Err(Trouble::NoAnswer), |answer| Ok(answer?))
}
