//! The errors of stores and of the console as problems.

use axum::http::StatusCode;
use redrive_core::dead_letter::{Refusal, Unavailable};
use redrive_engine::console::ConsoleError;
use redrive_store::Error;

use crate::Problem;

/// What the caller is told when the store of this pipeline did not do it.
pub(super) fn trouble(pipeline: &str, error: &Error) -> Problem {
    match error {
        Error::Refused { item, source } => Problem::field(source.field, &source.why).of_item(*item),
        Error::OtherRequest(_) => Problem::field(
            "Idempotency-Key",
            "is that of a request for something else: use a new key for each",
        ),
        Error::Busy(_) => Problem::unavailable(
            "Requests with this Idempotency-Key come and go right now. Nothing was done: send it again in a moment.",
        ),
        Error::Unavailable { .. } => {
            tracing::warn!(pipeline, %error, "a request failed: the store is not available");
            Problem::unavailable(format!(
                "The store of `{pipeline}` does not answer. Send it again; if the connection broke at the very \
                 end, it may have been done already."
            ))
        }
        Error::Misaddressed { .. } => {
            tracing::error!(pipeline, %error, "a request failed: no connection can be made to the store");
            Problem::unavailable(format!(
                "No connection can be made to the store of `{pipeline}`: {}. Nothing was done; the log of the server \
                 says what to correct.",
                error.reason()
            ))
        }
        Error::Rejected { .. } if error.is_about_the_data() => {
            tracing::warn!(pipeline, %error, "a request failed: the table refused its data");
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("The table of `{pipeline}` refuses it: {error}. Nothing was stored."),
            )
        }
        Error::Rejected { .. } | Error::Setting(_) | Error::Unsuitable { .. } => {
            tracing::error!(pipeline, %error, "a request failed: the store refused it");
            let detail = format!("The store of `{pipeline}` refused it; the log of the server says why.");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    }
}

impl From<ConsoleError> for Problem {
    fn from(error: ConsoleError) -> Self {
        let status = match &error {
            ConsoleError::NoPipeline { .. } | ConsoleError::NoLetter(_) | ConsoleError::NoOperation(_) => {
                StatusCode::NOT_FOUND
            }
            ConsoleError::Refused(Refusal::Unknown(_)) => StatusCode::NOT_FOUND,
            ConsoleError::Request(_) | ConsoleError::KeyInUse(_) | ConsoleError::SourceInUse(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ConsoleError::Refused(Refusal::NotWaiting(_) | Refusal::Impossible { .. })
            | ConsoleError::WrongState { .. }
            | ConsoleError::NoWorkers(_) => StatusCode::CONFLICT,
            ConsoleError::Unavailable(unavailable) => return unreachable(unavailable),
            ConsoleError::Store(error) => return ledger(error),
        };
        Self::new(status, sentence(&error.to_string()))
    }
}

/// The letters of a pipeline cannot be asked.
fn unreachable(error: &Unavailable) -> Problem {
    let pipeline = &error.pipeline;
    match error.source.downcast_ref::<Error>() {
        Some(error) => trouble(pipeline, error),
        None => {
            tracing::warn!(pipeline, %error, "a request failed: the letters cannot be reached");
            Problem::unavailable(format!(
                "The dead letters of `{pipeline}` cannot be reached; the log of the server says why. Send it again."
            ))
        }
    }
}

/// redrive's own tables cannot be asked, or refuse a value.
fn ledger(error: &Error) -> Problem {
    match error {
        Error::Refused { source, .. } => Problem::field(source.field, &source.why),
        error => trouble("server.database", error),
    }
}

/// A message as a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}
