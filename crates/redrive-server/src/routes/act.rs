//! `POST /api/v1/dead-letters/{id}/redrive` and `/resolve`: what is done to one letter.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_engine::console::Console;
use serde::Deserialize;
use utoipa::ToSchema;

use super::dead_letters::letter_id;
use crate::caller::{RequestKey, Who};
use crate::payload::{PayloadIn, given};
use crate::view::Done;
use crate::{Problem, body, note};

/// How to send a letter back.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LetterRedrive {
    /// What to send instead of its payload.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = PayloadIn, required = false)]
    payload: Option<PayloadIn>,
    /// The same in base64, for bytes that are no text.
    #[schema(
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    payload_base64: Option<String>,
}

/// Why a letter is closed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LetterResolution {
    /// The reason, for whoever looks later.
    #[schema(max_length = 2000)]
    note: String,
}

/// Sends one letter back to work, with another payload if one is given. However often it is asked, one wins;
/// with an `Idempotency-Key` the same request again is told the same.
#[utoipa::path(post, path = "/dead-letters/{id}/redrive", operation_id = "redrive_dead_letter", tag = "letters",
    params(("id" = String, Path, description = "The letter, such as `orders:42`."),
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body(content = inline(Option<LetterRedrive>)),
    responses((status = 200, description = "It was sent back to work.", body = Done)))]
pub(super) async fn redrive(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<Json<Done>, Problem> {
    let id = letter_id(&id)?;
    let asked = body::one_or_none::<LetterRedrive>(request).await?;
    let payload = asked.payload()?;
    console.redrive(&id, payload.as_deref(), &operator, key.as_deref()).await?;
    Ok(Json(Done { id: id.to_string(), action: "redrive".to_owned() }))
}

/// Closes one letter.
#[utoipa::path(post, path = "/dead-letters/{id}/resolve", operation_id = "resolve_dead_letter", tag = "letters",
    params(("id" = String, Path, description = "The letter, such as `orders:42`."),
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = LetterResolution, responses((status = 200, description = "It is closed.", body = Done)))]
pub(super) async fn resolve(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<Json<Done>, Problem> {
    let id = letter_id(&id)?;
    let asked = body::one::<LetterResolution>(request).await?;
    note::check(&asked.note)?;
    console.resolve(&id, &operator, &asked.note, key.as_deref()).await?;
    Ok(Json(Done { id: id.to_string(), action: "resolve".to_owned() }))
}

impl LetterRedrive {
    fn payload(self) -> Result<Option<Vec<u8>>, Problem> {
        bytes(self.payload, self.payload_base64)
    }
}

/// A payload as text or as base64, not both.
pub(super) fn bytes(text: Option<PayloadIn>, base64: Option<String>) -> Result<Option<Vec<u8>>, Problem> {
    match (text, base64) {
        (Some(_), Some(_)) => {
            Err(Problem::field("payload_base64", "is there beside payload: give one of the two"))
        }
        (Some(PayloadIn(text)), None) => Ok(Some(text.into_bytes())),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map(Some)
            .map_err(|error| Problem::field("payload_base64", format!("is no base64: {error}"))),
        (None, None) => Ok(None),
    }
}
