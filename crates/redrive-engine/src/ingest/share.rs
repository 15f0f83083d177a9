//! The share of recovery under load: after how many live batches a file of the spool has its turn. Pure.
//!
//! While nothing is uploaded, files go one after another. Under load that moment may never come, so files go
//! beside the live batches: few as a rule, more the nearer the oldest one is to its end, and one after another
//! while the spool has no room.

use std::time::Duration;

/// From this part of its life on, the oldest file waits for nobody.
const URGENT: f64 = 0.9;

/// How urgent the files of a spool are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Urgency {
    /// How old the oldest file is; nothing if there is none.
    pub(super) oldest: Option<Duration>,
    /// How old a file may get.
    pub(super) max_age: Duration,
    /// Whether a batch found no room.
    pub(super) is_short_of_room: bool,
}

impl Urgency {
    /// How many live batches go before the next file, if it is so many as a rule. With 0 files go one after
    /// another.
    pub(super) fn batches_before_next(&self, rule: u32) -> u32 {
        let Some(oldest) = self.oldest else { return rule };
        if self.is_short_of_room || self.max_age.is_zero() {
            return 0;
        }
        let lived = oldest.as_secs_f64() / self.max_age.as_secs_f64();
        let left = ((URGENT - lived) / URGENT).clamp(0.0, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the rule")]
        let batches = (f64::from(rule) * left).ceil() as u32;
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(oldest: Option<u64>, is_short_of_room: bool) -> u32 {
        let oldest = oldest.map(Duration::from_secs);
        Urgency { oldest, max_age: Duration::from_secs(100), is_short_of_room }.batches_before_next(4)
    }

    #[test]
    fn the_nearer_the_oldest_file_is_to_its_end_the_larger_the_share() {
        let shares: Vec<u32> = [0, 10, 30, 50, 70, 89, 90, 500].map(|age| batches(Some(age), false)).into();
        assert_eq!(shares, [4, 4, 3, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn without_room_files_go_one_after_another_and_without_files_nothing_is_urgent() {
        assert_eq!(batches(Some(0), true), 0);
        assert_eq!((batches(None, true), batches(None, false)), (4, 4));
    }

    #[test]
    fn files_without_an_end_have_the_share_of_the_rule() {
        let urgency =
            Urgency { oldest: Some(Duration::from_secs(1)), max_age: Duration::MAX, is_short_of_room: false };
        assert_eq!(urgency.batches_before_next(4), 4);
    }
}
