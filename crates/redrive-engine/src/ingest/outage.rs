//! Whether the object store answers. While it does not, batches go to disk at once, and one request at a time
//! asks whether it is back: a batch, the oldest file, or a probe, whichever comes first when it is time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// What was asked within this time was asked just now.
const JUST_NOW: Duration = Duration::from_secs(1);
/// A store that has not answered for so long is away, even if no probe has come back yet.
const CONFIRMED_AFTER: Duration = Duration::from_secs(10);
/// How long uploads that are under way when an outage begins may still take.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// How the store is. Clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Outage(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    is_down: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    down: Option<Down>,
    /// Each probe has a number of its own.
    probes: u64,
}

#[derive(Debug)]
struct Down {
    error: String,
    since: Instant,
    ask_at: Instant,
    pause: Duration,
    /// When it failed last.
    failed_at: Instant,
    /// The probe that is out.
    probe: Option<u64>,
    /// Probes that have failed since it is down.
    failed_probes: u32,
}

/// The right to send something to the store. While the store is down it is the one probe: whoever drops it
/// without an outcome leaves the question to the next.
#[derive(Debug, Default)]
pub(super) struct Turn(Option<Probe>);

#[derive(Debug)]
struct Probe {
    outage: Outage,
    number: u64,
}

impl Turn {
    /// Whether it asks a store that is known to be down.
    pub(super) const fn is_probe(&self) -> bool {
        self.0.is_some()
    }
}

impl Outage {
    pub(super) fn is_down(&self) -> bool {
        self.state().down.is_some()
    }

    /// Whether the store is away beyond doubt: a single failure may be an accident of a store that works.
    pub(super) fn is_confirmed(&self) -> bool {
        let now = Instant::now();
        let is_away = |down: &Down| down.failed_probes > 0 || now >= down.since + CONFIRMED_AFTER;
        self.state().down.as_ref().is_some_and(is_away)
    }

    /// What the store said, while it is down.
    pub(super) fn error(&self) -> Option<String> {
        self.state().down.as_ref().map(|down| down.error.clone())
    }

    /// Anybody may ask a store that is up. While it is down one asks, and the others do not until that one has
    /// its answer and it is time again.
    pub(super) fn take_turn(&self) -> Option<Turn> {
        let now = Instant::now();
        self.turn_if(|down| now >= down.ask_at)
    }

    /// The probe before something is deleted for want of room, whether or not it is time: unless somebody asks, or
    /// just did, or the store is up, which whoever found out has asked.
    pub(super) fn take_turn_before_loss(&self) -> Option<Turn> {
        let now = Instant::now();
        self.turn_if(|down| now >= down.failed_at + JUST_NOW).filter(Turn::is_probe)
    }

    fn turn_if(&self, is_time: impl Fn(&Down) -> bool) -> Option<Turn> {
        let mut state = self.state();
        let number = state.probes + 1;
        let Some(down) = state.down.as_mut() else { return Some(Turn(None)) };
        if down.probe.is_some() || !is_time(down) {
            return None;
        }
        down.probe = Some(number);
        state.probes = number;
        Some(Turn(Some(Probe { outage: self.clone(), number })))
    }

    /// The store failed whoever had this turn. Whether that is news.
    pub(super) fn failed(&self, turn: &Turn, error: &str) -> bool {
        let now = Instant::now();
        let probe = turn.0.as_ref().map(|probe| probe.number);
        let mut state = self.state();
        let Some(down) = state.down.as_mut() else {
            state.down = Some(Down::new(error, now));
            drop(state);
            self.0.is_down.send_replace(true);
            return true;
        };
        down.error = error.to_owned();
        down.failed_at = now;
        // Uploads that were under way together fail together: that says no more than one of them.
        if probe.is_some() && down.probe == probe {
            down.probe = None;
            down.failed_probes += 1;
            down.pause = (down.pause * 2).min(LONGEST_PAUSE);
            down.ask_at = now + down.pause;
        }
        false
    }

    /// The store answered. Whether that is news.
    pub(super) fn answered(&self) -> bool {
        let was_down = self.state().down.take().is_some();
        if was_down {
            self.0.is_down.send_replace(false);
        }
        was_down
    }

