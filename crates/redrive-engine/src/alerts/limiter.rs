//! The limiter of one channel: so many alerts per time, and no more.

use std::time::Duration;

use tokio::time::Instant;

use super::alert::Alert;

/// How many alerts a channel may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So many.
    pub limit: u32,
    /// In this time.
    pub per: Duration,
}

impl Default for Rate {
    /// 30 a minute; Slack takes one a second.
    fn default() -> Self {
        Self { limit: 30, per: Duration::from_secs(60) }
    }
}

/// Counts what a channel was sent. Pure: the time comes in as an argument.
///
/// A third of the limit is kept for alerts about the state of a pipeline, so that a storm of letters
/// cannot hide that a handler is down.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    since: Instant,
    used: u32,
}

impl Limiter {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, since: now, used: 0 }
    }

    /// Whether this alert may be sent now; if so, it counts.
    pub(super) fn admit(&mut self, alert: &Alert, now: Instant) -> bool {
        if now >= self.next_window() {
            (self.since, self.used) = (now, 0);
        }
        let kept = if alert.is_urgent() { 0 } else { self.rate.limit / 3 };
        let admitted = self.used < self.rate.limit.max(1) - kept;
        self.used += u32::from(admitted);
        admitted
    }

    /// When the count starts anew.
    pub(super) fn next_window(&self) -> Instant {
        self.since + self.rate.per
    }
}

#[cfg(test)]
mod tests {
    use super::super::alert::{HandlerUp, HeldBack, Report};
    use super::*;

    fn report() -> Alert {
        Alert::Report(Report::new("orders", [], None))
    }

    fn admitted(limiter: &mut Limiter, alert: &Alert, now: Instant) -> usize {
        (0..100).filter(|_| limiter.admit(alert, now)).count()
    }

    #[test]
    fn a_window_takes_so_many_and_the_next_one_again() {
        let now = Instant::now();
        let mut limiter = Limiter::new(Rate { limit: 30, per: Duration::from_secs(60) }, now);
        assert_eq!(admitted(&mut limiter, &report(), now), 20);
        assert_eq!(admitted(&mut limiter, &report(), now + Duration::from_secs(59)), 0);
        assert_eq!(admitted(&mut limiter, &report(), now + Duration::from_secs(60)), 20);
    }

    #[test]
    fn a_storm_leaves_room_for_the_state_of_the_pipeline() {
        let now = Instant::now();
        let mut limiter = Limiter::new(Rate { limit: 30, per: Duration::from_secs(60) }, now);
        admitted(&mut limiter, &report(), now);
        let up = Alert::HandlerUp(HandlerUp { pipeline: "orders".into(), handler: "http".into() });
        assert_eq!(admitted(&mut limiter, &up, now), 10);
    }

    #[test]
    fn even_the_smallest_limit_lets_something_through() {
        let now = Instant::now();
        for limit in [0, 1, 2] {
            let rate = Rate { limit, per: Duration::from_secs(1) };
            assert!(Limiter::new(rate, now).admit(&report(), now), "{limit}");
            assert!(Limiter::new(rate, now).admit(&Alert::HeldBack(HeldBack::default()), now), "{limit}");
        }
    }
}
