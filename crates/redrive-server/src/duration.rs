//! Durations as people write them: `100ms`, `5s`, `1h30m`, `7d`.

use std::time::Duration;

/// Longer than this is a slip, and would overflow a date.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Reads one or more numbers with units.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = None::<Duration>;
    while !rest.is_empty() {
        let (number, after) = leading(rest, |letter| letter.is_ascii_digit());
        let (unit, after) = leading(after.trim_start(), |letter| letter.is_ascii_alphabetic());
        let amount = number.parse::<u64>().ok()?.checked_mul(milliseconds(unit)?)?;
        total = Some(total.unwrap_or_default().checked_add(Duration::from_millis(amount))?);
        rest = after.trim_start();
    }
    total.filter(|total| *total <= LONGEST)
}

/// The shortest text that [`parse`] reads back.
#[must_use]
pub fn show(duration: Duration) -> String {
    let total = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().find(|(_, size)| total.is_multiple_of(*size)).unwrap_or(&("ms", 1));
    format!("{}{}", total / unit.1, unit.0)
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn milliseconds(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size)
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !belongs(letter)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(parse("72h"), Some(Duration::from_secs(72 * 3600)));
        assert_eq!(parse("7d"), Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse(" 1h 30 m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse("0s"), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "5 sekonds", "-5s", "1.5s", "5s5", "99999999999999999999s", "9999d", "5M"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn shown_durations_read_back() {
        for text in ["1ms", "1500ms", "20s", "5m", "36h", "7d"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }
}
