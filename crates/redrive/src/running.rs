//! What runs beside HTTP: the pipelines and the chores around them, started and stopped together.

use redrive_engine::Engine;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What runs beside HTTP. Every task that it starts ends with it.
#[derive(Default)]
pub(crate) struct Running {
    engine: Engine,
    chores: TaskTracker,
    stop: CancellationToken,
}

impl Running {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self::default()
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
