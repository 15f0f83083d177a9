//! How much of a list is asked for, and where the rest begins.

use redrive_core::dead_letter::MAX_PAGE;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Problem;

/// How much of a list of operations or of the audit log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Slice {
    /// Only those before this number.
    before: Option<i64>,
    /// How many.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

impl Slice {
    /// Before which, and how many.
    pub(super) fn check(&self) -> Result<(Option<i64>, u32), Problem> {
        Ok((self.before, limit(self.limit)?))
    }
}

/// How many are asked for: 1 to 500, or 50.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    const DEFAULT: u32 = 50;
    match asked {
        Some(limit) if !(1..=MAX_PAGE).contains(&limit) => {
            let why = format!("is not accepted: expected a whole number from 1 to {MAX_PAGE}");
            Err(Problem::field("limit", why))
        }
        asked => Ok(asked.unwrap_or(DEFAULT)),
    }
}

/// Where the next slice starts, when this one is full.
pub(super) fn next_of(found: usize, limit: u32, last: Option<i64>) -> Option<i64> {
    last.filter(|_| found >= limit as usize)
}
