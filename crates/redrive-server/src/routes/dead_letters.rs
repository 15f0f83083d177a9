//! `GET /api/v1/dead-letters`, `/dead-letters/{id}`, `/dead-letters/{id}/payload`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use redrive_core::dead_letter::{Filter, LetterId};
use redrive_core::fingerprint::Fingerprint;
use redrive_engine::console::{Console, Place};
use serde::Deserialize;
use utoipa::IntoParams;

use super::filter::FilterIn;
use super::slice::limit;
use crate::Problem;
use crate::download::attachment;
use crate::moment::Moment;
use crate::query::Params;
use crate::view::{ClassName, LetterPage, LetterView, StatusName};

/// A query string cannot nest, so this repeats the fields of a filter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListIn {
    /// Of this pipeline.
    pipeline: Option<String>,
    /// In this state.
    #[param(inline)]
    status: Option<StatusName>,
    /// Of this event type.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// With this key.
    key: Option<String>,
    /// With a failure of this class.
    #[param(inline)]
    class: Option<ClassName>,
    /// With this code: `sqlstate:23505`, or just `23505`.
    code: Option<String>,
    /// In the group of this fingerprint.
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    group: Option<Fingerprint>,
    /// With this text in the failure's message, in whatever case.
    q: Option<String>,
    /// Failed at or after this: a time, or how long ago.
    #[param(inline)]
    since: Option<Moment>,
    /// Failed before this: a time, or how long ago.
    #[param(inline)]
    until: Option<Moment>,
    /// Came here at or after this, whenever it failed: a time, or how long ago. Of letters that were handed in or read
    /// from topics, the latest 10,000 are looked at.
    #[param(inline)]
    arrived_since: Option<Moment>,
    /// How many letters.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
}

/// The letters that the filter means, newest first.
#[utoipa::path(get, path = "/dead-letters", operation_id = "list_dead_letters", tag = "letters", params(ListIn),
    responses((status = 200, description = "A page of letters.", body = LetterPage)))]
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Params(asked): Params<ListIn>,
) -> Result<Json<LetterPage>, Problem> {
    let limit = limit(asked.limit)?;
    let after = asked.cursor.as_deref().map(place).transpose()?;
    let arrived_since = asked.arrived_since.map(|Moment(at)| at);
    let filter = Filter { arrived_since, ..asked.filter().check()? };
    Ok(Json(console.list(&filter, limit, after.as_ref()).await?.into()))
}

/// One letter, with its history.
#[utoipa::path(get, path = "/dead-letters/{id}", operation_id = "get_dead_letter", tag = "letters", params(("id" = String, Path, description = "The letter, such as `orders:42`.")),
    responses((status = 200, description = "The letter.", body = LetterView)))]
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Json<LetterView>, Problem> {
    let id = letter_id(&id)?;
    let (letter, edits) = tokio::try_join!(console.letter(&id), console.edits(&id))?;
    Ok(Json(LetterView::new(letter, edits)))
}

/// The payload of a letter, byte for byte.
#[utoipa::path(get, path = "/dead-letters/{id}/payload", operation_id = "get_dead_letter_payload", tag = "letters", params(("id" = String, Path, description = "The letter, such as `orders:42`.")),
    responses((status = 200, description = "The bytes, as an attachment.", content_type = "application/octet-stream", body = Vec<u8>)))]
pub(super) async fn payload(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = letter_id(&id)?;
    Ok(attachment(&id, console.letter(&id).await?.payload))
}

/// The letter of this name.
pub(super) fn letter_id(text: &str) -> Result<LetterId, Problem> {
    text.parse().map_err(|_| {
        let detail = format!("There is no letter `{text}`: ids look like `orders:42`, as lists show them.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

fn place(text: &str) -> Result<Place, Problem> {
    text.parse().map_err(|error| Problem::field("cursor", error))
}

impl ListIn {
    fn filter(self) -> FilterIn {
        FilterIn {
            pipeline: self.pipeline,
            status: self.status,
            event_type: self.event_type,
            key: self.key,
            class: self.class,
            code: self.code,
            group: self.group,
            q: self.q,
            since: self.since,
            until: self.until,
        }
    }
}
