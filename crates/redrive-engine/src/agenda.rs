//! When the worker looks for work next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

/// The most due times that are remembered; the poll interval covers the rest.
const MAX_TIMES: usize = 10_000;

/// When one worker looks for work next.
#[derive(Debug)]
pub(crate) struct Agenda {
    poll_interval: Duration,
    hungry: bool,
    next_poll: Instant,
    /// When work that this worker put off is due again: no need to wait for the next poll.
    due: BinaryHeap<Reverse<Instant>>,
}

impl Agenda {
    pub(crate) fn new(poll_interval: Duration) -> Self {
        let now = Instant::now();
        Self { poll_interval, hungry: true, next_poll: now + poll_interval, due: BinaryHeap::new() }
    }

    /// Whether to look for work now.
    pub(crate) const fn is_hungry(&self) -> bool {
        self.hungry
    }

    /// Looks at once.
    pub(crate) fn hurry(&mut self) {
        self.hungry = true;
    }

    /// Has looked: a full batch means that there is more.
    pub(crate) fn looked(&mut self, full: bool) {
        let now = Instant::now();
        self.hungry = full;
        self.next_poll = now + self.poll_interval;
        while self.due.peek().is_some_and(|Reverse(due)| *due <= now) {
            self.due.pop();
        }
    }

    /// Looks again after this long at the latest.
    pub(crate) fn look_after(&mut self, after: Duration) {
        if after < self.poll_interval && self.due.len() < MAX_TIMES {
            // A little later: the store counts from when it writes the delay down.
            self.due.push(Reverse(Instant::now() + after + Duration::from_millis(20)));
        }
    }

    /// When to look at the latest.
    pub(crate) fn next_look(&self) -> Instant {
        self.due.peek().map_or(self.next_poll, |Reverse(due)| self.next_poll.min(*due))
    }
}
