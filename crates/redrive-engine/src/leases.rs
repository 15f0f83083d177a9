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
pub(crate) type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

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

    pub(crate) fn by(clock: Clock) -> Self {
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

    /// Whether work may be begun with: its lease is held, and has not run out by the clock of this machine.
    pub(crate) fn is_good(&self, work: WorkId) -> bool {
        let now = self.now();
        self.held().get(&work).is_some_and(|entry| now < entry.good_until)
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

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_core::event::Event;

    const LENGTH: Duration = Duration::from_secs(20);
    const MOMENT: Duration = Duration::from_millis(1);

    fn lease(fence: i64) -> Lease {
        Lease::new(WorkId(1), fence, Timestamp::MAX)
    }

    fn work() -> Work {
        let event = Event {
            id: WorkId(1),
            origin: WorkId(1),
            event_type: String::new(),
            aggregate_type: String::new(),
            key: String::new(),
            payload: Vec::new(),
            created_at: Timestamp::MIN,
            attempt: 1,
        };
        Work { event, retry_count: 0, max_retries: None, interrupted: false, history: Default::default() }
    }

    /// Leases whose clock is set by hand: it may jump, as it does when a machine was suspended.
    fn leases() -> (HeldLeases, Arc<Mutex<Duration>>) {
        let time = Arc::new(Mutex::new(Duration::from_secs(1000)));
        let clock = Arc::clone(&time);
        (HeldLeases::by(Arc::new(move || *clock.lock().unwrap())), time)
    }

    #[test]
    fn a_lease_is_good_for_its_length_from_before_it_was_asked_for() {
        let (leases, time) = leases();
        let asked = leases.now();
        // The answer takes its time.
        *time.lock().unwrap() += Duration::from_secs(5);
        leases.claimed(&[(lease(1), work())], asked, LENGTH);
        *time.lock().unwrap() = asked + LENGTH - MOMENT;
        assert!(leases.is_good(WorkId(1)));
        *time.lock().unwrap() = asked + LENGTH;
        assert!(!leases.is_good(WorkId(1)));
        assert!(!leases.is_good(WorkId(2)), "not held at all");
    }

    #[test]
    fn an_extended_lease_is_good_again_and_a_stale_extension_changes_nothing() {
        let (leases, time) = leases();
        leases.claimed(&[(lease(2), work())], leases.now(), LENGTH);
        *time.lock().unwrap() += LENGTH * 2;
        leases.extended(&[lease(1)], leases.now(), LENGTH);
        assert!(!leases.is_good(WorkId(1)), "that was an earlier lease");
        leases.extended(&[lease(2)], leases.now(), LENGTH);
        assert!(leases.is_good(WorkId(1)));
        leases.released(&[(WorkId(1), 1)]);
        assert!(leases.holds(&lease(2)), "that was an earlier lease");
        leases.released(&[(WorkId(1), 2)]);
        assert!(!leases.is_good(WorkId(1)) && leases.all().is_empty());
    }

    #[test]
    fn the_clock_goes_on() {
        let leases = HeldLeases::new();
        let before = leases.now();
        assert!(before > Duration::ZERO && leases.now() >= before);
    }
}
