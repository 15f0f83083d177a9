//! Blame: does a database's code speak of the row, or of everything that would be written?
//!
//! A missing table, a renamed column or a lost right fails every row alike, as an outage does, and yet
//! no table of classes calls it transient. Whoever isolates poison asks here before it believes that
//! *all* rows of a batch are bad.

use crate::failure::Code;

/// Whether this code can only come from the row itself: too long, NULL, duplicate, out of range,
/// refused by a check or by a trigger.
///
/// `false` is no acquittal: row-level security reports a single row with the code of a lost right.
#[must_use]
pub fn blames_record(code: &Code) -> bool {
    match code {
        Code::SqlState(state) => sqlstate(state),
        Code::MySql(number) => mysql(*number),
        Code::Sqlite(result) => matches!(result & 0xff, TOOBIG | CONSTRAINT | MISMATCH),
        _ => false,
    }
}

fn sqlstate(state: &str) -> bool {
    match state.get(..2) {
        // Data exceptions, constraints, WITH CHECK OPTION, RAISE in a trigger.
        Some("22" | "23" | "44" | "P0") => true,
        // A value too large for its index.
        _ => state == "54000",
    }
}

const fn mysql(number: u16) -> bool {
    matches!(
        number,
        // NULL in a column that takes none; a duplicate; no default for a column (also: NULL by a trigger).
        1048 | 1062 | 1364 | 1586
        // Out of range, cut, wrong value, too long.
        | 1264 | 1265 | 1292 | 1366 | 1406
        // Foreign keys.
        | 1216 | 1452
        // SIGNAL in a trigger.
        | 1644
        // Bad text: JSON, character set.
        | 1300 | 3140 | 3854 | 3988 | 4035
            ..=4040
        // CHECK constraints, of MySQL and of MariaDB.
        | 3819 | 4025
        // A wrong number or date, in MySQL 8; no partition for the value.
        | 1411 | 1526 | 1690
    )
}

const TOOBIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;

    #[test]
    fn rows_are_blamed_for_data_and_not_for_tables_or_rights() {
        for code in
            ["sqlstate:22001", "sqlstate:23502", "mysql:1406", "mysql:1048", "sqlite:1299", "sqlite:18"]
        {
            assert!(blames_record(&code.parse().unwrap()), "{code}");
        }
        for code in ["sqlstate:42P01", "sqlstate:42501", "mysql:1146", "mysql:1054", "sqlite:1", "http:400"] {
            assert!(!blames_record(&code.parse().unwrap()), "{code}");
        }
    }

    #[test]
    fn what_may_pass_is_never_blamed_on_a_row() {
        let states = (0..100).map(|class| Code::SqlState(format!("{class:02}000")));
        let codes = (0..5000).map(Code::MySql).chain((0..10_000).map(Code::Sqlite)).chain(states);
        for code in codes.filter(|code| classify(code).is_retryable()) {
            assert!(!blames_record(&code), "{code}");
        }
    }
}
