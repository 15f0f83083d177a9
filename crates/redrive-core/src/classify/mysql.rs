//! MySQL and MariaDB error numbers: the server's (1000 and up, 3000 and up) and the client's (2000 and up).

use crate::failure::Class;

/// The class of a failure with this error number; anything unknown is permanent, and so bisected.
#[must_use]
pub fn classify(number: u16) -> Class {
    if is_connection(number) || is_contention(number) || is_server_trouble(number) || is_configuration(number)
    {
        return Class::Transient;
    }
    match number {
        // Wrong date or number text, invalid JSON (MySQL, then MariaDB). Not 1366, which a column of a
        // smaller character set also reports for text that is in order.
        1292 | 3140 | 4035..=4040 => Class::Malformed,
        // Among the rest 1153, packet too large: said of the *batch*, and halving it is the cure.
        _ => Class::Permanent,
    }
}

/// The way to the server is broken, or the server is closing it.
const fn is_connection(number: u16) -> bool {
    matches!(
        number,
        // Too many connections, in all and for this user; host blocked; limits per hour.
        1040 | 1203 | 1129 | 1226
        // Bad host or handshake.
        | 1042 | 1043
        // Not yet ready: Galera reports it for a node that is still joining.
        | 1047
        // Shutting down.
        | 1053 | 1077..=1080
        // Aborted connections, packets torn or late. 1153 is missing on purpose, see above.
        | 1152 | 1154..=1161 | 1184
        // Connection or session killed, client idle too long.
        | 1927 | 3169 | 4031
        // The server is not available.
        | 3168
        // The client's own: cannot connect, gone away, lost, TLS.
        | 2002..=2013 | 2026 | 2055
    )
}

/// Somebody else was in the way, or it took too long.
const fn is_contention(number: u16) -> bool {
    matches!(
        number,
        // Row changed since last read: MariaDB's snapshot isolation.
        1020
        // Lock wait time-out, lock table full, deadlock.
        | 1205 | 1206 | 1213 | 3058
        // Under a global read lock.
        | 1223
        // Interrupted, and statement time-outs of MariaDB and MySQL.
        | 1317 | 1969 | 3024
        // The table changed under the transaction; the statement must be prepared again.
        | 1412 | 1615
        // Too many transactions, lock aborted, NOWAIT.
        | 1637 | 1689 | 3572
        // Group replication rolled it back.
        | 3100 | 3101
    )
}

/// The server itself is ill: memory, disk, or its role in a failover.
const fn is_server_trouble(number: u16) -> bool {
    matches!(
        number,
        // Disk full, table full.
        1021 | 1114
        // Reading or writing a file failed.
        | 1024 | 1026
        // Out of memory, of sort memory, of resources.
        | 1037 | 1038 | 1041
        // The commit itself failed.
        | 1180
        // Read-only: an old primary, or one that is not yet promoted.
        | 1290 | 1792 | 1836
        // "Temporary error" of a storage engine.
        | 1297
    )
}

/// Refused at the door. Not the record's fault: MySQL has no row-level security that could be.
const fn is_configuration(number: u16) -> bool {
    matches!(
        number,
        // Access to the database, wrong password, unknown database, host not allowed, plugin login.
        1044 | 1045 | 1049 | 1130 | 1698
        // No privilege on the table or column.
        | 1142 | 1143
        // TLS is required.
        | 3159
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_locks_and_load_are_transient() {
        for number in (2002..=2013).chain([
            1020, 1040, 1047, 1053, 1077, 1080, 1129, 1152, 1158, 1161, 1203, 1205, 1213, 1226, 1290, 1317,
            1836, 1927, 3024, 3572,
        ]) {
            assert_eq!(classify(number), Class::Transient, "{number}");
        }
    }

    #[test]
    fn a_refused_login_is_not_the_records_fault() {
        for number in [1044, 1045, 1049, 1142] {
            assert_eq!(classify(number), Class::Transient, "{number}");
        }
    }

    #[test]
    fn constraints_and_values_that_do_not_fit_are_permanent() {
        for number in [1048, 1054, 1062, 1146, 1264, 1366, 1406, 1451, 1452, 3819, 4025, 0, u16::MAX] {
            assert_eq!(classify(number), Class::Permanent, "{number}");
        }
    }

    #[test]
    fn a_batch_too_large_for_one_packet_is_split_not_repeated() {
        assert_eq!(classify(1153), Class::Permanent);
    }

    #[test]
    fn values_that_are_not_of_their_type_are_malformed() {
        for number in [1292, 3140, 4038] {
            assert_eq!(classify(number), Class::Malformed, "{number}");
        }
    }
}
