//! Snowflake numbers: unique without asking anybody, and growing with time.
//!
//! ```text
//!   41 bits milliseconds since 2024 │ 10 bits node │ 12 bits sequence
//! ```

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

/// 2024-01-01T00:00:00Z, in milliseconds since 1970.
const EPOCH: u64 = 1_704_067_200_000;
const NODE_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;

/// The numbers of one node.
pub(crate) struct Snowflake {
    node: u64,
    /// Millisecond and sequence of the last number, together.
    last: Mutex<u64>,
}

impl Snowflake {
    /// Of two processes that run at the same time, each needs a node of its own.
    pub(crate) fn new(node: u64) -> Self {
        Self { node: node & ((1 << NODE_BITS) - 1), last: Mutex::new(0) }
    }

    /// The next number. When a millisecond is used up, or the clock goes back, it borrows from the future.
    pub(crate) fn next(&self) -> u64 {
        self.at(now())
    }

    fn at(&self, millis: u64) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (millis.saturating_sub(EPOCH) << SEQUENCE_BITS).max(*last + 1);
        let (time, sequence) = (*last >> SEQUENCE_BITS, *last & ((1 << SEQUENCE_BITS) - 1));
        (time << (NODE_BITS + SEQUENCE_BITS)) | (self.node << SEQUENCE_BITS) | sequence
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_within_a_millisecond_beyond_it_and_when_the_clock_goes_back() {
        let ids = Snowflake::new(7);
        let times = std::iter::repeat_n(EPOCH + 5, 5_000).chain([EPOCH + 4, EPOCH + 9]);
        let numbers: Vec<u64> = times.map(|millis| ids.at(millis)).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next));
        assert!(numbers.iter().all(|number| (number >> SEQUENCE_BITS) & 1023 == 7));
    }
}
