//! What a form sends: names and values, some names more than once.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::response::Response;
use bytes::Bytes;

use super::failed::Failed;
use crate::problem::advice;

/// A form that was sent.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn read(body: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(body);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The value of this name; nothing when it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The value of this name, as it was sent.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Every value of this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.into_response().status();
            Failed::new(status, advice(status)).into_response()
        })?;
        Ok(Self::read(&body))
    }
}

/// What cannot be used as it is.
pub(super) fn wrong(what: impl Into<String>) -> Failed {
    Failed::new(StatusCode::UNPROCESSABLE_ENTITY, what)
}

/// What makes a form one request, however often it is sent.
pub(super) fn fresh_key() -> Result<String, Failed> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "no random numbers for a form");
        Failed::new(StatusCode::INTERNAL_SERVER_ERROR, "This machine has no random numbers to give.")
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_come_more_than_once_and_bytes_may_be_rubbish() {
        let form = Form::read(b"id=a%3A1&id=b%3A2&note=+x+&empty=&bad=%ff%zz");
        assert_eq!(form.all("id").collect::<Vec<_>>(), ["a:1", "b:2"]);
        assert_eq!((form.get("note"), form.get("empty"), form.get("none")), (Some("x"), None, None));
        assert_eq!(form.raw("note"), Some(" x "));
        assert_eq!(form.raw("bad"), Some("\u{fffd}%zz"));
    }
}
