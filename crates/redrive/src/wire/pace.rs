//! How a pipeline works, from its settings.

use std::num::NonZeroU32;
use std::time::Duration;

use redrive::config;
use redrive_core::backoff::{Backoff, InvalidBackoff};

/// How much longer the worker waits than the handler itself: the handler's own message about a time-out
/// says more.
const SLACK: Duration = Duration::from_secs(2);

/// So many workers, each with its part of the concurrency: together they run what was configured.
pub(super) fn shares(workers: NonZeroU32, concurrency: NonZeroU32) -> (usize, usize) {
    let workers = workers.min(concurrency).get();
    (workers as usize, concurrency.get().div_ceil(workers) as usize)
}

/// When a worker gives up on handlers that have these time-outs of their own.
pub(super) fn patience(timeouts: impl IntoIterator<Item = Duration>) -> Duration {
    timeouts.into_iter().max().unwrap_or_default() + SLACK
}

pub(super) fn backoff(retry: &config::Backoff) -> Result<Backoff, InvalidBackoff> {
    Backoff::new(retry.initial, retry.factor, retry.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_concurrency_and_none_is_idle() {
        let shares = |workers, concurrency| {
            super::shares(NonZeroU32::new(workers).unwrap(), NonZeroU32::new(concurrency).unwrap())
        };
        assert_eq!(shares(2, 16), (2, 8));
        assert_eq!(shares(1, 16), (1, 16));
        assert_eq!(shares(4, 1), (1, 1));
        assert_eq!(shares(2, 3), (2, 2));
    }

    #[test]
    fn a_worker_is_more_patient_than_its_slowest_handler() {
        let timeouts = [Duration::from_secs(5), Duration::from_secs(30)];
        assert!(patience(timeouts) > Duration::from_secs(30));
    }
}
