//! Progress in one partition: what was taken, what is finished, and how far may be committed.
//!
//! Only the contiguous finished prefix is committed: a commit says "everything before this is done", so
//! one unfinished record holds back all that finished after it.

use std::collections::VecDeque;

/// The progress in one partition.
#[derive(Debug, Default)]
pub struct Progress {
    /// Batches that are not committed, in order: the offset after each, and whether it is finished.
    open: VecDeque<(i64, bool)>,
    finished: Option<i64>,
}

impl Progress {
    /// A batch was taken; `next` is the offset after its last record, and grows from batch to batch.
    pub fn begin(&mut self, next: i64) {
        self.open.push_back((next, false));
    }

    /// Every record of the batch is safe. Says how far may be committed, if that is further now.
    pub fn finish(&mut self, next: i64) -> Option<i64> {
        if let Some(batch) = self.open.iter_mut().find(|batch| batch.0 == next) {
            batch.1 = true;
        }
        let before = self.finished;
        while let Some((next, true)) = self.open.front() {
            self.finished = Some(*next);
            self.open.pop_front();
        }
        self.finished.filter(|_| self.finished != before)
    }

    /// How far may be committed.
    #[must_use]
    pub const fn finished(&self) -> Option<i64> {
        self.finished
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn what_may_be_committed_is_the_finished_prefix(
            order in (1..20_usize).prop_flat_map(|many| Just((0..many).collect::<Vec<_>>()).prop_shuffle()),
            until in 0..20_usize,
        ) {
            let mut progress = Progress::default();
            for batch in 0..order.len() {
                progress.begin(10 * (batch as i64 + 1));
            }
            let mut done = vec![false; order.len()];
            for batch in order.iter().take(until) {
                let moved = progress.finish(10 * (*batch as i64 + 1));
                done[*batch] = true;
                let prefix = done.iter().take_while(|done| **done).count() as i64;
                prop_assert_eq!(progress.finished(), (prefix > 0).then_some(10 * prefix));
                prop_assert!(moved.is_none() || moved == progress.finished());
            }
        }
    }
}
