//! Whether the object store answers. While it does not, batches go to disk at once, and one of them, or
//! the oldest file, asks now and then: whoever comes first when it is time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// What was asked within this time was asked just now.
const JUST_NOW: Duration = Duration::from_secs(1);

/// How the store is.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<Option<Down>>);

#[derive(Debug, Clone)]
struct Down {
    error: String,
    ask_at: Instant,
    pause: Duration,
    /// When it failed last.
    failed_at: Instant,
    /// Whether somebody is asking.
    asking: bool,
}

impl Outage {
    pub(super) fn is_down(&self) -> bool {
        self.state().is_some()
    }

    /// What the store said, while it is down.
    pub(super) fn error(&self) -> Option<String> {
        self.state().as_ref().map(|down| down.error.clone())
    }

    /// Whether the caller may ask: always, while the store is up; while it is down one asks, and the others
    /// do not until it is time again.
    pub(super) fn take_turn(&self) -> bool {
        let now = Instant::now();
        self.state().as_mut().is_none_or(|down| now >= down.ask_at && down.take_turn(now))
    }

    /// Whether the caller has to ask before something is deleted for want of room: unless somebody does, or
    /// just did.
    pub(super) fn take_turn_before_loss(&self) -> bool {
        let now = Instant::now();
        let is_stale = |down: &Down| !down.asking && now >= down.failed_at + JUST_NOW;
        self.state().as_mut().is_some_and(|down| is_stale(down) && down.take_turn(now))
    }

    /// Whoever took the turn had nothing to ask with.
    pub(super) fn give_turn_back(&self) {
        if let Some(down) = self.state().as_mut().filter(|down| down.asking) {
            down.asking = false;
            down.ask_at = Instant::now();
        }
    }

    /// The store failed. Whether that is news.
    pub(super) fn failed(&self, error: &str) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        let Some(down) = state.as_mut() else {
            let (error, pause) = (error.to_owned(), FIRST_PAUSE);
            *state = Some(Down { error, ask_at: now + pause, pause, failed_at: now, asking: false });
            return true;
        };
        down.error = error.to_owned();
        down.failed_at = now;
        // Uploads that were under way together fail together: that is one failure.
        if std::mem::take(&mut down.asking) || now >= down.ask_at {
            down.pause = (down.pause * 2).min(LONGEST_PAUSE);
            down.ask_at = now + down.pause;
        }
        false
    }

    /// The store answered. Whether that is news.
    pub(super) fn answered(&self) -> bool {
        self.state().take().is_some()
    }

    fn state(&self) -> MutexGuard<'_, Option<Down>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Down {
    /// An answer that never comes does not keep the others from asking.
    fn take_turn(&mut self, now: Instant) -> bool {
        self.asking = true;
        self.ask_at = now + self.pause;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_down_is_asked_less_and_less_often_until_it_answers() {
        let outage = Outage::default();
        assert!(outage.take_turn() && !outage.is_down());
        assert!(outage.failed("503"));
        assert!(!outage.take_turn());
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(outage.take_turn() && !outage.take_turn(), "one asks");
        assert!(!outage.failed("503"), "no news");
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(!outage.take_turn());
        assert!(outage.answered() && !outage.answered());
        assert!(outage.take_turn());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_not_used_is_somebody_elses() {
        let outage = Outage::default();
        outage.failed("503");
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(outage.take_turn());
        outage.give_turn_back();
        assert!(outage.take_turn());
        // The one who asks never comes back.
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(outage.take_turn());
    }

    #[tokio::test(start_paused = true)]
    async fn before_a_loss_the_store_was_asked_just_now() {
        let outage = Outage::default();
        assert!(!outage.take_turn_before_loss(), "whoever finds it up has asked");
        outage.failed("503");
        assert!(!outage.take_turn_before_loss(), "that was just now");
        tokio::time::advance(JUST_NOW).await;
        assert!(outage.take_turn_before_loss(), "whether or not it is time");
        assert!(!outage.take_turn_before_loss(), "somebody is at it");
        outage.failed("503");
        assert!(!outage.take_turn_before_loss());
    }
}
