//! How much work a worker claims beyond what its handlers can begin with at once.
//!
//! Work that waits here for a handler is work that nobody else can do, and if this process dies it loses an attempt
//! without having been begun. So there is none of it, unless the handlers would otherwise be idle: it grows while they
//! finish everything before the store has answered the next claim, and shrinks while more waits than they take.

use std::time::{Duration, Instant};

/// An exchange with the store is worth overlapping when handlers are busy for less than this many of its lengths.
const WORTHWHILE: u32 = 4;

/// The size of the queue in front of the handlers. Pure: the time comes in as an argument.
#[derive(Debug)]
pub(super) struct Prefetch {
    most: usize,
    size: usize,
    /// How long the last exchange took, and when it ended.
    last: Option<(Duration, Instant)>,
}

impl Prefetch {
    /// Of at most this many.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, size: 0, last: None }
    }

    /// How many may wait.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// An exchange begins that settles `finished` while `waiting` are not begun with.
    pub(super) fn begin(&mut self, now: Instant, finished: usize, waiting: usize) {
        let is_quick = |(took, ended): (Duration, Instant)| now.duration_since(ended) < took * WORTHWHILE;
        if waiting > finished.saturating_mul(2) {
            self.size = (self.size / 2).max(finished);
        } else if waiting == 0 && finished > 0 && self.last.is_some_and(is_quick) {
            self.size = (self.size * 2).max(1);
        }
        self.size = self.size.min(self.most);
    }

    /// It has ended.
    pub(super) fn end(&mut self, begun: Instant, now: Instant) {
        self.last = Some((now.duration_since(begun), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCHANGE: Duration = Duration::from_millis(1);

    /// What is fetched ahead after twenty exchanges, when handlers take this long for what they are given.
    fn after(handling: Duration, most: usize) -> usize {
        let (mut prefetch, mut now) = (Prefetch::new(most), Instant::now());
        for _ in 0..20 {
            prefetch.begin(now, 16 + prefetch.size(), 0);
            prefetch.end(now, now + EXCHANGE);
            now += EXCHANGE + handling;
        }
        prefetch.size()
    }

    #[test]
    fn nothing_is_fetched_ahead_for_slow_handlers_and_all_for_quick_ones() {
        assert_eq!(after(Duration::from_secs(1), 34), 0);
        assert_eq!(after(EXCHANGE * 4, 34), 0);
        assert_eq!(after(Duration::ZERO, 34), 34);
        assert_eq!(after(Duration::ZERO, 0), 0);
    }

    #[test]
    fn what_waits_unused_is_fetched_no_more() {
        let mut prefetch = Prefetch { most: 34, size: 34, last: None };
        let now = Instant::now();
        prefetch.begin(now, 1, 34);
        assert_eq!(prefetch.size(), 17);
        (0..10).for_each(|_| prefetch.begin(now, 1, 3));
        assert_eq!(prefetch.size(), 1);
        prefetch.begin(now, 2, 4);
        assert_eq!(prefetch.size(), 1, "as much as they take");
    }
}
