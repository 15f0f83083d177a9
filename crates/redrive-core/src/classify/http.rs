//! HTTP: the status of an answer, and its `Retry-After`.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::failure::Class;

/// The longest `Retry-After` that is obeyed: a typing error must not put an event to sleep for years.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The class of an answer with this status, or none when it means success.
///
/// `retry_after` makes a retryable answer throttled; see [`retry_after`] for reading the header.
#[must_use]
pub fn classify(status: u16, retry_after: Option<Duration>) -> Option<Class> {
    match status {
        200..=299 => None,
        408 | 425 | 429 | 500..=599 => Some(transient(retry_after)),
        // 410 and the other refusals. 1xx and 3xx too: the client has followed the redirects it may
        // follow, and nobody received the event; repeating it leads to the same place.
        100..=499 => Some(Class::Permanent),
        // Not a status at all, so it proves nothing about the event.
        _ => Some(Class::Unclassified),
    }
}

/// How long a `Retry-After` header asks us to wait, from `now`, or none when it cannot be read.
///
/// It is a number of seconds or an HTTP date. A date in the past means now; a wait is cut at
/// [`LONGEST_RETRY_AFTER`].
#[must_use]
pub fn retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    let wait = seconds(header).or_else(|| until(header, now))?;
    Some(wait.min(LONGEST_RETRY_AFTER))
}

fn transient(retry_after: Option<Duration>) -> Class {
    match retry_after {
        Some(retry_after) => Class::Throttled { retry_after },
        None => Class::Transient,
    }
}

fn seconds(header: &str) -> Option<Duration> {
    let digits = !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit());
    // More seconds than fit are still a wait, the longest one.
    digits.then(|| header.parse().map_or(Duration::MAX, Duration::from_secs))
}

/// An IMF-fixdate is an RFC 2822 date with the zone `GMT`. Servers get the weekday wrong at times.
fn until(header: &str, now: Timestamp) -> Option<Duration> {
    let date = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    fn now() -> Timestamp {
        "2025-10-21T07:28:00Z".parse().unwrap()
    }

    #[test]
    fn success_is_no_failure() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(classify(status, None), None, "{status}");
        }
    }

    #[test]
    fn load_and_server_errors_are_transient() {
        for status in [408, 425, 429, 500, 501, 502, 503, 504, 507, 599] {
            assert_eq!(classify(status, None), Some(Class::Transient), "{status}");
        }
    }

    #[test]
    fn a_retryable_answer_with_a_time_is_throttled_and_a_refusal_is_not() {
        let retry_after = Duration::from_secs(7);
        for status in [429, 503, 500] {
            assert_eq!(
                classify(status, Some(retry_after)),
                Some(Class::Throttled { retry_after }),
                "{status}"
            );
        }
        assert_eq!(classify(410, Some(retry_after)), Some(Class::Permanent));
    }

    #[test]
    fn refusals_and_unfollowed_redirects_are_permanent() {
        for status in [100, 101, 301, 302, 304, 307, 400, 401, 403, 404, 409, 410, 413, 422, 451] {
            assert_eq!(classify(status, None), Some(Class::Permanent), "{status}");
        }
    }

    #[test]
    fn a_number_that_is_no_status_proves_nothing() {
        for status in [0, 99, 600, 999] {
            assert_eq!(classify(status, None), Some(Class::Unclassified), "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        for (header, seconds) in [
            ("120", 120),
            (" 0 ", 0),
            ("Tue, 21 Oct 2025 07:29:30 GMT", 90),
            // The weekday is wrong, the date is clear.
            ("Mon, 21 Oct 2025 07:29:30 GMT", 90),
            ("Tue, 21 Oct 2025 07:27:59 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ] {
            assert_eq!(retry_after(header, now()), Some(Duration::from_secs(seconds)), "{header}");
        }
    }

    #[test]
    fn retry_after_never_puts_an_event_to_sleep_for_more_than_a_day() {
        for header in ["86401", "99999999999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT"] {
            assert_eq!(retry_after(header, now()), Some(LONGEST_RETRY_AFTER), "{header}");
        }
    }

    #[test]
    fn an_unreadable_retry_after_is_none() {
        for header in ["", "soon", "-5", "+5", "1.5", "2025-10-21T07:28:00Z", "12s"] {
            assert_eq!(retry_after(header, now()), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(header: String, second in any::<i32>()) {
            let now = Timestamp::from_second(second.into()).unwrap();
            prop_assert!(retry_after(&header, now).is_none_or(|wait| wait <= LONGEST_RETRY_AFTER));
        }
    }
}
