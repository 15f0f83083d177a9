//! A page that says why there is no other, and what to do.

use askama::Template;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use redrive_core::dead_letter::Refusal;
use redrive_engine::console::ConsoleError;

use super::frame::{Frame, Section, Visitor, page};
use super::text;
use crate::Problem;

/// Why a page is not there.
#[derive(Debug)]
pub(super) struct Failed {
    status: StatusCode,
    what: String,
    advice: &'static str,
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
        Self { status, what: what.into(), advice: advice(status) }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status(), problem.detail())
    }
}

impl From<ConsoleError> for Failed {
    fn from(error: ConsoleError) -> Self {
        let nobody_was_faster =
            matches!(error, ConsoleError::Refused(Refusal::Impossible { .. }) | ConsoleError::NoWorkers(_));
        // People are told what a store said; programs are not.
        let said = error.to_string();
        let mut failed = Self::from(Problem::from(error));
        if failed.status.is_server_error() {
            failed.what = said;
        }
        if nobody_was_faster {
            failed.advice = "Nothing was changed.";
        }
        failed
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let frame = Frame::new(Section::Elsewhere, title(self.status), Visitor::nobody());
        let what = text::line(&self.what, 2_000);
        page(self.status, &FailedPage { frame, what, advice: self.advice })
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

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::CONFLICT => "Not possible now",
        StatusCode::SERVICE_UNAVAILABLE => "A store does not answer",
        _ if status.is_client_error() => "That does not work",
        _ => "Something failed",
    }
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Look for it from the groups or the letters.",
        StatusCode::FORBIDDEN => "Nothing was changed.",
        StatusCode::CONFLICT => "Somebody, or a policy, was faster. Nothing was changed: go back and reload.",
        StatusCode::SERVICE_UNAVAILABLE => {
            "Nothing is lost: letters wait in their stores. Check that the database runs and can be reached, then \
             reload; /api/v1/ready says which store is away."
        }
        _ if status.is_client_error() => "Nothing was changed: go back and try again.",
        _ => "The log of the server says more.",
    }
}
