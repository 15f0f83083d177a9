//! A page that says why there is no other, and what to do.

use askama::Template;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use redrive_engine::console::ConsoleError;

use super::frame::{Frame, Section, Visitor, page};
use super::text;
use crate::Problem;

/// Why a page is not there.
#[derive(Debug)]
pub(super) struct Failed {
    status: StatusCode,
    what: String,
}

#[derive(Template)]
#[template(path = "failed.html")]
struct FailedPage {
    frame: Frame,
    what: String,
    advice: &'static str,
}

impl Failed {
    pub(super) fn new(status: StatusCode, what: impl Into<String>) -> Self {
        Self { status, what: what.into() }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status(), problem.detail())
    }
}

impl From<ConsoleError> for Failed {
    fn from(error: ConsoleError) -> Self {
        let status = match &error {
            ConsoleError::NoPipeline { .. } | ConsoleError::NoLetter(_) | ConsoleError::NoOperation(_) => {
                StatusCode::NOT_FOUND
            }
            ConsoleError::Refused(_) | ConsoleError::WrongState { .. } | ConsoleError::NoWorkers(_) => {
                StatusCode::CONFLICT
            }
            ConsoleError::Request(_) | ConsoleError::KeyInUse(_) | ConsoleError::SourceInUse(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ConsoleError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            ConsoleError::Store(error) if error.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
            ConsoleError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(status = self.status.as_u16(), error = self.what, "a page could not be shown");
        }
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::CONFLICT => "Not possible any more",
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => "That does not work",
            StatusCode::SERVICE_UNAVAILABLE => "A store does not answer",
            _ => "Something failed",
        };
        let advice = match self.status {
            StatusCode::NOT_FOUND => "Look for it from the groups or the letters.",
            StatusCode::FORBIDDEN => "Nothing was changed.",
            StatusCode::CONFLICT => {
                "Somebody, or a policy, was faster. Nothing was changed: go back and reload."
            }
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => {
                "Nothing was changed: go back and try again."
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                "Nothing is lost: letters wait in their stores. Check that the database runs and can be reached, then \
                 reload; /api/v1/ready says which store is away."
            }
            _ => "The log of the server says more.",
        };
        let frame = Frame::new(Section::Elsewhere, title, Visitor::nobody());
        let what = text::line(&self.what, 2_000);
        page(self.status, &FailedPage { frame, what, advice })
    }
}

/// Somebody is not let in.
pub(crate) fn refused(problem: &Problem) -> Response {
    Failed::new(problem.status(), problem.detail()).into_response()
}

/// Nothing is at this address: a page for people, a problem for programs.
pub(crate) async fn not_found(request: Request) -> Response {
    let path = request.uri().path();
    let accepted = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let for_people =
        accepted.is_some_and(|accept| accept.contains("text/html")) && !path.starts_with("/api/");
    let detail = format!("There is nothing at {path}; the API is under /api/v1.");
    if for_people {
        return Failed::new(StatusCode::NOT_FOUND, detail).into_response();
    }
    Problem::new(StatusCode::NOT_FOUND, detail).into_response()
}
