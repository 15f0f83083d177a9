//! The switch of a pipeline: claiming stops and goes on, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Stops and restarts claiming.
#[derive(Debug, Clone, Default)]
pub struct Switch {
    paused: Arc<AtomicBool>,
    resumed: Arc<Notify>,
}

impl Switch {
    /// Stops claiming; what is in hand is finished.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Claims again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.resumed.notify_waiters();
    }

    /// Stops claiming, or goes on with it.
    pub(crate) fn set_paused(&self, paused: bool) {
        match paused {
            true => self.pause(),
            false if self.is_paused() => self.resume(),
            false => {}
        }
    }

    /// Whether claiming has stopped.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Waits until claiming goes on.
    pub(crate) async fn turned(&self) {
        let resumed = self.resumed.notified();
        if self.is_paused() {
            resumed.await;
        }
    }
}
