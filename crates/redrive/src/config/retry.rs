//! When a failed attempt is repeated.

use std::time::Duration;

use super::section::Section;

/// Growing pauses between attempts; jitter is added when they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The first pause.
    pub initial: Duration,
    /// How much longer each further pause is.
    pub factor: f64,
    /// The longest pause.
    pub max: Duration,
}

/// A limited number of quick attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// How often a failed try is repeated.
    pub attempts: u32,
    /// The pauses between the tries.
    pub backoff: Backoff,
}

/// The defaults of one kind of pipeline, as text.
pub(crate) struct BackoffDefaults {
    pub(crate) initial: &'static str,
    pub(crate) factor: &'static str,
    pub(crate) max: &'static str,
}

impl Backoff {
    pub(crate) fn read(section: &mut Section<'_>, defaults: &BackoffDefaults) -> Self {
        let backoff = Self {
            initial: section.get("initial", defaults.initial, "The first pause."),
            factor: section.get("factor", defaults.factor, "How much longer each further pause is."),
            max: section.get("max", defaults.max, "The longest pause."),
        };
        if backoff.initial > backoff.max {
            let key = if section.has("max") { "max" } else { "initial" };
            section.refuse(
                key,
                format!(
                    "found initial = \"{}\" above max = \"{}\", expected initial to be at most max",
                    redrive_server::duration::show(backoff.initial),
                    redrive_server::duration::show(backoff.max)
                ),
            );
        }
        backoff
    }
}

impl Retry {
    pub(crate) fn read(
        section: &mut Section<'_>,
        attempts: &'static str,
        defaults: &BackoffDefaults,
    ) -> Self {
        Self {
            attempts: section.get("attempts", attempts, "How often a failed try is repeated."),
            backoff: Backoff::read(section, defaults),
        }
    }
}
