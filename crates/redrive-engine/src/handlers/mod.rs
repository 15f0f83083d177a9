//! Handlers that need no Rust: an HTTP service, a program, a Kafka topic.
//!
//! Each implements [`redrive_core::handler::Handler`]. They tell the receiver the same things, in
//! headers or environment variables: see [`Envelope`]. They judge failures alike, by one question: is it
//! the event, or is it the way to the receiver?
//!
//! | what happened | class | kind |
//! |---|---|---|
//! | name unknown, connection refused or reset, TLS refused, command cannot be started, broker away | transient: an outage that the breaker may see | `Connection`, `CommandNotStarted`, `Kafka` |
//! | connected, but no answer in time | unclassified: retried to the limit, no sign of an outage, because one slow event must not stop the others | `Timeout` |
//! | the receiver answered | by its status, exit code or error | `HttpStatus`, `CommandFailed`, `Kafka` |
//! | the command was killed by a signal | unclassified | `CommandKilled` |
//!
//! A time-out of the worker loop looks the same as one found here: unclassified, kind `Timeout`.

pub(crate) mod client;
mod command;
mod envelope;
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod process;
mod secret;
mod setup;
pub mod signature;
mod tail;

pub use command::{CommandHandler, CommandOptions};
pub use envelope::Envelope;
pub use http::{HttpHandler, HttpOptions, is_reserved_header};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaHandler, KafkaOptions};
pub use secret::Secret;
pub use setup::SetupError;

use std::time::Duration;

use redrive_core::failure::Failure;

/// The most of an answer that becomes part of a failure's message, in bytes.
pub(crate) const MAX_EXCERPT: usize = 1024;

/// The receiver was reached but did not finish in time.
pub(crate) fn timed_out(what: &str, after: Duration) -> Failure {
    Failure::unclassified("Timeout", format!("{what} did not finish within {after:?}"))
}
