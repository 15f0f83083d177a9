//! What the routes want to know about who calls: their name, and the key of their request.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use redrive_core::dead_letter::Operator;

use crate::{Caller, Problem};

/// The longest key of a request, in characters.
const MAX_KEY: usize = 140;

/// Who calls, for the audit log.
pub(crate) struct Who(pub(crate) Operator);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let caller = parts.extensions.get::<Caller>();
        Ok(Self(Operator::new(caller.map_or("nobody", |caller| caller.name.as_str()))))
    }
}

/// `Idempotency-Key`: what makes several requests one.
pub(crate) struct RequestKey(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for RequestKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut keys = parts.headers.get_all("idempotency-key").iter();
        let Some(key) = keys.next() else { return Ok(Self(None)) };
        if keys.next().is_some() {
            return Err(Problem::field("Idempotency-Key", "is there twice: give one"));
        }
        let visible = |byte: &u8| byte.is_ascii_graphic();
        let key = key.as_bytes();
        if key.is_empty() || key.len() > MAX_KEY || !key.iter().all(visible) {
            let why = format!("is not accepted: expected 1 to {MAX_KEY} visible ASCII characters");
            return Err(Problem::field("Idempotency-Key", why));
        }
        Ok(Self(Some(String::from_utf8_lossy(key).into_owned())))
    }
}
