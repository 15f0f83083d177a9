//! `POST /api/v1/dead-letters`: any service hands over an event that failed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use jiff::Timestamp;
use redrive_core::dead_letter::Origin;
use redrive_core::event::{MAX_KEY, MAX_TYPE, required, storable};
use redrive_core::failure::{Class, Failure};
use redrive_core::fingerprint::digest;
use redrive_engine::console::Console;
use redrive_store::NewLetter;
use serde::Deserialize;
use utoipa::ToSchema;

use super::act::bytes;
use super::failure;
use crate::caller::{RequestKey, Who};
use crate::moment::Moment;
use crate::payload::{PayloadIn, given};
use crate::view::{ClassName, Done};
use crate::{Problem, body};

/// More headers than this are a slip.
const MAX_HEADERS: usize = 200;
/// So is a larger value of one, in bytes.
const MAX_HEADER: usize = 16 << 10;

/// An event that failed elsewhere.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HandedIn {
    /// The type of the event.
    #[schema(min_length = 1, max_length = 100)]
    event_type: String,
    /// The key of the event.
    #[schema(max_length = 255)]
    key: String,
    /// The body of the event.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = PayloadIn, required = false)]
    payload: Option<PayloadIn>,
    /// The body in base64, for bytes that are no text.
    #[schema(
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    payload_base64: Option<String>,
    /// The headers of the event, in order.
    #[serde(default, deserialize_with = "body::objects_or_none")]
    #[schema(max_items = 200)]
    headers: Option<Vec<HeaderIn>>,
    /// What went wrong.
    #[serde(deserialize_with = "body::object")]
    error: ErrorIn,
    /// How many attempts failed (1).
    #[schema(minimum = 1, maximum = 1_000_000)]
    attempts: Option<u32>,
    /// When the latest attempt failed (now).
    failed_at: Option<Moment>,
    /// When the first attempt failed (as the latest).
    first_failed_at: Option<Moment>,
    /// What makes it one and the same letter of its service: it comes in once. Else that is `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 255)]
    source: Option<String>,
    /// What the service calls itself; else it is who called.
    #[schema(max_length = 100)]
    service: Option<String>,
    /// Where to redrive it to: a target from the configuration, by name.
    #[schema(max_length = 255)]
    target: Option<String>,
}

/// One header of an event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderIn {
    /// Its name.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Its value.
    value: String,
}

/// What went wrong elsewhere.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorIn {
    /// What was said.
    message: String,
    /// Its type, such as the class of an exception.
    #[schema(min_length = 1, max_length = 100)]
    kind: Option<String>,
    /// Its class; without it the code decides.
    class: Option<ClassName>,
    /// The failing system's code, such as `http:503` or `sqlstate:23505`.
    #[schema(pattern = "^(http:[1-5][0-9]{2}|sqlstate:[0-9A-Z]{5}|other:[a-z]{1,20})$")]
    code: Option<String>,
}

/// Takes an event in that failed elsewhere. The same `source` of the same service again is the same letter;
/// with another type, key or payload it is refused with 422.
#[utoipa::path(post, path = "/dead-letters", operation_id = "create_dead_letter", tag = "letters",
    params(("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one, if `source` is not given.", pattern = "^[!-~]{1,140}$")),
    request_body = HandedIn,
    responses((status = 201, description = "The letter is stored.", body = Done, headers(("Location" = String, description = "The letter.")))))]
pub(super) async fn take_in(
    State(console): State<Arc<Console>>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Done>), Problem> {
    let handed = body::one::<HandedIn>(request).await?;
    let letter = handed.letter(operator.name(), key)?;
    let id = console.take_in(letter).await?.to_string();
    let location = format!("/api/v1/dead-letters/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(Done { id, action: "take in".to_owned() })))
}

impl HandedIn {
    fn letter(self, caller: &str, key: Option<String>) -> Result<NewLetter, Problem> {
        text("event_type", required("event_type", &self.event_type, MAX_TYPE))?;
        let service = self.service.unwrap_or_else(|| caller.to_owned());
        text("service", storable("service", &service, MAX_TYPE))?;
        let attempts = self.attempts.unwrap_or(1);
        if !(1..=1_000_000).contains(&attempts) {
            return Err(Problem::field("attempts", "is not accepted: expected 1 to 1000000"));
        }
        let failed_at = self.failed_at.map_or_else(Timestamp::now, |Moment(at)| at);
        let first_failed_at = self.first_failed_at.map_or(failed_at, |Moment(at)| at).min(failed_at);
        let payload = bytes(self.payload, self.payload_base64)?;
        let payload =
            payload.ok_or_else(|| Problem::field("payload", "is missing: give payload or payload_base64"))?;
        let source = self.source.or(key).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        text("source", required("source", &source, MAX_KEY))?;
        Ok(NewLetter {
            source: scoped(&service, &source),
            event_type: self.event_type,
            key: self.key,
            payload,
            headers: headers(self.headers.unwrap_or_default())?,
            origin: Origin::Service { name: service },
            target: self.target,
            failure: self.error.failure()?,
            attempts,
            first_failed_at,
            failed_at,
        })
    }
}

/// A source is one of its service: two that count from 1 do not hand in each other's letters.
fn scoped(service: &str, source: &str) -> String {
    let scoped = format!("{service}/{source}");
    if scoped.chars().count() <= MAX_KEY {
        return scoped;
    }
    let digest = format!("#{:016x}", digest(scoped.as_bytes()));
    scoped.chars().take(MAX_KEY - digest.len()).chain(digest.chars()).collect()
}

fn headers(sent: Vec<HeaderIn>) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    if sent.len() > MAX_HEADERS {
        return Err(Problem::field("headers", format!("has {} entries: at most {MAX_HEADERS}", sent.len())));
    }
    let header = |header: HeaderIn| {
        text("headers", required("headers", &header.name, MAX_KEY))?;
        if header.value.len() > MAX_HEADER {
            let why = format!("has a value of {} bytes: at most {MAX_HEADER} fit", header.value.len());
            return Err(Problem::field("headers", why));
        }
        Ok((header.name, header.value.into_bytes()))
    };
    sent.into_iter().map(header).collect()
}

fn text(field: &'static str, checked: Result<(), redrive_core::event::Refused>) -> Result<(), Problem> {
    checked.map_err(|refused| Problem::field(field, refused.why))
}

impl ErrorIn {
    fn failure(self) -> Result<Failure, Problem> {
        let code = failure::code(self.code.as_deref())?;
        let class = self.class.map(|class| Class::from_name(class.name()));
        failure::failure(failure::class(class, code.as_ref()), code, self.kind, self.message)
    }
}
