//! The leases that a worker holds, and until when each is good by the clock of this machine.
//!
//! The store decides whose a lease is. But a process that was stopped, or a machine that was suspended, wakes up with
//! work in its queue whose leases ran out meanwhile, and must not begin with it before it has asked. So each lease has
//! a local deadline: the moment *before* it was asked for, and its length. That is never later than the store's. The
//! clock goes on while the machine is suspended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::lease::{Lease, Work};
use rustix::time::{ClockId, clock_gettime};

/// Tells how long this machine has been up, suspended or not.
type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The leases of one worker. Clones are the same leases.
#[derive(Clone)]
pub(crate) struct HeldLeases {
    clock: Clock,
    held: Arc<Mutex<HashMap<WorkId, Held>>>,
}

/// A lease that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    fence: i64,
    good_until: Duration,
}

impl HeldLeases {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self::by(Arc::new(uptime))
    }

    fn by(clock: Clock) -> Self {
        Self { clock, held: Arc::default() }
    }

    /// The time that deadlines are counted from: take it before the store is asked.
    pub(crate) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// These were claimed for so long, by a call that was begun at `asked`.
    pub(crate) fn claimed(&self, claimed: &[(Lease, Work)], asked: Duration, length: Duration) {
        let good_until = asked.saturating_add(length);
        let entry = |(lease, _): &(Lease, Work)| (lease.work(), Held { fence: lease.fence(), good_until });
        self.held().extend(claimed.iter().map(entry));
    }

    /// These were extended by so long, by a call that was begun at `asked`.
    pub(crate) fn extended<'a>(
        &self,
        leases: impl IntoIterator<Item = &'a Lease>,
        asked: Duration,
        length: Duration,
    ) {
        let mut held = self.held();
        for lease in leases {
            if let Some(entry) = held.get_mut(&lease.work()).filter(|entry| entry.fence == lease.fence()) {
                entry.good_until = asked.saturating_add(length);
            }
        }
    }

    /// These are settled or lost: they are extended no more.
    pub(crate) fn released(&self, leases: &[(WorkId, i64)]) {
        let mut held = self.held();
        for (work, fence) in leases {
            if held.get(work).is_some_and(|entry| entry.fence == *fence) {
                held.remove(work);
            }
        }
    }

    /// Whether this lease is held.
    pub(crate) fn holds(&self, lease: &Lease) -> bool {
        self.held().get(&lease.work()).is_some_and(|entry| entry.fence == lease.fence())
    }

    /// All of them, to be extended.
    pub(crate) fn all(&self) -> Vec<Lease> {
        let lease = |(work, held): (&WorkId, &Held)| Lease::new(*work, held.fence, Timestamp::MIN);
        self.held().iter().map(lease).collect()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<WorkId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a batch of settlements is about: work and fence.
pub(crate) fn keys<'a, T: 'a>(settlements: impl IntoIterator<Item = &'a (Lease, T)>) -> Vec<(WorkId, i64)> {
    settlements.into_iter().map(|(lease, _)| (lease.work(), lease.fence())).collect()
}

/// Since the machine was started. Where there is no such clock, one that may stand still while it is suspended.
fn uptime() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
