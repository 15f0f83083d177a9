//! Delivery: the far end of a channel's queue. Limits, sends, tries again, and owns up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::alert::{Alert, HeldBack};
use super::channel::{Channel, ChannelError};
use super::limiter::Limiter;
use super::outlet::Ledger;
use super::tally::{Outcome, count};

/// The longest wait that a channel can ask for: its queue fills in the meantime.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The far end of a channel's queue.
pub(super) struct Delivery {
    pub(super) channel: Arc<dyn Channel>,
    pub(super) queue: mpsc::Receiver<Arc<Alert>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) limiter: Limiter,
    pub(super) retries: Vec<Duration>,
    pub(super) timeout: Duration,
    pub(super) held: HeldBack,
    pub(super) health: Health,
}

/// Whether the last alert was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Up,
    Down,
}

impl Delivery {
    /// Delivers until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        loop {
            let owes = self.held.alerts() > 0 && self.health == Health::Up;
            let next_window = self.limiter.next_window();
            tokio::select! {
                biased;
                alert = self.queue.recv() => match alert {
                    Some(alert) => self.take(&alert).await,
                    None => break,
                },
                () = sleep_until(next_window), if owes => self.own_up().await,
            }
        }
        self.own_up().await;
    }

    async fn take(&mut self, alert: &Alert) {
        self.hold(self.ledger.take_dropped());
        if self.limiter.admit(alert, Instant::now()) {
            self.deliver(alert).await;
        } else {
            count(self.ledger.channel(), Outcome::Suppressed, 1);
            self.hold(HeldBack { limited: 1, letters: alert.letters(), ..HeldBack::default() });
        }
        self.ledger.done();
    }

    async fn deliver(&mut self, alert: &Alert) {
        if self.send(alert).await {
            count(self.ledger.channel(), Outcome::Sent, 1);
            self.health = Health::Up;
        } else {
            count(self.ledger.channel(), Outcome::Failed, 1);
            self.health = Health::Down;
            self.hold(missed(alert));
        }
    }

    /// Says what was not said. If that fails too, it is still owed.
    async fn own_up(&mut self) {
        self.hold(self.ledger.take_dropped());
        if self.held.alerts() > 0 {
            let alert = Alert::HeldBack(std::mem::take(&mut self.held));
            self.limiter.admit(&alert, Instant::now());
            self.deliver(&alert).await;
        }
    }

    /// Whether the channel took it, after as many tries as it needs.
    async fn send(&self, alert: &Alert) -> bool {
        let mut planned = self.retries.iter();
        loop {
            let Err(error) = self.attempt(alert).await else { return true };
            let wait = planned.next().and_then(|&planned| error.wait(planned));
            let channel = self.ledger.channel();
            let Some(wait) = wait else {
                tracing::error!(channel, %error, "an alert could not be sent");
                return false;
            };
            tracing::debug!(channel, %error, ?wait, "an alert is tried again");
            sleep(wait.min(LONGEST_WAIT)).await;
        }
    }

    async fn attempt(&self, alert: &Alert) -> Result<(), ChannelError> {
        let send = AssertUnwindSafe(self.channel.send(alert)).catch_unwind();
        match timeout(self.timeout, send).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ChannelError::Refused { message: "the channel panicked".into() }),
            Err(_) => Err(ChannelError::unavailable(format!("no answer within {:?}", self.timeout))),
        }
    }

    fn hold(&mut self, more: HeldBack) {
        self.held.limited += more.limited;
        self.held.dropped += more.dropped;
        self.held.failed += more.failed;
        self.held.letters += more.letters;
    }
}

/// What is owed after an alert that failed; an alert about what is owed does not add to it.
fn missed(alert: &Alert) -> HeldBack {
    match alert {
        Alert::HeldBack(held) => *held,
        other => HeldBack { failed: 1, letters: other.letters(), ..HeldBack::default() },
    }
}
