//! On trial: an event that may kill whoever handles it gets its final attempt alone among its kind.
//!
//! When a process dies, nobody can tell which of the events in its hand was to blame, and each of them
//! counts an attempt. Events that come due together are handled together again, so the innocent would
//! be buried beside the deadly one. Therefore an event whose last attempt ended with its worker, and for
//! which one more such end would be the last, waits until no other such event is in hand in this
//! process. Events with attempts left are not held up: one dead neighbour costs them one attempt.
//!
//! It takes a claim to see that an event is one of those. So while one is tried, nobody in this process
//! claims: what was claimed and not yet handed back would die beside it. But only for a moment, as the deadly
//! kill quickly, and the long ones are mostly innocent.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long nobody claims.
const HUSH: Duration = Duration::from_secs(2);

/// Since when somebody has the seat. One for the process, as it is the process that dies.
static DOCK: LazyLock<watch::Sender<Option<Instant>>> = LazyLock::new(|| watch::channel(None).0);

/// The right to try an event that may be deadly. Dropped, it lets the next one in.
#[derive(Debug)]
pub(crate) struct Seat(());

impl Drop for Seat {
    fn drop(&mut self) {
        DOCK.send_replace(None);
    }
}

/// Takes the seat, if nobody has it.
pub(crate) fn enter() -> Option<Seat> {
    let take = |since: &mut Option<Instant>| since.is_none() && since.replace(Instant::now()).is_none();
    DOCK.send_if_modified(take).then_some(Seat(()))
}

/// Whether nobody should claim now.
pub(crate) fn is_hushed() -> bool {
    DOCK.borrow().is_some_and(|since| since.elapsed() < HUSH)
}

/// Waits until claims may go on.
pub(crate) async fn hush_over() {
    let mut dock = DOCK.subscribe();
    loop {
        let Some(since) = *dock.borrow_and_update() else { return };
        tokio::select! {
            () = sleep_until(since + HUSH) => return,
            _ = dock.changed() => {}
        }
    }
}
