//! `POST /api/v1/ingest/{name}`: events into object storage.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use redrive_engine::console::{Console, ConsoleError};
use redrive_engine::ingest::{Cause, NotAccepted};
use redrive_store::{Asked, Requests};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{RequestKey, Who};
use crate::doors::IngestDoor;
use crate::event_body::{BodyReaders, EventBody, Events};
use crate::lines::{Invalid, Lines, WrongLine};
use crate::payload::PayloadIn;
use crate::query::Params;
use crate::{Doors, Problem, body};

/// What the sender may choose.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Choice {
    /// `skip`: good lines are accepted, wrong ones are listed in the answer.
    #[serde(default)]
    #[param(inline)]
    invalid: Option<InvalidIn>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum InvalidIn {
    Refuse,
    Skip,
}

/// How long a request may be under way before whoever carried it out is taken for gone.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// What became of a body.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Ingested)]
pub(super) struct Answer {
    accepted: u64,
    /// The first hundred lines that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<WrongLine>,
    /// How many lines were left out.
    #[serde(default, skip_serializing_if = "is_none")]
    rejected_total: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Puts events into object storage: one value or an array, or one value per line. With an `Idempotency-Key` the same
/// request again is told the same.
#[utoipa::path(post, path = "/ingest/{name}", operation_id = "ingest_events", tag = "work",
    params(("name" = String, Path, description = "The pipeline."), Choice,
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body(content((PayloadIn = "application/json"), (String = "application/x-ndjson"))), responses((status = 202, description = "The events are accepted.", body = Answer)))]
pub(super) async fn ingest(
    State(doors): State<Arc<Doors>>,
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
    Params(choice): Params<Choice>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<(StatusCode, Json<Answer>), Problem> {
    let door = doors.ingest(&name)?;
    let invalid =
        if matches!(choice.invalid, Some(InvalidIn::Skip)) { Invalid::Skip } else { Invalid::Refuse };
    let read = read(request, invalid, door, key.is_some(), doors.body_readers()).await;
    let Events { lines, digest } = read.inspect_err(|problem| door.ingest.note_refused(cause(problem)))?;
    let answer = match (key, digest) {
        (Some(key), Some(asked)) => {
            let key = redrive_store::RequestKey { operator, key };
            accept_once(console.requests(), &key, asked, door, &name, lines).await?
        }
        _ => accept(door, &name, lines).await?,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

async fn read(
    request: Request,
    invalid: Invalid,
    door: &IngestDoor,
    has_digest: bool,
    readers: &BodyReaders,
) -> Result<Events, Problem> {
    let form = EventBody::of(request.headers(), invalid)?;
    form.read(body::read(request).await?, door.max_body, has_digest, readers).await
}

/// Why a body was refused before its events came to the pipeline.
fn cause(problem: &Problem) -> Cause {
    match problem.status() {
        StatusCode::SERVICE_UNAVAILABLE => Cause::ServerBusy,
        StatusCode::PAYLOAD_TOO_LARGE => Cause::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Cause::MediaType,
        _ => Cause::BodyInvalid,
    }
}

async fn accept(door: &IngestDoor, name: &str, lines: Lines) -> Result<Answer, Problem> {
    let Lines { lines, events, rejected, rejected_total } = lines;
    if events > 0 {
        door.ingest.accept(lines, events).await.map_err(|error| not_accepted(name, &error))?;
    }
    Ok(Answer { accepted: events, rejected, rejected_total })
}

/// The key is not in the journal of the events: one that was cut off in between is carried out again.
async fn accept_once(
    requests: &Requests,
    key: &redrive_store::RequestKey,
    asked: u64,
    door: &IngestDoor,
    name: &str,
    lines: Lines,
) -> Result<Answer, Problem> {
    let ledger = |error: redrive_store::Error| Problem::from(ConsoleError::Store(error));
    let id = match requests.ask(key, &format!("ingest {name}"), asked).await.map_err(ledger)? {
        Asked::New(id) => id,
        Asked::Begun(id) if requests.take_over(id, UNDER_WAY).await.map_err(ledger)? => id,
        Asked::Begun(_) => {
            let detail = "A request with this Idempotency-Key is under way: send it again in a moment.";
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        Asked::Answered(text) => {
            let unreadable = |_| ledger(redrive_store::Error::OtherRequest(key.key.clone()));
            return serde_json::from_str(&text).map_err(unreadable);
        }
    };
    let accepted = accept(door, name, lines).await;
    let written = match &accepted {
        Ok(answer) => requests.answer(id, &serde_json::to_string(answer).unwrap_or_default()).await,
        Err(_) => requests.withdraw(id).await,
    };
    if let Err(error) = written {
        tracing::warn!(pipeline = name, %error, "the end of a request could not be written down");
    }
    accepted
}

fn not_accepted(pipeline: &str, error: &NotAccepted) -> Problem {
    let advice = match error {
        NotAccepted::QueueFull | NotAccepted::DiskFull(_) => "Send it again later",
        NotAccepted::Disk(_) => "The disk of the server needs attention; send it again later",
        NotAccepted::Stopping => "Send it again, to an instance that is running",
    };
    Problem::unavailable(format!("`{pipeline}` accepted nothing: {}. {advice}.", reason(error)))
}

/// Paths on the server are for its log.
fn reason(error: &NotAccepted) -> &'static str {
    match error {
        NotAccepted::QueueFull => "its queue is full",
        NotAccepted::DiskFull(_) => "its disk is full",
        NotAccepted::Disk(_) => "its journal cannot be written",
        NotAccepted::Stopping => "it is stopping",
    }
}
