//! Whether a pipeline is paused: nothing is consumed then, neither of the stream nor of the parking lot.
//!
//! The consumers stay members of their groups, so that a pause moves no partition, and fetch nothing. A batch that is
//! being stored is finished. One that waits, for its turn or for its next attempt, waits until the pipeline is resumed.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Whether a pipeline is paused. Clones follow the same switch.
#[derive(Debug, Clone)]
pub(crate) struct Pause(watch::Receiver<bool>);

impl Pause {
    /// A pipeline that nobody pauses.
    pub(crate) fn never() -> Self {
        Self(watch::Sender::new(false).subscribe())
    }

    /// As this switch says; the last that it said, once it is gone.
    pub(crate) const fn following(switch: watch::Receiver<bool>) -> Self {
        Self(switch)
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is not paused; `false` when it was told to stop before that.
    pub(crate) async fn is_resumed(&self, stop: &CancellationToken) -> bool {
        let mut switch = self.0.clone();
        let resumed = async {
            if switch.wait_for(|paused| !paused).await.is_err() {
                // Nobody is left who could resume it.
                std::future::pending::<()>().await;
            }
        };
        stop.run_until_cancelled(resumed).await.is_some() && !stop.is_cancelled()
    }
}
