//! Why a handler or a channel cannot be set up. All of these are found at the start.

/// A setting that cannot work. Secrets are not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An address that is none.
    #[error("the address of the {what} cannot be used: expected {expected}")]
    Address {
        /// Whose address.
        what: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A mail address that is none.
    #[error("{address:?} is no mail address: expected one such as ops@example.com")]
    MailAddress {
        /// What was found.
        address: String,
    },
    /// A header that HTTP does not allow.
    #[error(
        "header {name:?} cannot be sent: expected a name of letters, digits and dashes, and a value of one line"
    )]
    Header {
        /// Its name.
        name: String,
    },
    /// A header that the handler itself sends.
    #[error("header {name:?} is sent by redrive itself: remove it from the configured headers")]
    ReservedHeader {
        /// Its name.
        name: String,
    },
    /// A command without a program.
    #[error("the command is empty: expected a program and its arguments, such as [\"./audit.sh\"]")]
    EmptyCommand,
    /// The HTTP client cannot be built.
    #[error("no HTTP client can be set up: {0}; are the system's root certificates installed?")]
    Client(#[source] reqwest::Error),
    /// The Kafka producer cannot be built.
    #[cfg(feature = "kafka")]
    #[error("no Kafka producer can be set up: {0}")]
    Kafka(#[from] redrive_kafka::RefusedSettings),
}
