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

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long nobody claims for the sake of one trial, and how long a trial waits for the claims of others.
const HUSH: Duration = Duration::from_secs(2);

/// One for the process, as it is the process that dies.
static DOCK: LazyLock<watch::Sender<Dock>> = LazyLock::new(|| watch::channel(Dock::default()).0);

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
pub(crate) struct Seat(());

impl Seat {
    /// The trial itself begins: whatever it waited for took some of its time.
    pub(crate) fn begin(&self) {
        DOCK.send_modify(|dock| dock.since = Some(Instant::now()));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        DOCK.send_modify(Dock::leave);
    }
}

/// Takes the seat, if nobody has it.
pub(crate) fn enter() -> Option<Seat> {
    DOCK.send_if_modified(Dock::take).then(|| Seat(()))
}

/// A claim that is not sorted out: it is under way, or something of it is still to be handed back.
#[derive(Debug)]
pub(crate) struct Sorting(());

impl Sorting {
    /// Unless nobody should claim now.
    pub(crate) fn begin() -> Option<Self> {
        let count = |dock: &mut Dock| {
            let may_claim = dock.hush_ends().is_none();
            dock.claims += usize::from(may_claim);
            may_claim
        };
        DOCK.send_if_modified(count).then(|| Self(()))
    }
}

impl Drop for Sorting {
    fn drop(&mut self) {
        DOCK.send_modify(|dock| dock.claims -= 1);
    }
}

/// Whether nobody should claim now.
pub(crate) fn is_hushed() -> bool {
    DOCK.borrow().hush_ends().is_some()
}

/// Waits until claims may go on.
pub(crate) async fn hush_over() {
    settled(|dock| dock.hush_ends().is_none()).await;
}

/// Whether whoever has the seat may be tried: nobody would die beside it who need not.
pub(crate) fn is_alone() -> bool {
    DOCK.borrow().is_alone()
}

/// Waits for that.
pub(crate) async fn alone() {
    settled(Dock::is_alone).await;
}

/// Waits until something is so, which it is at the end of the hush at the latest.
async fn settled(so: impl Fn(&Dock) -> bool) {
    let mut dock = DOCK.subscribe();
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const MOMENT: Duration = Duration::from_millis(1);

    /// One test: the process has one dock.
    #[tokio::test(start_paused = true)]
    async fn one_is_tried_at_a_time_when_all_claims_are_sorted_out_and_for_a_moment_nobody_claims() {
        assert!(!is_hushed());
        let others = Sorting::begin().unwrap();
        let seat = enter().unwrap();
        assert!(enter().is_none());
        assert!(enter().is_none(), "whoever is refused does not free the seat");
        assert!(is_hushed());
        assert!(Sorting::begin().is_none(), "nobody claims");
        assert!(!is_alone());
        assert!(timeout(MOMENT, alone()).await.is_err());
        assert!(timeout(MOMENT, hush_over()).await.is_err());
        drop(others);
        timeout(MOMENT, alone()).await.unwrap();
        advance(HUSH).await;
        assert!(!is_hushed(), "nobody waits for long");
        seat.begin();
        assert!(is_hushed(), "it is being tried");
        advance(HUSH).await;
        assert!(!is_hushed(), "a long one holds up nobody");
        timeout(MOMENT, hush_over()).await.unwrap();
        drop(seat);
        assert!(enter().is_none(), "claims have their turn");
        advance(HUSH).await;

        let stuck = Sorting::begin().unwrap();
        let seat = enter().unwrap();
        assert!(timeout(HUSH / 2, alone()).await.is_err());
        timeout(HUSH, alone()).await.unwrap();
        assert!(is_alone(), "a claim that is stuck holds up no trial for good");
        drop((stuck, seat));
        advance(HUSH).await;
        let seat = enter().unwrap();
        assert!(timeout(MOMENT, hush_over()).await.is_err());
        drop(seat);
        timeout(MOMENT, hush_over()).await.unwrap();
        advance(2 * MOMENT).await;
        assert!(enter().is_some(), "a short trial leaves a short time");
    }
}
