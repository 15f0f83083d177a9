//! `POST /api/v1/outbox/{name}/events`: events into an outbox.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use redrive_core::event::{NewEvent, WorkId};
use redrive_store::Answered;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch::one_or_many;
use super::trouble::trouble;
use crate::caller::{RequestKey, Who};
use crate::payload::PayloadIn;
use crate::{Doors, Problem, body};

/// An event as it is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OutboxEvent)]
struct EventIn {
    #[schema(min_length = 1, max_length = 100)]
    event_type: String,
    #[serde(default)]
    #[schema(max_length = 100)]
    aggregate_type: Option<String>,
    #[serde(default)]
    #[schema(max_length = 255)]
    aggregate_id: Option<String>,
    payload: PayloadIn,
}

one_or_many!(OutboxEvents of EventIn);

/// The numbers of the new events, in the order in which they were sent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Appended {
    #[schema(value_type = Vec<i64>)]
    ids: Vec<WorkId>,
}

/// Puts events into an outbox, all or none. With an `Idempotency-Key` the same request again is told the same numbers.
#[utoipa::path(post, path = "/outbox/{name}/events", operation_id = "append_events", tag = "work",
    params(("name" = String, Path, description = "The pipeline."),
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = OutboxEvents, responses((status = 201, description = "The events are stored.", body = Appended)))]
pub(super) async fn append(
    State(doors): State<Arc<Doors>>,
    Path(name): Path<String>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<(StatusCode, Json<Appended>), Problem> {
    let door = doors.outbox(&name)?;
    let events: Vec<NewEvent> =
        body::many::<EventIn>(request).await?.into_iter().map(NewEvent::from).collect();
    let types: Vec<String> = events.iter().map(|event| event.event_type.clone()).collect();
    let appended = match key {
        Some(key) => door.store.append_once(&events, &redrive_store::RequestKey { operator, key }).await,
        None => door.store.append(events).await.map(|answer| Answered { answer, is_repeated: false }),
    };
    door.pipeline.health.put_in(&name, &appended);
    let Answered { answer: ids, is_repeated } = appended.map_err(|error| trouble(&name, &error))?;
    if !ids.is_empty() && !is_repeated {
        door.accepted.count(types.iter().map(String::as_str));
        door.pipeline.bell.ring();
    }
    Ok((StatusCode::CREATED, Json(Appended { ids })))
}

impl From<EventIn> for NewEvent {
    fn from(event: EventIn) -> Self {
        Self {
            event_type: event.event_type,
            aggregate_type: event.aggregate_type.unwrap_or_default(),
            aggregate_id: event.aggregate_id.unwrap_or_default(),
            payload: event.payload.0,
        }
    }
}
