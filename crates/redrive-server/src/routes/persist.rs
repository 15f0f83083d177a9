//! `POST /api/v1/persist/{name}`: events that are saved behind the request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use redrive_engine::persist::NotAccepted;
use redrive_store::Record;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch::one_or_many;
use crate::payload::PayloadIn;
use crate::{Doors, Problem, body};

/// An event as it is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PersistEvent)]
struct EventIn {
    #[schema(min_length = 1, max_length = 255)]
    key: String,
    payload: PayloadIn,
}

one_or_many!(PersistEvents of EventIn);

/// How many events are ours now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Persisted)]
pub(super) struct Answer {
    accepted: usize,
}

/// Hands events to a persist pipeline, all or none: they are saved behind the request.
#[utoipa::path(post, path = "/persist/{name}", operation_id = "persist_events", tag = "work", params(("name" = String, Path, description = "The pipeline.")),
    request_body = PersistEvents, responses((status = 202, description = "The events are accepted.", body = Answer)))]
pub(super) async fn accept(
    State(doors): State<Arc<Doors>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<Answer>), Problem> {
    let door = doors.persist(&name)?;
    let now = Timestamp::now();
    let record = |event: EventIn| Record { key: event.key, payload: event.payload.0, created_at: now };
    let events: Vec<Record> = body::many::<EventIn>(request).await?.into_iter().map(record).collect();
    let accepted = events.len();
    door.persister.accept(events).await.map_err(|refusal| problem(&name, refusal))?;
    // The type of an event is the name of its pipeline.
    door.accepted.count(std::iter::repeat_n(name.as_str(), accepted));
    Ok((StatusCode::ACCEPTED, Json(Answer { accepted })))
}

fn problem(pipeline: &str, refusal: NotAccepted) -> Problem {
    match refusal {
        NotAccepted::Refused { item, source } => Problem::field(source.field, &source.why).of_item(item),
        NotAccepted::Full { waiting } => Problem::unavailable(format!(
            "`{pipeline}` has {waiting} events waiting, which is all that it may: its database is slow or away. \
             Nothing was accepted: send it again later."
        )),
        NotAccepted::Disk(error) => {
            tracing::error!(pipeline, error, "a request failed: the journal did not take it");
            Problem::unavailable(format!(
                "The journal of `{pipeline}` did not take it: it is full, or the disk fails; the log of the \
                 server says which. Nothing was accepted: send it again later."
            ))
        }
        NotAccepted::Stopping => Problem::unavailable(format!(
            "`{pipeline}` is stopping. Nothing was accepted: send it again in a moment."
        )),
    }
}
