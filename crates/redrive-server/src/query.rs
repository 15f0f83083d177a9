//! What a query string asks for, with mistakes as problems.

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::expectation::in_words;

/// The query string as this type.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(params) = Query::<T>::try_from_uri(&parts.uri).map_err(|rejection| {
            let said = rejection.body_text();
            let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(&said);
            let detail = format!("The query is not accepted: {}.", in_words(said));
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        })?;
        Ok(Self(params))
    }
}
