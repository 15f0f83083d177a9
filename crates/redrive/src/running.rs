//! What runs beside HTTP: the pipelines and the chores around them, started and stopped together.

use std::sync::Arc;

use redrive_engine::Engine;
use redrive_store::Audit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What runs beside HTTP. Every task that it starts ends with it.
pub(crate) struct Running {
    engine: Engine,
    audit: Arc<Audit>,
    chores: TaskTracker,
    stop: CancellationToken,
}

impl Running {
    /// Nothing yet. What it does by itself is written into this log.
    pub(crate) fn new(audit: Audit) -> Self {
        let (chores, stop) = (TaskTracker::new(), CancellationToken::new());
        Self { engine: Engine::new(), audit: Arc::new(audit), chores, stop }
    }

    /// Where it is written down what was done.
    pub(crate) fn audit(&self) -> Arc<Audit> {
        Arc::clone(&self.audit)
    }

    /// The pipelines.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Starts a task that ends when it is told to.
    pub(crate) fn chore<F>(&self, chore: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.chores.spawn(chore(self.stop.child_token()));
    }

    /// Stops all of it: what is in hand is finished or handed back.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.chores.close();
        self.engine.stop().await;
        self.chores.wait().await;
    }
}
