//! On trial: an event that may kill whoever handles it gets its final attempt alone among its kind.
//!
//! When a process dies, nobody can tell which of the events in its hand was to blame, and each of them
//! counts an attempt. Events that come due together are handled together again, so the innocent would
//! be buried beside the deadly one. Therefore an event whose last attempt ended with its worker, and for
//! which one more such end would be the last, waits until no other such event is in hand in this
//! process. Events with attempts left are not held up: one dead neighbour costs them one attempt.

use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One for the process, as it is the process that dies.
static DOCK: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// The right to try an event that may be deadly. Dropped, it lets the next one in.
#[derive(Debug)]
pub(crate) struct Seat(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// Takes the seat, if nobody has it.
pub(crate) fn enter() -> Option<Seat> {
    Arc::clone(&DOCK).try_acquire_owned().ok().map(Seat)
}
