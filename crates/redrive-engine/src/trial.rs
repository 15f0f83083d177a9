//! On trial: an event that may kill whoever handles it gets its final attempt alone among its kind.
//!
//! When a process dies, nobody can tell which of the events in its hand was to blame, and each of them
//! counts an attempt. Events that come due together are handled together again, so the innocent would
//! be buried beside the deadly one. Therefore an event whose last attempt ended with its worker, and for
//! which one more such end would be the last, waits until no other such event is in hand in this
//! process. Events with attempts left are not held up for long: one dead neighbour costs them one attempt.
//!
//! It takes a claim to see that an event is one of those, and until it is handed back it would die with the
//! one that is tried. So a trial begins when every claim of this process is sorted out ([`Sorting`]), and
//! meanwhile nobody claims. Both only for a moment ([`HUSH`]): the deadly kill quickly, the long ones are mostly
//! innocent, and a store that is away must not hold up the others. Between two trials claims have as much time
//! as the first one took from them.
//!
//! One slot for the process, as it is the process that dies: it belongs to the engine, and its pipelines share it.
//! Claims wait only where there may be further such events: in pipelines that have had interrupted work since they were
//! started here, or were started less than a lease ago, when what an earlier process left behind has not come up yet.
//! So the cost to a neighbour is bounded: nothing for a pipeline whose work was never interrupted, once it has run for
//! a lease; at most half of the time for the others, [`HUSH`] at a time. It is counted as
//! `redrive_claims_paused_milliseconds_total`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long nobody claims for the sake of one trial, and how long a trial waits for the claims of others.
const HUSH: Duration = Duration::from_secs(2);

/// The slot of one engine in which events are tried that may be deadly. Clones are the same slot.
#[derive(Debug, Clone)]
pub(crate) struct CrashIsolation(Arc<watch::Sender<Dock>>);

impl Default for CrashIsolation {
    fn default() -> Self {
        Self(Arc::new(watch::channel(Dock::default()).0))
    }
}

/// Who is tried, and who may come in between.
#[derive(Debug, Default)]
struct Dock {
    /// Since when somebody has the seat, or is tried.
    since: Option<Instant>,
    /// When the next one may have it.
    free_from: Option<Instant>,
    /// Claims that are under way, or of which something is still to be handed back.
    claims: usize,
}

impl Dock {
    fn take(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_some() || self.free_from.is_some_and(|from| now < from) {
            return false;
        }
        self.since = Some(now);
        true
    }

    fn leave(&mut self) {
        let now = Instant::now();
        self.free_from = self.since.take().map(|since| now + (now - since).min(HUSH));
    }

    /// When those who wait for each other stop doing so.
    fn hush_ends(&self) -> Option<Instant> {
        self.since.map(|since| since + HUSH).filter(|end| Instant::now() < *end)
    }

    fn is_alone(&self) -> bool {
        self.claims == 0 || self.hush_ends().is_none()
    }
}

/// The right to try an event that may be deadly. Dropped, it lets the next one in.
#[derive(Debug)]
pub(crate) struct Seat(CrashIsolation);

impl Seat {
    /// The trial itself begins: whatever it waited for took some of its time.
    pub(crate) fn begin(&self) {
        self.0.0.send_modify(|dock| dock.since = Some(Instant::now()));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.send_modify(Dock::leave);
    }
}

/// A claim that is not sorted out: it is under way, or something of it is still to be handed back.
#[derive(Debug)]
pub(crate) struct Sorting(CrashIsolation);

impl Drop for Sorting {
    fn drop(&mut self) {
        self.0.0.send_modify(|dock| dock.claims -= 1);
    }
}

impl CrashIsolation {
    /// Takes the seat, if nobody has it.
    pub(crate) fn enter(&self) -> Option<Seat> {
        self.0.send_if_modified(Dock::take).then(|| Seat(self.clone()))
    }

    /// Begins a claim, unless nobody should claim now.
    pub(crate) fn begin_claim(&self) -> Option<Sorting> {
        let count = |dock: &mut Dock| {
            let may_claim = dock.hush_ends().is_none();
            dock.claims += usize::from(may_claim);
            may_claim
        };
        self.0.send_if_modified(count).then(|| Sorting(self.clone()))
    }

