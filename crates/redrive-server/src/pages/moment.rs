//! A point in time as a page shows it: how long ago, and exactly when.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A point in time, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// For machines.
    pub(super) iso: String,
    /// Exactly, to the second.
    pub(super) full: String,
    /// From now.
    pub(super) ago: String,
}

impl Moment {
    pub(super) fn new(at: Timestamp, now: Timestamp) -> Self {
        let civil = TimeZone::UTC.to_datetime(at);
        let full = civil.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        Self { iso: at.to_string(), full, ago: ago(now.duration_since(at).as_secs()) }
    }

    /// The time of day, to the second.
    pub(super) fn clock(at: Timestamp) -> String {
        TimeZone::UTC.to_datetime(at).strftime("%H:%M:%S UTC").to_string()
    }
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..=-5 => "in the future".to_owned(),
        -4..=4 => "just now".to_owned(),
        _ => format!("{} ago", span(seconds.unsigned_abs())),
    }
}

/// A length of time, in its largest unit.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_says_how_long_ago_and_exactly_when() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let ago = |text: &str| Moment::new(text.parse().unwrap(), now).ago;
        assert_eq!(ago("2026-11-16T11:59:58Z"), "just now");
        assert_eq!(ago("2026-11-16T11:59:30Z"), "30 s ago");
        assert_eq!(ago("2026-11-16T11:00:01Z"), "59 min ago");
        assert_eq!(ago("2026-11-15T10:00:00Z"), "26 h ago");
        assert_eq!(ago("2026-10-16T12:00:00Z"), "31 d ago");
        assert_eq!(ago("2026-11-16T13:00:00Z"), "in the future");
        assert_eq!(Moment::new(now, now).full, "2026-11-16 12:00:00 UTC");
    }
}
