//! A store's errors as problems.

use axum::http::StatusCode;
use redrive_store::Error;

use crate::Problem;

/// What the caller is told when the store of this pipeline did not do it.
pub(super) fn trouble(pipeline: &str, error: &Error) -> Problem {
    match error {
        Error::Refused { item, source } => Problem::field(source.field, &source.why).of_item(*item),
        Error::Unavailable { .. } => {
            tracing::warn!(pipeline, %error, "a request failed: the store is not available");
            Problem::unavailable(format!(
                "The store of `{pipeline}` does not answer. Send it again; if the connection broke at the very \
                 end, it may have been done already."
            ))
        }
        Error::Rejected { .. } | Error::Setting(_) => {
            tracing::error!(pipeline, %error, "a request failed: the store refused it");
            let detail = format!("The store of `{pipeline}` refused it; the log of the server says why.");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    }
}
