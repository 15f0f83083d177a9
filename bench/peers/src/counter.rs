//! What a handler has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a peer may take for a round.
const PATIENCE: Duration = Duration::from_secs(300);

/// Counts what handlers have seen, and wakes who waits for the last.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    seen: AtomicU64,
    awaited: AtomicU64,
    reached: Notify,
}

impl Counter {
    /// So many more were seen.
    pub fn add(&self, more: u64) {
        let seen = self.0.seen.fetch_add(more, Ordering::Relaxed) + more;
        if seen >= self.0.awaited.load(Ordering::Relaxed) {
            self.0.reached.notify_one();
        }
    }

    /// Begins anew, and waits for this many.
    pub fn expect(&self, events: u64) {
        self.0.seen.store(0, Ordering::Relaxed);
        self.0.awaited.store(events, Ordering::Relaxed);
    }

    /// How many were seen.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.0.seen.load(Ordering::Relaxed)
    }

    /// Waits until as many as expected were seen.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn reached(&self) -> anyhow::Result<u64> {
        let awaited = self.0.awaited.load(Ordering::Relaxed);
        let all = async {
            while self.seen() < awaited {
                self.0.reached.notified().await;
            }
        };
        let all = tokio::time::timeout(PATIENCE, all).await;
        anyhow::ensure!(all.is_ok(), "only {} of {awaited} were handled in {PATIENCE:?}", self.seen());
        Ok(awaited)
    }
}