    /// Returns when whoever has this turn should not wait for the store any longer, because others have found it
    /// down. The probe waits for its answer.
    pub(super) async fn found_down_by_others(&self, turn: &Turn) {
        if turn.is_probe() {
            return std::future::pending().await;
        }
        let mut is_down = self.0.is_down.subscribe();
        // The sender lives as long as this does.
        let _ = is_down.wait_for(|is_down| *is_down).await;
        tokio::time::sleep(UNDER_WAY).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Down {
    fn new(error: &str, now: Instant) -> Self {
        Self {
            error: error.to_owned(),
            since: now,
            ask_at: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
            failed_at: now,
            probe: None,
            failed_probes: 0,
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let mut state = self.outage.state();
        if let Some(down) = state.down.as_mut().filter(|down| down.probe == Some(self.number)) {
            down.probe = None;
            down.ask_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Outage {
        let outage = Outage::default();
        outage.failed(&Turn::default(), "503");
        outage
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_down_is_asked_less_and_less_often_until_it_answers() {
        let outage = Outage::default();
        let turn = outage.take_turn().unwrap();
        assert!(!turn.is_probe() && !outage.is_down());
        assert!(outage.failed(&turn, "503"));
        assert!(outage.take_turn().is_none());
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = outage.take_turn().unwrap();
        assert!(probe.is_probe() && outage.take_turn().is_none(), "one asks");
        assert!(!outage.failed(&probe, "503"), "no news");
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(outage.take_turn().is_none());
        assert!(outage.answered() && !outage.answered());
        assert!(outage.take_turn().is_some());
    }

    /// While the first probe hung for 30 s, another one went out each second, until all slots for uploads hung.
    #[tokio::test(start_paused = true)]
    async fn while_a_probe_has_no_answer_nobody_else_asks() {
        let outage = down();
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = outage.take_turn().unwrap();
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(outage.take_turn().is_none() && outage.take_turn_before_loss().is_none());
        outage.failed(&Turn::default(), "one that was under way");
        assert!(outage.take_turn().is_none());
        outage.failed(&probe, "timed out");
        drop(probe);
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(outage.take_turn().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_not_used_is_somebody_elses() {
        let outage = down();
        tokio::time::advance(FIRST_PAUSE).await;
        drop(outage.take_turn().unwrap());
        let late = outage.take_turn().unwrap();
        outage.answered();
        outage.failed(&Turn::default(), "503");
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = outage.take_turn().unwrap();
        drop(late);
        assert!(outage.take_turn().is_none(), "that of an earlier outage frees nothing");
        drop(probe);
    }

    #[tokio::test(start_paused = true)]
    async fn before_a_loss_the_store_was_asked_just_now() {
        let outage = Outage::default();
        assert!(outage.take_turn_before_loss().is_none(), "whoever finds it up has asked");
        outage.failed(&Turn::default(), "503");
        assert!(outage.take_turn_before_loss().is_none(), "that was just now");
        tokio::time::advance(JUST_NOW).await;
        let probe = outage.take_turn_before_loss().unwrap();
        assert!(outage.take_turn_before_loss().is_none(), "somebody is at it");
        outage.failed(&probe, "503");
        assert!(outage.take_turn_before_loss().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_confirmed_by_a_probe_or_by_time() {
        let outage = down();
        assert!(!outage.is_confirmed(), "it may have been an accident");
        outage.failed(&Turn::default(), "one that was under way together with the first");
        assert!(!outage.is_confirmed());
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = outage.take_turn().unwrap();
        outage.failed(&probe, "503");
        assert!(outage.is_confirmed());
        outage.answered();
        outage.failed(&Turn::default(), "503");
        assert!(!outage.is_confirmed());
        tokio::time::advance(CONFIRMED_AFTER).await;
        assert!(outage.is_confirmed());
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_under_way_do_not_wait_when_others_find_the_store_down_and_the_probe_does() {
        let outage = Outage::default();
        let waiting = {
            let outage = outage.clone();
            tokio::spawn(async move { outage.found_down_by_others(&Turn::default()).await })
        };
        tokio::task::yield_now().await;
        outage.failed(&Turn::default(), "503");
        waiting.await.unwrap();
        tokio::time::advance(FIRST_PAUSE).await;
        let probe = outage.take_turn().unwrap();
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, outage.found_down_by_others(&probe)).await.is_err());
    }
}
