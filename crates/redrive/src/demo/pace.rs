//! The pace of the story: how long what was said stays before something else happens.
//!
//! Somebody at a terminal gets as long as it takes to read it. A log is read later, and whoever says `--fast` has
//! read it before: both get no pauses at all. Nothing but reading is ever waited for here: what has to have
//! happened is asked for, not slept for.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a reader takes in each second. Half of what is said is numbers and names, which are looked at, not read.
const WORDS_A_SECOND: f64 = 9.0;
/// Even a short line is noticed first.
const SHORTEST: Duration = Duration::from_millis(1_200);
/// A long table is not studied.
const LONGEST: Duration = Duration::from_secs(6);
/// A story that is as old as this has a slow machine, and ends without further pauses.
const PATIENCE: Duration = Duration::from_secs(60);

/// For whom the story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody reads along.
    Reader,
    /// Nobody does.
    Log,
}

/// The pauses of one story.
#[derive(Debug)]
pub(super) struct Pace {
    audience: Audience,
    begun: Instant,
    /// Said since the last pause.
    words: Cell<usize>,
}

impl Pace {
    pub(super) fn new(audience: Audience) -> Self {
        Self { audience, begun: Instant::now(), words: Cell::default() }
    }

    /// This was said.
    pub(super) fn said(&self, text: &str) {
        let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
        self.words.set(self.words.get() + text.split_whitespace().filter(is_word).count());
    }

    /// Stays until what was said since the last time has been read.
    pub(super) async fn read(&self) {
        let pause = self.audience.pause(self.words.take(), self.begun.elapsed());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

impl Audience {
    /// How long so many words stay, in a story that is so old.
    fn pause(self, words: usize, age: Duration) -> Duration {
        if self == Self::Log || words == 0 {
            return Duration::ZERO;
        }
        let words = u32::try_from(words).unwrap_or(u32::MAX);
        let reading = Duration::from_secs_f64(f64::from(words) / WORDS_A_SECOND).clamp(SHORTEST, LONGEST);
        reading.min(PATIENCE.saturating_sub(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YOUNG: Duration = Duration::from_secs(5);

    #[test]
    fn what_is_longer_stays_longer() {
        assert!(Audience::Reader.pause(40, YOUNG) > Audience::Reader.pause(20, YOUNG));
    }

    #[test]
    fn a_word_is_noticed_and_a_flood_does_not_stop_the_story() {
        assert_eq!(Audience::Reader.pause(1, YOUNG), SHORTEST);
        assert_eq!(Audience::Reader.pause(usize::MAX, YOUNG), LONGEST);
    }

    #[test]
    fn where_nothing_was_said_nothing_is_waited_for() {
        assert_eq!(Audience::Reader.pause(0, YOUNG), Duration::ZERO);
    }

    #[test]
    fn a_story_that_is_late_is_not_held_up_further() {
        assert_eq!(Audience::Reader.pause(40, PATIENCE - Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(Audience::Reader.pause(40, PATIENCE * 2), Duration::ZERO);
    }

    #[test]
    fn signs_are_no_words() {
        let pace = Pace::new(Audience::Reader);
        pace.said("   1 × orders → bank = ✔");
        assert_eq!(pace.words.get(), 3);
    }

    #[test]
    fn a_log_is_never_waited_for() {
        assert_eq!(Audience::Log.pause(40, YOUNG), Duration::ZERO);
    }
}
