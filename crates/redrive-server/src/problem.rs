//! Errors as RFC 9457 problem documents: a title for the kind, a sentence that says what to do.

use axum::Json;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
/// When to come back after a 503, in seconds.
const COME_BACK: HeaderValue = HeaderValue::from_static("5");

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the status is all there is to know about the kind.
    r#type: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What happened, to what, and what to do.
    detail: String,
    /// Which one of several, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<usize>,
    /// Which line of the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Which of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl Problem {
    /// A problem of this status, and what the caller can do about it.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        let (item, line, field) = (None, None, None);
        Self {
            r#type: "about:blank",
            title,
            status: status.as_u16(),
            detail: detail.into(),
            item,
            line,
            field,
        }
    }

    /// Something is away for a while: 503, with `Retry-After`.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// A value that is not accepted: 422, with the name of its field.
    #[must_use]
    pub fn field(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let field = field.into();
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{field} {why}."));
        Self { field: Some(field), ..problem }
    }

    /// The same problem, about one item of several.
    #[must_use]
    pub fn of_item(self, item: usize) -> Self {
        let detail = format!("Item {item}: {} Nothing was stored.", self.detail);
        Self { item: Some(item), detail, ..self }
    }

    /// The same problem, about one line of the body.
    #[must_use]
    pub fn of_line(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, COME_BACK);
        }
        response
    }
}

/// Turns error answers that are not ours (of axum, of a limit) into problem documents, and keeps
/// their headers, such as `Allow`. Pages for people stay pages.
pub(crate) async fn normalise(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_ours = response.headers().get(CONTENT_TYPE).is_some_and(|media| {
        let starts_with = |kind: &str| media.as_bytes().starts_with(kind.as_bytes());
        media == MEDIA_TYPE || starts_with("application/json") || starts_with("text/html")
    });
    if !is_error || is_ours {
        return response;
    }
    let mut headers = response.headers().clone();
    headers.remove(CONTENT_LENGTH);
    headers.remove(CONTENT_TYPE);
    let mut problem = Problem::new(status, advice(status)).into_response();
    problem.headers_mut().extend(headers);
    problem
}

/// What the caller can do about a status that says it all.
pub(crate) fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            "This address does not take that method; the Allow header lists the ones it takes."
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            "The body is over the limit; send less at once, or raise server.max-body."
        }
        StatusCode::REQUEST_TIMEOUT => {
            "Nothing more of the body came for 30 seconds, so nothing was done; send it again, all at once."
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "Send the body with Content-Type: application/json.",
        _ if status.is_client_error() => "The request cannot be answered as it is; check it and try again.",
        _ => "Something failed on this side; the log of the server says what.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_foreign_error_becomes_a_problem_and_keeps_its_headers() {
        let foreign = (StatusCode::METHOD_NOT_ALLOWED, [("allow", "GET")], "no").into_response();
        let response = normalise(foreign).await;
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["allow"], "GET");
    }

    #[tokio::test]
    async fn an_answer_of_our_own_is_left_alone() {
        let own = (StatusCode::SERVICE_UNAVAILABLE, Json("down")).into_response();
        assert_eq!(normalise(own).await.headers()["content-type"], "application/json");
        let page =
            (StatusCode::NOT_FOUND, [("content-type", "text/html; charset=utf-8")], "no").into_response();
        assert_eq!(normalise(page).await.headers()["content-type"], "text/html; charset=utf-8");
    }

    #[test]
    fn a_refused_value_is_named() {
        let problem = Problem::field("payload", "has a NUL byte").of_item(3);
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!((&json["item"], &json["field"]), (&3.into(), &"payload".into()));
        assert_eq!(json["detail"], "Item 3: payload has a NUL byte. Nothing was stored.");
    }

    #[test]
    fn whoever_comes_too_early_is_told_when_to_come_back() {
        assert_eq!(Problem::unavailable("down").into_response().headers()["retry-after"], "5");
    }
}
