//! Cron expressions in Quartz form: seconds first, `?` allowed, weekdays from 1 = Sunday.

use std::str::FromStr;

use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A cron expression in Quartz form, in UTC.
#[derive(Debug, Clone)]
pub struct Cron {
    pattern: croner::Cron,
}

/// A text that is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no cron expression in Quartz form (second minute hour day month weekday): {why}")]
pub struct InvalidCron {
    text: String,
    why: String,
}

impl Cron {
    /// Reads an expression such as `0 0 0 * * ?`, which is every midnight.
    ///
    /// # Errors
    /// [`InvalidCron`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Optional)
            .alternative_weekdays(true)
            .sloppy_ranges(true)
            .build();
        let invalid = |why: String| InvalidCron { text: text.to_owned(), why };
        let cron = Self { pattern: parser.parse(text).map_err(|error| invalid(error.to_string()))? };
        match cron.next(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(cron),
            None => Err(invalid("it never comes".to_owned())),
        }
    }

    /// Every midnight.
    pub(super) fn midnight() -> Self {
        Self::parse("0 0 0 * * ?").expect("invariant: the founding expression is valid")
    }

    /// The next time after this one, if there is any.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = TimeZone::UTC.to_datetime(after);
        let next = self.pattern.find_next_occurrence(&after, false).ok()?;
        TimeZone::UTC.to_timestamp(next).ok()
    }
}

impl FromStr for Cron {
    type Err = InvalidCron;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartz_is_understood_seconds_first_and_with_a_question_mark() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (cron, after, next) in [
            ("0 0 0 * * ?", "2026-11-15T22:57:51Z", "2026-11-16T00:00:00Z"),
            ("0 0 0 * * ?", "2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"),
            ("0/15 * * * * ?", "2026-11-15T22:57:51Z", "2026-11-15T22:58:00Z"),
            // 1 is Sunday, 15 November 2026 is one.
            ("0 30 4 ? * 1", "2026-11-15T04:30:00Z", "2026-11-22T04:30:00Z"),
            ("0 0 3 L * ?", "2026-11-15T00:00:00Z", "2026-11-30T03:00:00Z"),
            ("0 0 0 ? * MON-FRI", "2026-11-13T00:00:00Z", "2026-11-16T00:00:00Z"),
        ] {
            assert_eq!(Cron::parse(cron).unwrap().next(at(after)), Some(at(next)), "{cron}");
        }
    }

    #[test]
    fn what_is_no_cron_is_refused_with_a_reason() {
        for text in ["", "0 0 * * *", "61 0 0 * * ?", "0 0 25 * * ?", "0 0 0 31 2 ?", "midnight"] {
            let error = Cron::parse(text).unwrap_err().to_string();
            assert!(error.contains("Quartz form") && error.len() > 90, "{error}");
        }
    }
}
