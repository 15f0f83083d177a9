//! Classification: the code a system gave in, the [`Class`] of the failure out.
//!
//! One small table per system. Two questions decide a row:
//!
//! 1. Could the same event succeed later, untouched? Then it is transient.
//! 2. Is it the event's fault at all? A refused password, a missing bucket or a read-only replica
//!    fails *every* event alike. To call that permanent would dead-letter healthy events (or lose
//!    them: Vector #13455 dropped what S3 answered with 403), so it counts as transient and the
//!    events are kept until a person has mended the configuration.
//!
//! What no table knows is permanent where the system names data errors (the founding rule for
//! SQLSTATE: anything else is bisected), and unclassified where nothing can be concluded.

pub mod blame;
pub mod exit;
pub mod http;
pub mod io;
pub mod kafka;
pub mod mysql;
pub mod s3;
pub mod sqlite;
pub mod sqlstate;

use crate::failure::{Class, Code};

/// The class of a failure with this code, as far as the code alone tells.
///
/// A code that stands for success (`http:200`, `exit:0`) contradicts the failure it came with, so it
/// says nothing: the failure stays unclassified.
#[must_use]
pub fn classify(code: &Code) -> Class {
    match code {
        Code::SqlState(state) => sqlstate::classify(state),
        Code::MySql(number) => mysql::classify(*number),
        Code::Sqlite(result) => sqlite::classify(*result),
        Code::Http(status) => http::classify(*status, None).unwrap_or(Class::Unclassified),
        Code::Io(name) => io::classify_name(name),
        Code::S3(name) => s3::classify(name, None),
        Code::Kafka(name) => kafka::classify(name),
        Code::Exit(status) => exit::classify(Some(*status)).unwrap_or(Class::Unclassified),
        Code::Other(_) => Class::Unclassified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_all(expected: Class, codes: &[&str]) {
        for code in codes {
            assert_eq!(classify(&code.parse().unwrap()), expected, "{code}");
        }
    }

    #[test]
    fn what_an_outage_looks_like_is_transient() {
        assert_all(
            Class::Transient,
            &[
                // The founding list of spec 4, exactly.
                "sqlstate:08000",
                "sqlstate:08006",
                "sqlstate:40P01",
                "sqlstate:55P03",
                "sqlstate:57014",
                "sqlstate:53300",
                "sqlstate:57P01",
                "sqlstate:57P03",
                "mysql:1205",
                "mysql:1213",
                "mysql:2002",
                "mysql:2006",
                "mysql:2013",
                "mysql:1040",
                "sqlite:5",
                "sqlite:517",
                "sqlite:6",
                "sqlite:13",
                "http:408",
                "http:425",
                "http:429",
                "http:500",
                "http:503",
                "io:TimedOut",
                "io:ConnectionRefused",
                "io:StorageFull",
                "s3:SlowDown",
                "s3:InternalError",
                "s3:AccessDenied",
                "s3:NoSuchBucket",
                "kafka:NOT_LEADER_OR_FOLLOWER",
                "kafka:REQUEST_TIMED_OUT",
                "exit:75",
            ],
        );
    }

    #[test]
    fn what_the_event_itself_causes_is_permanent() {
        assert_all(
            Class::Permanent,
            &[
                "sqlstate:23505",
                "sqlstate:23502",
                "sqlstate:22001",
                "sqlstate:42P01",
                "sqlstate:XX000",
                "mysql:1062",
                "mysql:1048",
                "mysql:1406",
                "sqlite:2067",
                "sqlite:19",
                "sqlite:18",
                "http:400",
                "http:404",
                "http:410",
                "http:422",
                "io:InvalidInput",
                "s3:EntityTooLarge",
                "kafka:MESSAGE_TOO_LARGE",
                "exit:1",
            ],
        );
    }

    #[test]
    fn what_cannot_be_read_is_malformed() {
        assert_all(Class::Malformed, &["sqlstate:22P02", "mysql:3140", "io:InvalidData"]);
    }

    #[test]
    fn a_code_that_tells_nothing_leaves_the_failure_unclassified() {
        assert_all(
            Class::Unclassified,
            &["other:E_FOO", "http:200", "exit:0", "exit:-9", "io:Nonsense", "s3:New"],
        );
    }
}
