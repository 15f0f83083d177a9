//! How a worker stops: it finishes what it can, and hands back the rest.

use std::time::Duration;

use redrive_core::event::WorkId;
use redrive_core::lease::Settlement;
use tokio::time::{Instant, timeout_at};

use super::{FIRST_PAUSE, Held, Worker};
use crate::slots::Task;

/// What is left to settle gets this long, even when handlers used up all the time.
const LAST_TRY: Duration = Duration::from_secs(1);

impl Worker {
    /// Stops: hands back what was not begun, waits for what runs, hands back what does not end.
    pub(super) async fn finish(&mut self) {
        let deadline = Instant::now() + self.pipeline.pace.grace;
        let mut waiting = self.slots.take_waiting();
        if let Some(Task { events, seat, .. }) = self.on_trial.take() {
            waiting.extend(events);
            // Kept until that is stored, as of what was tried.
            self.leaving = seat.or(self.leaving.take());
        }
        waiting.into_iter().for_each(|event| self.hand_back(event.id));
        // Whoever is not done by then is handed back.
        drop(timeout_at(deadline, self.see_off()).await);
        self.slots.stop();
        self.judge_finished();
        let left: Vec<WorkId> = self.hand.keys().copied().collect();
        left.into_iter().for_each(|work| self.hand_back(work));
        self.settle_rest(deadline.max(Instant::now() + LAST_TRY)).await;
    }

    /// Waits for the handlers that run.
    async fn see_off(&mut self) {
        while !self.hand.is_empty() {
            tokio::select! {
                outcome = self.slots.finished() => self.judge_all(outcome),
                beat = self.heartbeat.next() => self.note_all(beat),
            }
            self.judge_finished();
        }
    }

    /// Settles what is left, as long as there is time.
    async fn settle_rest(&mut self, deadline: Instant) {
        if timeout_at(deadline, self.settle_all()).await.is_err() {
            tracing::error!(
                pipeline = %self.pipeline.name,
                worker = %self.name,
                "stopped before everything was settled, as the store did not answer: leases run out"
            );
        }
    }

    async fn settle_all(&mut self) {
        while !self.judged.is_empty() {
            match self.pipeline.store.turn(&mut self.judged, None).await {
                Ok(turn) => self.settled(&turn.lost),
                Err(error) if error.is_unavailable() => {
                    self.witness.unanswered();
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                Err(_) => self.settle_one_by_one(std::time::Instant::now()).await,
            }
        }
        self.settled(&[]);
    }

    fn hand_back(&mut self, work: WorkId) {
        if let Some(Held { lease, .. }) = self.hand.remove(&work) {
            self.judged.push((lease, Settlement::Release { after: Duration::ZERO }));
        }
    }
}
