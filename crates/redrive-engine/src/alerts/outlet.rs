//! An outlet: the near end of a channel's queue. Putting something in never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::alert::{Alert, HeldBack};
use super::tally::{Outcome, count};

/// The near end of a channel's queue.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) queue: mpsc::Sender<Arc<Alert>>,
    pub(super) ledger: Arc<Ledger>,
}

/// What both ends of a queue know.
#[derive(Debug)]
pub(super) struct Ledger {
    channel: String,
    waiting: AtomicU64,
    dropped: AtomicU64,
    dropped_letters: AtomicU64,
}

impl Outlet {
    /// Puts an alert in, or counts that there was no room.
    pub(super) fn put(&self, alert: &Arc<Alert>) {
        if let Alert::MoreLetters(more) = &**alert {
            count(&self.ledger.channel, Outcome::Suppressed, more.count);
        }
        self.ledger.waiting.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(alert.clone()).is_err() {
            self.ledger.drop_one(alert);
        }
    }
}

impl Ledger {
    pub(super) fn new(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            waiting: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dropped_letters: AtomicU64::new(0),
        }
    }

    /// What metrics and logs call the channel.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// One alert has left the far end.
    pub(super) fn done(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many are on their way.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// What was dropped since the last time.
    pub(super) fn take_dropped(&self) -> HeldBack {
        HeldBack {
            dropped: self.dropped.swap(0, Ordering::Relaxed),
            letters: self.dropped_letters.swap(0, Ordering::Relaxed),
            ..HeldBack::default()
        }
    }

    fn drop_one(&self, alert: &Alert) {
        self.done();
        count(&self.channel, Outcome::Dropped, 1);
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.dropped_letters.fetch_add(alert.letters(), Ordering::Relaxed);
    }
}