    /// Whether nobody should claim now.
    pub(crate) fn is_hushed(&self) -> bool {
        self.0.borrow().hush_ends().is_some()
    }

    /// Waits until claims may go on.
    pub(crate) async fn hush_over(&self) {
        self.settled(|dock| dock.hush_ends().is_none()).await;
    }

    /// Whether whoever has the seat may be tried: nobody would die beside it who need not.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.borrow().is_alone()
    }

    /// Waits for that.
    pub(crate) async fn alone(&self) {
        self.settled(Dock::is_alone).await;
    }

    /// Waits until something is so, which it is at the end of the hush at the latest.
    async fn settled(&self, so: impl Fn(&Dock) -> bool) {
        let mut dock = self.0.subscribe();
        loop {
            let end = {
                let dock = dock.borrow_and_update();
                if so(&dock) {
                    return;
                }
                dock.hush_ends()
            };
            let Some(end) = end else { return };
            tokio::select! {
                () = sleep_until(end) => return,
                _ = dock.changed() => {}
            }
        }
    }
}

/// Whether the claims of one pipeline wait for trials: see the module.
#[derive(Debug)]
pub(crate) struct Suspicion {
    started: Instant,
    lease: Duration,
    interrupted: AtomicBool,
}

impl Suspicion {
    /// Of a pipeline that is started now, with leases of this length.
    pub(crate) fn new(lease: Duration) -> Self {
        Self { started: Instant::now(), lease, interrupted: AtomicBool::new(false) }
    }

    /// It has work that was interrupted, or was interrupted at its last attempt.
    pub(crate) fn confirm(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Whether some of its events may be deadly, or die with one that is.
    pub(crate) fn is_due(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.started.elapsed() < self.lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const MOMENT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn one_is_tried_at_a_time_when_all_claims_are_sorted_out_and_for_a_moment_nobody_claims() {
        let slot = CrashIsolation::default();
        assert!(!slot.is_hushed());
        let others = slot.begin_claim().unwrap();
        let seat = slot.enter().unwrap();
        assert!(slot.enter().is_none());
        assert!(slot.enter().is_none(), "whoever is refused does not free the seat");
        assert!(slot.is_hushed());
        assert!(slot.begin_claim().is_none(), "nobody claims");
        assert!(!slot.is_alone());
        assert!(timeout(MOMENT, slot.alone()).await.is_err());
        assert!(timeout(MOMENT, slot.hush_over()).await.is_err());
        drop(others);
        timeout(MOMENT, slot.alone()).await.unwrap();
        advance(HUSH).await;
        assert!(!slot.is_hushed(), "nobody waits for long");
        seat.begin();
        assert!(slot.is_hushed(), "it is being tried");
        advance(HUSH).await;
        assert!(!slot.is_hushed(), "a long one holds up nobody");
        timeout(MOMENT, slot.hush_over()).await.unwrap();
        drop(seat);
        assert!(slot.enter().is_none(), "claims have their turn");
        advance(HUSH).await;

        let stuck = slot.begin_claim().unwrap();
        let seat = slot.enter().unwrap();
        assert!(timeout(HUSH / 2, slot.alone()).await.is_err());
        timeout(HUSH, slot.alone()).await.unwrap();
        assert!(slot.is_alone(), "a claim that is stuck holds up no trial for good");
        drop((stuck, seat));
        advance(HUSH).await;
        let seat = slot.enter().unwrap();
        assert!(timeout(MOMENT, slot.hush_over()).await.is_err());
        drop(seat);
        timeout(MOMENT, slot.hush_over()).await.unwrap();
        advance(2 * MOMENT).await;
        assert!(slot.enter().is_some(), "a short trial leaves a short time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipeline_whose_work_was_never_interrupted_waits_for_no_trial_and_engines_share_none() {
        let slot = CrashIsolation::default();
        let _seat = slot.enter().unwrap();
        assert!(slot.begin_claim().is_none());
        assert!(CrashIsolation::default().enter().is_some(), "another engine has a slot of its own");
        let lease = Duration::from_secs(20);
        let suspicion = Suspicion::new(lease);
        assert!(suspicion.is_due(), "what an earlier process left behind may still come up");
        advance(lease).await;
        assert!(!suspicion.is_due());
        suspicion.confirm();
        assert!(suspicion.is_due());
    }
}
