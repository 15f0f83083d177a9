//! The rungs of the ladder: where events go when the place they belong in cannot take them.
//!
//! One scale for every pipeline, so that one alert can watch `redrive_ladder_rung` of them all.

use serde::Serialize;

/// Where a pipeline's events go at the moment; the number is the metric's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Where they belong.
    Target = 1,
    /// Into the store of dead letters.
    DeadLetters = 2,
    /// Into the journal on local disk.
    Disk = 3,
    /// Nowhere: they are held in memory, and new ones are refused once that is full.
    Nowhere = 4,
}

impl Rung {
    /// The value of the metric.
    #[must_use]
    pub fn level(self) -> f64 {
        f64::from(self as u8)
    }

    /// What people are told.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Target => "the target",
            Self::DeadLetters => "the dead-letter store",
            Self::Disk => "the local disk",
            Self::Nowhere => "memory only",
        }
    }
}
