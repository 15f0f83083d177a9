//! `POST /api/v1/ingest/{name}`: events into object storage.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use redrive_core::fingerprint::digest;
use redrive_engine::console::{Console, ConsoleError};
use redrive_engine::ingest::NotAccepted;
use redrive_store::{Asked, Requests};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{RequestKey, Who};
use crate::doors::IngestDoor;
use crate::lines::{self, Invalid, Lines, WrongLine};
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<WrongLine>,
}

/// Puts events into object storage: one value or an array, or one value per line. With an `Idempotency-Key` the same
/// request again is told the same.
#[utoipa::path(post, path = "/ingest/{name}", tag = "work",
    params(("name" = String, Path, description = "The pipeline."), Choice,
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body(content((PayloadIn = "application/json"), (String = "application/x-ndjson"))), responses((status = 202, body = Answer)))]
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
    let form = Form::of(request.headers())?;
    let packing = Packing::of(request.headers())?;
    let bytes = packing.unpack(body::read(request).await?, door.max_body)?;
    let invalid =
        if matches!(choice.invalid, Some(InvalidIn::Skip)) { Invalid::Skip } else { Invalid::Refuse };
    let lines = form.read(&bytes, invalid).map_err(|wrong| not_json(&wrong))?;
    let answer = match key {
        None => accept(door, &name, lines).await?,
        Some(key) => {
            let key = redrive_store::RequestKey { operator, key };
            let (requests, asked) =
                (console.requests(), digest(&[form.name(), invalid.name(), &bytes].concat()));
            accept_once(requests, &key, asked, door, &name, lines).await?
        }
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

async fn accept(door: &IngestDoor, name: &str, lines: Lines) -> Result<Answer, Problem> {
    let Lines { lines, events, rejected } = lines;
    if events > 0 {
        door.ingest.accept(lines, events).await.map_err(|error| not_accepted(name, &error))?;
    }
    Ok(Answer { accepted: events, rejected })
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

/// How events are written in a body.
enum Form {
    Json,
    Lines,
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media.as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines" => Ok(Self::Lines),
            _ => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Send Content-Type: application/json for one event or an array, application/x-ndjson for one per line.",
            )),
        }
    }

    const fn name(&self) -> &'static [u8] {
        match self {
            Self::Json => b"json ",
            Self::Lines => b"lines ",
        }
    }

    fn read(&self, bytes: &Bytes, invalid: Invalid) -> Result<Lines, WrongLine> {
        match self {
            Self::Json => lines::of_json(bytes),
            Self::Lines => lines::of_lines(bytes, invalid),
        }
    }
}

/// How a body is compressed.
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match headers.get(CONTENT_ENCODING).map(|packing| packing.as_bytes().to_ascii_lowercase()).as_deref()
        {
            None | Some(b"identity") => Ok(Self::None),
            Some(b"gzip" | b"x-gzip") => Ok(Self::Gzip),
            Some(b"zstd") => Ok(Self::Zstd),
            Some(_) => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Send the body as it is, or with Content-Encoding: gzip or zstd.",
            )),
        }
    }

    /// At most so many bytes come out, however few go in.
    fn unpack(&self, packed: Bytes, limit: usize) -> Result<Bytes, Problem> {
        match self {
            Self::None => Ok(packed),
            Self::Gzip => bounded(flate2::read::MultiGzDecoder::new(packed.as_ref()), limit),
            Self::Zstd => {
                let decoder =
                    zstd::stream::read::Decoder::new(packed.as_ref()).map_err(|error| damaged(&error))?;
                bounded(decoder, limit)
            }
        }
    }
}

fn bounded(reader: impl Read, limit: usize) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
    if bytes.len() > limit {
        let detail = format!(
            "The body is over {limit} bytes once it is unpacked; send less at once, or raise server.max-body."
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(bytes.into())
}

fn damaged(error: &std::io::Error) -> Problem {
    let detail = format!("The body cannot be unpacked: {error}. Nothing was accepted.");
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn not_json(wrong: &WrongLine) -> Problem {
    let WrongLine { line, error } = wrong;
    let detail = format!(
        "Line {line} is not JSON: {error}. Nothing was accepted; with ?invalid=skip the good lines of an NDJSON body are."
    );
    Problem::new(StatusCode::BAD_REQUEST, detail).of_line(*line)
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
