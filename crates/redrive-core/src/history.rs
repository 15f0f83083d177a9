//! The attempts at one event: what failed, when. Bounded: the first and the latest are kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::{Class, Code, Failure};

/// How many attempts are remembered: the first one, and the latest of the rest.
pub const MAX_ATTEMPTS: usize = 10;
/// How much of a message an attempt keeps; the letter itself has the whole latest one.
const MAX_MESSAGE: usize = 500;

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it failed.
    pub at: Timestamp,
    /// Its number, from 1.
    pub number: u32,
    /// The class of the failure, by name.
    pub class: String,
    /// The failing system's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The type of the failure.
    pub kind: String,
    /// The message, shortened.
    pub message: String,
}

impl Attempt {
    /// The class of the failure.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::from_name(&self.class)
    }
}

/// The failed attempts at one event, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<Attempt>);

impl History {
    /// The attempts, oldest first.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0
    }

    /// This history with one more failure; the second-oldest makes room when it is full.
    #[must_use]
    pub fn with(mut self, failure: &Failure, at: Timestamp) -> Self {
        let number = self.0.last().map_or(1, |last| last.number.saturating_add(1));
        if self.0.len() >= MAX_ATTEMPTS {
            self.0.remove(1);
        }
        self.0.push(Attempt {
            at,
            number,
            class: failure.class.name().to_owned(),
            code: failure.code.clone(),
            kind: failure.kind.clone(),
            message: shorten(&failure.message),
        });
        self
    }

    /// When it first failed.
    #[must_use]
    pub fn first_failed_at(&self) -> Option<Timestamp> {
        self.0.first().map(|attempt| attempt.at)
    }
}

impl From<Vec<Attempt>> for History {
    fn from(attempts: Vec<Attempt>) -> Self {
        Self(attempts)
    }
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{} […cut]", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_latest_attempts_are_kept() {
        let mut history = History::default();
        for second in 0..25 {
            let at = Timestamp::from_second(second).unwrap();
            history = history.with(&Failure::transient("Timeout", format!("at {second}")), at);
        }
        let numbers: Vec<u32> = history.attempts().iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [1, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
        assert_eq!(history.first_failed_at(), Some(Timestamp::UNIX_EPOCH));
    }
}
