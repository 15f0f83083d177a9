//! The name of a Kafka error, as librdkafka writes it and the classification knows it.
//!
//! The binding has names of its own (`BrokerTransportFailure`) and no safe way to the original ones.

use rdkafka::error::RDKafkaErrorCode;

/// The name, such as `NOT_LEADER_FOR_PARTITION` or, for an error of the client itself, `_TRANSPORT`.
#[must_use]
pub fn name(code: RDKafkaErrorCode) -> String {
    use RDKafkaErrorCode as E;
    let known = match code {
        E::BrokerTransportFailure => "_TRANSPORT",
        E::MessageTimedOut => "_MSG_TIMED_OUT",
        E::OperationTimedOut => "_TIMED_OUT",
        E::WaitingForCoordinator => "_WAIT_COORD",
        E::BadMessage => "_BAD_MSG",
        E::InvalidArgument => "_INVALID_ARG",
        E::Interrupted => "_INTR",
        E::SSL => "_SSL",
        E::InvalidMessage => "INVALID_MSG",
        E::InvalidMessageSize => "INVALID_MSG_SIZE",
        E::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PART",
        E::MessageSizeTooLarge => "MSG_SIZE_TOO_LARGE",
        E::MessageBatchTooLarge => "RECORD_LIST_TOO_LARGE",
        E::InvalidTopic => "TOPIC_EXCEPTION",
        E::UnsupportedSASLMechanism => "UNSUPPORTED_SASL_MECHANISM",
        E::IllegalSASLState => "ILLEGAL_SASL_STATE",
        other => return spelled_out(other),
    };
    known.to_owned()
}

/// `NotEnoughReplicas` becomes `NOT_ENOUGH_REPLICAS`; the client's own errors have negative numbers
/// below -1, and an underscore in front.
fn spelled_out(code: RDKafkaErrorCode) -> String {
    let mut name = String::from(if (code as i32) < -1 { "_" } else { "" });
    for (index, char) in format!("{code:?}").char_indices() {
        if index > 0 && char.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(char.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_librdkafka() {
        use RDKafkaErrorCode as E;
        for (code, expected) in [
            (E::BrokerTransportFailure, "_TRANSPORT"),
            (E::QueueFull, "_QUEUE_FULL"),
            (E::AllBrokersDown, "_ALL_BROKERS_DOWN"),
            (E::UnknownPartition, "_UNKNOWN_PARTITION"),
            (E::Unknown, "UNKNOWN"),
            (E::NotLeaderForPartition, "NOT_LEADER_FOR_PARTITION"),
            (E::NotEnoughReplicasAfterAppend, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
            (E::TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED"),
        ] {
            assert_eq!(name(code), expected);
        }
    }
}
