//! SQLite result codes. The low byte of an extended code is its primary code.

use crate::failure::Class;

/// The class of a failure with this (extended) result code; anything unknown is permanent.
#[must_use]
pub const fn classify(result: i32) -> Class {
    match result & 0xff {
        ABORT | BUSY | LOCKED | INTERRUPT | PROTOCOL | SCHEMA => Class::Transient,
        NOMEM | IOERR | FULL | CANTOPEN | NOLFS => Class::Transient,
        // The file's trouble, not the record's: no permission, read-only, damaged. Every record fails
        // alike until a person mends the file, so none of them is poison.
        PERM | READONLY | CORRUPT | NOTADB => Class::Transient,
        // CONSTRAINT, MISMATCH, TOOBIG, ERROR (no such column), RANGE, AUTH, MISUSE …
        _ => Class::Permanent,
    }
}

const PERM: i32 = 3;
const ABORT: i32 = 4;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
/// The locking protocol of WAL gave up, after many tries.
const PROTOCOL: i32 = 15;
/// The schema changed under a prepared statement.
const SCHEMA: i32 = 17;
/// The file has reached the size that the host can address.
const NOLFS: i32 = 22;
const NOTADB: i32 = 26;

#[cfg(test)]
mod tests {
    use super::*;

    /// BUSY_SNAPSHOT (517) is jentic-one #529: a read that turns into a write meets a newer snapshot.
    #[test]
    fn locks_are_transient_in_their_extended_forms_too() {
        for result in [5, 261, 517, 773, 6, 262, 518, 15, 17, 9, 516] {
            assert_eq!(classify(result), Class::Transient, "{result}");
        }
    }

    #[test]
    fn a_sick_disk_or_file_is_not_the_records_fault() {
        for result in [7, 8, 264, 10, 266, 778, 13, 14, 11, 26] {
            assert_eq!(classify(result), Class::Transient, "{result}");
        }
    }

    #[test]
    fn constraints_and_values_that_do_not_fit_are_permanent() {
        for result in [1, 18, 19, 275, 787, 1299, 1555, 2067, 3091, 20, 25, 0, -1] {
            assert_eq!(classify(result), Class::Permanent, "{result}");
        }
    }
}
