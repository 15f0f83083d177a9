//! The switch of a pipeline: claiming stops and goes on, in this process.

use std::sync::Arc;

use tokio::sync::watch;

/// Stops and restarts claiming.
#[derive(Debug, Clone)]
pub struct Switch {
    paused: Arc<watch::Sender<bool>>,
}

impl Default for Switch {
    fn default() -> Self {
        Self { paused: Arc::new(watch::Sender::new(false)) }
    }
}

impl Switch {
    /// Stops claiming; what is in hand is finished.
    pub fn pause(&self) {
        self.set_paused(true);
    }

    /// Claims again.
    pub fn resume(&self) {
        self.set_paused(false);
    }

    /// Stops claiming, or goes on with it.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Whether claiming has stopped.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// The same for those who work beside the workers, such as a consumer: whether it is paused, and when that changes.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<bool> {
        self.paused.subscribe()
    }

    /// Waits until claiming goes on.
    pub(crate) async fn turned(&self) {
        // The sender is here, so there is no error.
        let _ = self.follow().wait_for(|paused| !paused).await;
    }
}
