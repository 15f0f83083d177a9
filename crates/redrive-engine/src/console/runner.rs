//! The runner: carries operations out, each in a task of its own.
//!
//! Any instance may carry an operation out, one at a time: the ledger says who holds it. One that dies is
//! replaced when its hold runs out, and its successor goes on where it was.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_store::Operation;
use tokio::sync::Semaphore;
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;

use super::sending::Sending;
use super::{Console, Request, request};

/// How many operations freeze or send at a time in one instance. Those that follow letters or rest hold up
/// nobody: eight that wait for a paused pipeline must not keep a ninth from its set.
const MOST_AT_ONCE: usize = 8;
/// How many operations one instance has in hand; the others wait until one of them ends.
const MOST: usize = 200;
/// How often to look for operations that another instance left behind.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after the ledger did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// Carries operations out.
pub struct Runner {
    console: Arc<Console>,
    name: String,
}

impl Runner {
    /// A runner for this console.
    #[must_use]
    pub fn new(console: Arc<Console>) -> Self {
        Self { console, name: format!("runner {}", request::number()) }
    }

    /// The same runner under a name that outlives the process: after a crash it goes on with what it held at
    /// once. No two that run at a time may share one.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.chars().take(200).collect();
        self
    }

    /// Carries operations out until it is told to stop; the portions in hand are finished.
    pub async fn run(self, stop: CancellationToken) {
        let mut at_work = AtWork::default();
        let turns = Arc::new(Semaphore::new(MOST_AT_ONCE));
        loop {
            self.console.follow_pauses().await;
            let pause = match self.start_new(&mut at_work, &turns, &stop).await {
                Ok(()) => LOOK,
                Err(error) => {
                    tracing::debug!(%error, "operations cannot be looked at");
                    PAUSE
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.console.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
                Some(()) = at_work.ended() => {}
            }
        }
        while at_work.ended().await.is_some() {}
        if let Err(error) = self.console.records.operations.let_go(&self.name).await {
            tracing::debug!(%error, "operations are let go when their holds run out");
        }
    }

    async fn start_new(
        &self,
        at_work: &mut AtWork,
        turns: &Arc<Semaphore>,
        stop: &CancellationToken,
    ) -> Result<(), redrive_store::Error> {
        for operation in self.console.records.operations.active().await? {
            if at_work.operations.len() >= MOST {
                break;
            }
            if at_work.has(operation.id) {
                continue;
            }
            let missing = self.missing(&operation);
            if !missing.is_empty() {
                self.leave(&operation, &missing).await?;
                continue;
            }
            let id = operation.id;
            let (console, turns) = (Arc::clone(&self.console), Arc::clone(turns));
            let sending = Sending::new(console, operation, &self.name, turns, stop.clone());
            if sending.hold().await? {
                at_work.start(id, sending.run());
            }
        }
        Ok(())
    }

    /// The pipelines of an operation that this instance does not have.
    fn missing(&self, operation: &Operation) -> Vec<String> {
        let meant = Request::of(&operation.request).map(|request| request.pipelines).unwrap_or_default();
        meant.into_iter().filter(|pipeline| self.console.desk(pipeline).is_err()).collect()
    }

    /// Leaves it to an instance that has its pipelines, and says so as long as there is none.
    async fn leave(&self, operation: &Operation, missing: &[String]) -> Result<(), redrive_store::Error> {
        let reason = format!(
            "waiting for an instance that has {}: start one, or cancel the operation",
            missing.join(", ")
        );
        if operation.reason == reason {
            return Ok(());
        }
        self.console.records.operations.explain_unheld(operation.id, &reason).await
    }
}

/// The operations in hand, each in a task of its own.
#[derive(Default)]
struct AtWork {
    tasks: JoinSet<()>,
    operations: HashMap<task::Id, i64>,
}

impl AtWork {
    fn has(&self, operation: i64) -> bool {
        self.operations.values().any(|id| *id == operation)
    }

    fn start(&mut self, operation: i64, carrying_out: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(carrying_out).id();
        self.operations.insert(task, operation);
    }

    /// Waits until one of them has ended; nothing when there are none.
    async fn ended(&mut self) -> Option<()> {
        let (task, defect) = match self.tasks.join_next_with_id().await? {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        let operation = self.operations.remove(&task);
        // The ledger has it as it was: it is begun again, here or elsewhere.
        if let Some(error) = defect {
            tracing::error!(operation, %error, "a defect ended an operation");
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them were forgotten, and begun a second time beside themselves.
    #[tokio::test]
    async fn a_defect_in_one_operation_leaves_the_others_in_hand() {
        let mut at_work = AtWork::default();
        at_work.start(1, std::future::pending());
        at_work.start(2, async { panic!("a defect") });
        at_work.ended().await;
        assert!(at_work.has(1) && !at_work.has(2));
    }
}
