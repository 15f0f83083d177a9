//! Whether the object store answers. While it does not, live batches go to disk at once, and the oldest
//! file asks now and then.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How the store is.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<Option<Down>>);

#[derive(Debug, Clone)]
struct Down {
    error: String,
    ask_at: Instant,
    pause: Duration,
}

impl Outage {
    pub(super) fn is_down(&self) -> bool {
        self.state().is_some()
    }

    /// What the store said, while it is down.
    pub(super) fn error(&self) -> Option<String> {
        self.state().as_ref().map(|down| down.error.clone())
    }

    /// Whether it is time to ask: always, while it is up.
    pub(super) fn may_ask(&self) -> bool {
        self.state().as_ref().is_none_or(|down| Instant::now() >= down.ask_at)
    }

    /// The store failed. Whether that is news.
    pub(super) fn failed(&self, error: &str) -> bool {
        let mut state = self.state();
        // Uploads that were under way together fail together: that is one failure.
        if let Some(down) = state.as_mut().filter(|down| Instant::now() < down.ask_at) {
            down.error = error.to_owned();
            return false;
        }
        let pause = state.as_ref().map_or(FIRST_PAUSE, |down| (down.pause * 2).min(LONGEST_PAUSE));
        let news = state.is_none();
        *state = Some(Down { error: error.to_owned(), ask_at: Instant::now() + pause, pause });
        news
    }

    /// The store answered. Whether that is news.
    pub(super) fn answered(&self) -> bool {
        self.state().take().is_some()
    }

    fn state(&self) -> MutexGuard<'_, Option<Down>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_down_is_asked_less_and_less_often_until_it_answers() {
        let outage = Outage::default();
        assert!(outage.may_ask() && !outage.is_down());
        assert!(outage.failed("503"));
        assert!(!outage.may_ask());
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(outage.may_ask());
        assert!(!outage.failed("503"), "no news");
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(!outage.may_ask());
        assert!(outage.answered() && !outage.answered());
        assert!(outage.may_ask());
    }
}
