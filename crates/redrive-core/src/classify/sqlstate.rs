//! Postgres SQLSTATEs: five characters, of which the first two name the class.

use crate::failure::Class;

/// The class of a failure with this SQLSTATE; anything unknown is permanent, and so bisected.
#[must_use]
pub fn classify(state: &str) -> Class {
    match state {
        // The transaction's outcome, not the wait for it: the constraint was checked at commit.
        "40002" => Class::Permanent,
        // Read-only: we still talk to the old primary of a failover.
        "25006" => Class::Transient,
        // The server ended an idle or a long transaction: 25P03, and 25P04 since Postgres 17.
        "25P03" | "25P04" => Class::Transient,
        // A pooler gave our prepared statement's connection to somebody else.
        "26000" => Class::Transient,
        // Lock not available, object in use.
        "55P03" | "55006" => Class::Transient,
        // Snapshot too old.
        "72000" => Class::Transient,
        // A foreign server cannot be reached.
        "HV00N" => Class::Transient,
        // The text of a value is not of its type (bad number, bad date, bad JSON, NUL or another
        // encoding): no change to the table helps, only a changed event. The rest of class 22 is
        // readable but does not fit (too long, out of range).
        "22007" | "22021" | "22032" | "22P02" | "22P03" | "22P05" => Class::Malformed,
        _ => classify_prefix(state),
    }
}

fn classify_prefix(state: &str) -> Class {
    match state.get(..2) {
        // Connection exceptions.
        Some("08") => Class::Transient,
        // Transaction rollback: serialisation failures, deadlocks, "completion unknown".
        Some("40") => Class::Transient,
        // Insufficient resources: a full disk (53100) fails every record alike, until it is mended.
        Some("53") => Class::Transient,
        // Operator intervention: cancelled, shutting down, starting up.
        Some("57") => Class::Transient,
        // System errors outside Postgres, such as I/O.
        Some("58") => Class::Transient,
        // No entry: wrong password (28), no such database (3D). Configuration, not data.
        Some("28" | "3D") => Class::Transient,
        // Also 42501, insufficient privilege: row-level security reports it for single rows.
        _ => Class::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_connections_locks_and_load_are_transient() {
        for state in [
            "08000", "08001", "08003", "08004", "08006", "08007", "08P01", "40001", "40003", "40P01",
            "53000", "53100", "53200", "53300", "55006", "55P03", "57000", "57014", "57P01", "57P02",
            "57P03", "57P04", "57P05", "58000", "58030", "25006", "25P03",
        ] {
            assert_eq!(classify(state), Class::Transient, "{state}");
        }
    }

    #[test]
    fn a_refused_login_is_not_the_records_fault() {
        for state in ["28000", "28P01", "3D000"] {
            assert_eq!(classify(state), Class::Transient, "{state}");
        }
    }

    #[test]
    fn constraints_schema_mismatches_and_unknown_states_are_permanent() {
        for state in [
            "22001", "22003", "22012", "23502", "23503", "23505", "23514", "40002", "42501", "42703",
            "42P01", "42804", "54000", "P0001", "XX000", "99999",
        ] {
            assert_eq!(classify(state), Class::Permanent, "{state}");
        }
    }

    #[test]
    fn values_that_are_not_of_their_type_are_malformed() {
        for state in ["22P02", "22021", "22P05", "22032", "22007"] {
            assert_eq!(classify(state), Class::Malformed, "{state}");
        }
    }

    #[test]
    fn a_text_that_is_no_sqlstate_is_permanent() {
        for state in ["", "0", "ä", "aä", "x"] {
            assert_eq!(classify(state), Class::Permanent, "{state:?}");
        }
    }
}
