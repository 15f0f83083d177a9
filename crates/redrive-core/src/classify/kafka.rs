//! Kafka errors, by protocol name (`NOT_LEADER_OR_FOLLOWER`) and by the names of librdkafka, which
//! spells some differently and writes its own with a leading underscore (`_TRANSPORT`).

use crate::failure::Class;

/// The class of a failure with this Kafka error name; anything unknown is permanent for *this* broker
/// operation, so that the caller takes the next rung of its ladder instead of trying for ever.
///
/// That holds for refused authorisation too. It is configuration, but a record that cannot be published
/// must go down the ladder (local disk, alert) rather than loop against the same refusal, as
/// spring-kafka #1918 did. The drainer brings it back once the configuration is mended.
#[must_use]
pub fn classify(name: &str) -> Class {
    if is_connection(name) || is_leadership(name) || is_coordination(name) || is_load(name) {
        return Class::Transient;
    }
    match name {
        // What was fetched is not a record.
        "_BAD_MSG" | "_BAD_COMPRESSION" => Class::Malformed,
        // INVALID_RECORD (the broker's own validation, such as a compacted topic's key), MESSAGE_TOO_LARGE,
        // RECORD_LIST_TOO_LARGE, INVALID_TOPIC_EXCEPTION, UNSUPPORTED_VERSION, TOPIC_AUTHORIZATION_FAILED,
        // SASL_AUTHENTICATION_FAILED, _UNKNOWN_PARTITION …
        _ => Class::Permanent,
    }
}

/// No way to a broker.
fn is_connection(name: &str) -> bool {
    matches!(
        name,
        "NETWORK_EXCEPTION"
            | "BROKER_NOT_AVAILABLE"
            | "REQUEST_TIMED_OUT"
            | "_TRANSPORT"
            | "_ALL_BROKERS_DOWN"
            | "_RESOLVE"
            | "_SSL"
            | "_TIMED_OUT"
            | "_TIMED_OUT_QUEUE"
            | "_MSG_TIMED_OUT"
            | "_WAIT_COORD"
    )
}

/// The partition is moving, or the metadata is old.
fn is_leadership(name: &str) -> bool {
    matches!(
        name,
        // A topic that was just created is unknown to some brokers for a while.
        "UNKNOWN_TOPIC_OR_PARTITION"
            | "UNKNOWN_TOPIC_OR_PART"
            | "UNKNOWN_TOPIC_ID"
            | "INCONSISTENT_TOPIC_ID"
            | "LEADER_NOT_AVAILABLE"
            | "NOT_LEADER_OR_FOLLOWER"
            | "NOT_LEADER_FOR_PARTITION"
            | "REPLICA_NOT_AVAILABLE"
            | "PREFERRED_LEADER_NOT_AVAILABLE"
            | "ELIGIBLE_LEADERS_NOT_AVAILABLE"
            | "FENCED_LEADER_EPOCH"
            | "UNKNOWN_LEADER_EPOCH"
            | "OFFSET_NOT_AVAILABLE"
            | "LISTENER_NOT_FOUND"
            | "NOT_CONTROLLER"
            | "ELECTION_NOT_NEEDED"
            | "BROKER_ID_NOT_REGISTERED"
    )
}

/// The group or the transaction is between two states.
fn is_coordination(name: &str) -> bool {
    matches!(
        name,
        "COORDINATOR_LOAD_IN_PROGRESS"
            | "GROUP_LOAD_IN_PROGRESS"
            | "COORDINATOR_NOT_AVAILABLE"
            | "GROUP_COORDINATOR_NOT_AVAILABLE"
            | "NOT_COORDINATOR"
            | "NOT_COORDINATOR_FOR_GROUP"
            | "CONCURRENT_TRANSACTIONS"
            | "UNSTABLE_OFFSET_COMMIT"
            | "REBALANCE_IN_PROGRESS"
            | "ILLEGAL_GENERATION"
            | "UNKNOWN_MEMBER_ID"
            | "MEMBER_ID_REQUIRED"
            | "FETCH_SESSION_ID_NOT_FOUND"
            | "INVALID_FETCH_SESSION_EPOCH"
            | "FETCH_SESSION_TOPIC_ID_ERROR"
    )
}

/// Too few replicas, too much work, a disk that fails, a message damaged on the way.
fn is_load(name: &str) -> bool {
    matches!(
        name,
        "NOT_ENOUGH_REPLICAS"
            | "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
            | "KAFKA_STORAGE_ERROR"
            | "THROTTLING_QUOTA_EXCEEDED"
            | "CORRUPT_MESSAGE"
            | "INVALID_MSG"
            | "_QUEUE_FULL"
            | "_RETRY"
            | "_INTR"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retriable_errors_of_the_protocol_are_transient_in_both_spellings() {
        for name in [
            "NOT_LEADER_OR_FOLLOWER",
            "NOT_LEADER_FOR_PARTITION",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_OR_PART",
            "REQUEST_TIMED_OUT",
            "NOT_ENOUGH_REPLICAS",
            "CORRUPT_MESSAGE",
            "INVALID_MSG",
            "COORDINATOR_NOT_AVAILABLE",
            "KAFKA_STORAGE_ERROR",
            "_TRANSPORT",
            "_MSG_TIMED_OUT",
            "_QUEUE_FULL",
        ] {
            assert_eq!(classify(name), Class::Transient, "{name}");
        }
    }

    #[test]
    fn a_record_that_never_fits_goes_down_the_ladder() {
        for name in [
            "MESSAGE_TOO_LARGE",
            "MSG_SIZE_TOO_LARGE",
            "RECORD_LIST_TOO_LARGE",
            "INVALID_RECORD",
            "UNSUPPORTED_VERSION",
        ] {
            assert_eq!(classify(name), Class::Permanent, "{name}");
        }
    }

    /// spring-kafka #1701: a dead-letter topic with fewer partitions than its source.
    #[test]
    fn a_partition_that_does_not_exist_goes_down_the_ladder() {
        assert_eq!(classify("_UNKNOWN_PARTITION"), Class::Permanent);
    }

    /// spring-kafka #1918: publishing that is refused every time looped for ever.
    #[test]
    fn refused_authorisation_goes_down_the_ladder_instead_of_looping() {
        for name in [
            "TOPIC_AUTHORIZATION_FAILED",
            "CLUSTER_AUTHORIZATION_FAILED",
            "SASL_AUTHENTICATION_FAILED",
            "_AUTHENTICATION",
        ] {
            assert_eq!(classify(name), Class::Permanent, "{name}");
        }
    }
}
