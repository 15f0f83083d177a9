//! Work for programs in other languages: they claim, complete, fail and extend over HTTP, and get the
//! same leases, fences and policy as a handler in this process.
//!
//! One rule is stricter here. A worker elsewhere knows until when its lease lasts and must stop then, so a report
//! that comes later is refused even if nobody has claimed the job since: otherwise whether a late report counts
//! would depend on how busy the queue is. A handler in this process does not watch its lease, the worker loop does
//! that for it, and a success that it settles late is accepted unless somebody has claimed the work. After an outage
//! of the store late reports are accepted for the time of one lease: nobody could have reported in time, and nothing is
//! taken over meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::failure::Failure;
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_store::{Claim, Error, TakeOver};
use tokio_util::task::TaskTracker;

use crate::judge::{self, Record};
use crate::pipeline::Pipeline;
use crate::witness::{About, Witness};

/// What became of a worker's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// It is written down.
    Accepted,
    /// The lease has run out, or the work is settled or claimed by another worker: nothing was changed.
    Lost,
}

/// Where workers elsewhere come for the work of a pipeline. Clones are the same.
#[derive(Clone)]
pub struct Remote {
    pipeline: Arc<Pipeline>,
    tasks: TaskTracker,
}

impl Remote {
    /// That of this pipeline.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>) -> Self {
        Self { pipeline, tasks: TaskTracker::new() }
    }

    /// The claims that are under way: each is a task, since it must not be cut off in the middle.
    #[must_use]
    pub const fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Waits until no claim is under way, and everything is given back that nobody received.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Gives back what was claimed for somebody who is gone; no attempt is counted. When that fails, the leases run
    /// out.
    pub async fn give_back(&self, claimed: Vec<(Lease, Work)>) {
        let release = |(lease, _)| (lease, Settlement::Release { after: Duration::ZERO });
        let mut released: Vec<_> = claimed.into_iter().map(release).collect();
        match self.heard(self.pipeline.store.turn(&mut released, None)).await {
            Ok(_) => self.pipeline.bell.ring(),
            Err(error) => {
                tracing::warn!(pipeline = %self.pipeline.name, %error, "a claim that nobody received could not be given back");
            }
        }
    }

    /// What is still held under these leases, which then last as long as this from now.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn recover(
        &self,
        leases: &[(WorkId, i64)],
        length: Duration,
    ) -> Result<Vec<(Lease, Work)>, Error> {
        let lease = |(work, fence): &(WorkId, i64)| Lease::new(*work, *fence, Timestamp::MAX);
        let mut leases: Vec<Lease> = leases.iter().map(lease).collect();
        let mut all: Vec<&mut Lease> = leases.iter_mut().collect();
        let lost = self.heard(self.pipeline.store.extend(&mut all, length)).await?;
        let mut held = Vec::new();
        for lease in leases.into_iter().filter(|lease| !lost.contains(&lease.work())) {
            if let Some(work) = self.heard(self.pipeline.store.recall(&lease)).await? {
                held.push((lease, work));
            }
        }
        Ok(held)
    }

    /// Claims work for a worker.
    ///
    /// Work whose last holder never settled is first counted as failed: it comes again after its
    /// backoff, or becomes a dead letter.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn claim(
        &self,
        worker: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<(Lease, Work)>, Error> {
        if limit == 0 || self.pipeline.switch.is_paused() {
            return Ok(Vec::new());
        }
        let worker = worker.chars().filter(|c| *c != '\0').take(100).collect();
        let terms = self.pipeline.aftermath.terms(Instant::now(), self.pipeline.pace.lease);
        let claim = Claim { worker, limit, lease, take_over: terms.take_over };
        loop {
            let turn = self.heard(self.pipeline.store.turn(&mut Vec::new(), Some(&claim))).await?;
            let is_full = turn.claimed.len() >= limit as usize;
            if !is_full {
                self.pipeline.aftermath.found_all(terms);
            }
            let excused = self.pipeline.aftermath.excuses(terms);
            let (interrupted, fresh): (Vec<_>, Vec<_>) =
                turn.claimed.into_iter().partition(|(_, work)| work.interrupted && !excused);
            self.count_interrupted(interrupted).await;
            // When all of them were the work of dead workers, others may wait behind them.
            if !fresh.is_empty() || !is_full {
                return Ok(fresh);
            }
        }
    }

    /// Claims work, and waits for some up to `patience`.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn claim_patiently(
        &self,
        worker: &str,
        limit: u32,
        lease: Duration,
        patience: Duration,
    ) -> Result<Vec<(Lease, Work)>, Error> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let claimed = self.claim(worker, limit, lease).await?;
            let now = tokio::time::Instant::now();
            if !claimed.is_empty() || now >= deadline {
                return Ok(claimed);
            }
            let look = deadline.min(now + self.pipeline.pace.poll_interval.min(Duration::from_secs(1)));
            tokio::select! {
                () = self.pipeline.bell.rung() => {}
                () = tokio::time::sleep_until(look) => {}
            }
        }
    }

    /// The worker has done it.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached: report it again.
    pub async fn complete(&self, work: WorkId, fence: i64) -> Result<Reported, Error> {
        let lease = Lease::new(work, fence, Timestamp::MAX);
        let Some(held) = self.heard(self.pipeline.store.recall(&lease)).await? else {
            return Ok(Reported::Lost);
        };
        let about = About::of(held.event, held.retry_count);
        self.settle(lease, about, Settlement::Done).await
    }

    /// The worker could not do it.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached: report it again.
    pub async fn fail(&self, work: WorkId, fence: i64, failure: Failure) -> Result<Reported, Error> {
        let lease = Lease::new(work, fence, Timestamp::MAX);
        let Some(held) = self.heard(self.pipeline.store.recall(&lease)).await? else {
            return Ok(Reported::Lost);
        };
        let (about, settlement) = self.sentence(held, failure);
        self.settle(lease, about, settlement).await
    }

    /// The worker is still at it; returns until when it has time now.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached: extend it again.
    pub async fn heartbeat(
        &self,
        work: WorkId,
        fence: i64,
        lease: Duration,
    ) -> Result<Option<Timestamp>, Error> {
        let mut held = Lease::new(work, fence, Timestamp::MAX);
        let extended = if self.is_patient() {
            self.heard(self.pipeline.store.extend(&mut [&mut held], lease)).await?.is_empty()
        } else {
            self.heard(self.pipeline.store.extend_unexpired(&mut held, lease)).await?
        };
        Ok(extended.then(|| held.until()))
    }

    /// Counts the attempts of holders that never settled. When that fails the worker gets its work all
    /// the same: the leases of these run out, and they are counted then.
    async fn count_interrupted(&self, interrupted: Vec<(Lease, Work)>) {
        let mut witness = Witness::new(Arc::clone(&self.pipeline));
        let mut failed = Vec::with_capacity(interrupted.len());
        for (lease, work) in interrupted {
            let (about, settlement) = self.sentence(work, Failure::interrupted());
            witness.judged(&lease, &settlement, about);
            failed.push((lease, settlement));
        }
        match self.heard(self.pipeline.store.turn(&mut failed, None)).await {
            Ok(turn) => witness.settled(&turn.lost),
            Err(error) => {
                tracing::warn!(pipeline = %self.pipeline.name, %error, "interrupted work could not be counted yet");
            }
        }
    }

    fn sentence(&self, work: Work, failure: Failure) -> (About, Settlement) {
        let (event, record) = Record::split(work);
        let retry_count = record.retry_count;
        let (name, policy) = (&self.pipeline.name, &self.pipeline.policy);
        let settlement = judge::sentence(name, policy, &event, record, failure);
        (About::of(event, retry_count), settlement)
    }

    async fn settle(&self, lease: Lease, about: About, settlement: Settlement) -> Result<Reported, Error> {
        let mut witness = Witness::new(Arc::clone(&self.pipeline));
        witness.judged(&lease, &settlement, about);
        let work = lease.work();
        let settled = if self.is_patient() {
            self.heard(self.pipeline.store.turn(&mut vec![(lease, settlement)], None)).await?.lost.is_empty()
        } else {
            self.heard(self.pipeline.store.settle_unexpired(lease, settlement)).await?
        };
        if settled {
            witness.settled(&[]);
            return Ok(Reported::Accepted);
        }
        witness.settled(&[work]);
        Ok(Reported::Lost)
    }

    /// Whether leases that have run out are still their holders': the store was away, and nobody could report.
    fn is_patient(&self) -> bool {
        let terms = self.pipeline.aftermath.terms(Instant::now(), self.pipeline.pace.lease);
        terms.take_over == TakeOver::Never
    }

    /// Notes whether the store answers: its outages are excused here, too. A refusal is an answer.
    async fn heard<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let (asked, lease) = (Instant::now(), self.pipeline.pace.lease);
        let answer = call.await;
        match &answer {
            Err(error) if error.is_unavailable() => {
                self.pipeline.aftermath.failed(asked, Instant::now(), lease);
            }
            _ => self.pipeline.aftermath.answered(asked, Instant::now(), lease),
        }
        answer
    }
}
