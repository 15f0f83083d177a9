//! `POST /api/v1/redrives`, `/resolutions`, `GET /redrives`, `/redrives/{id}`, and their pause, resume, cancel.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_engine::console::{Action, Canary, Console, Request};
use redrive_store::OperationState;
use serde::Deserialize;
use utoipa::ToSchema;

use super::act::note;
use super::filter::{FilterIn, Slice, next_of};
use crate::caller::{RequestKey, Who};
use crate::query::Params;
use crate::span::Span;
use crate::view::{OperationPage, OperationView, PreviewView};
use crate::{Problem, body};

/// The most letters that are named one by one.
const MOST_IDS: usize = 10_000;
/// Letters per second; more is no limit at all.
const HIGHEST_RATE: u32 = 1_000_000;

/// Which letters to send back, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RedriveRequest {
    /// Which letters: those that wait and match.
    filter: Option<FilterIn>,
    /// Or these, by name.
    #[schema(max_items = 10_000)]
    ids: Option<Vec<String>>,
    /// Says that an empty filter is meant: every letter that waits.
    #[serde(default)]
    all: bool,
    /// The most letters per second.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate: Option<u32>,
    /// A few letters first, each followed to its outcome, then more, then the rest.
    canary: Option<CanaryIn>,
    /// Only count.
    #[serde(default)]
    dry_run: bool,
    /// Why.
    #[schema(max_length = 2000)]
    note: Option<String>,
}

/// Which letters to close, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolutionRequest {
    /// Which letters: those that wait and match.
    filter: Option<FilterIn>,
    /// Or these, by name.
    #[schema(max_items = 10_000)]
    ids: Option<Vec<String>>,
    /// Says that an empty filter is meant: every letter that waits.
    #[serde(default)]
    all: bool,
    /// Only count.
    #[serde(default)]
    dry_run: bool,
    /// Why.
    #[schema(max_length = 2000)]
    note: Option<String>,
}

/// A ramp: `true` for the usual one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum CanaryIn {
    Usual(bool),
    Ramp(Ramp),
}

/// A ramp of one's own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Ramp {
    /// How many letters each step sends (1, 5, 20).
    #[schema(min_items = 1, max_items = 20)]
    steps: Option<Vec<u32>>,
    /// How long a step may take until every letter of it has an outcome (5 min).
    patience: Option<Span>,
    /// How long a letter that was handed over is watched for coming back (5 s).
    observe: Option<Span>,
}

/// Starts to send letters back to work, or says how many that would be.
#[utoipa::path(post, path = "/redrives", tag = "operations",
    params(("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = RedriveRequest,
    responses((status = 202, body = OperationView, headers(("Location" = String, description = "The operation."))),
        (status = 200, description = "A dry run: nothing was changed.", body = PreviewView)))]
pub(super) async fn redrive(
    State(console): State<Arc<Console>>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let asked = body::one::<RedriveRequest>(request).await?;
    let mut request = wanted(Action::Redrive, asked.filter, asked.ids, asked.all, asked.note)?;
    if asked.rate.is_some_and(|rate| !(1..=HIGHEST_RATE).contains(&rate)) {
        let why = "is not accepted: expected 1 to 1000000 letters per second; leave it out for no limit";
        return Err(Problem::field("rate", why));
    }
    request.rate = asked.rate;
    request.canary = asked.canary.and_then(CanaryIn::ramp);
    begin(&console, &request, asked.dry_run, &operator, key).await
}

/// Starts to close letters, or says how many that would be.
#[utoipa::path(post, path = "/resolutions", tag = "operations",
    params(("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = ResolutionRequest,
    responses((status = 202, body = OperationView, headers(("Location" = String, description = "The operation."))),
        (status = 200, description = "A dry run: nothing was changed.", body = PreviewView)))]
pub(super) async fn resolve(
    State(console): State<Arc<Console>>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let asked = body::one::<ResolutionRequest>(request).await?;
    let request = wanted(Action::Resolve, asked.filter, asked.ids, asked.all, asked.note)?;
    begin(&console, &request, asked.dry_run, &operator, key).await
}

/// The latest operations, newest first.
#[utoipa::path(get, path = "/redrives", tag = "operations", params(Slice), responses((status = 200, body = OperationPage)))]
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Params(asked): Params<Slice>,
) -> Result<Json<OperationPage>, Problem> {
    let (before, limit) = asked.check()?;
    let found = console.operations(before, limit).await?;
    let next = next_of(found.len(), limit, found.last().map(|last| last.id));
    Ok(Json(OperationPage { operations: found.into_iter().map(OperationView::from).collect(), next }))
}

/// One operation, with some of what it was not done to.
#[utoipa::path(get, path = "/redrives/{id}", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, body = OperationView)))]
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Json<OperationView>, Problem> {
    let id = number(&id)?;
    let (operation, refusals) = tokio::try_join!(console.operation(id), console.refusals(id))?;
    Ok(Json(OperationView { refusals, ..operation.into() }))
}

/// Pauses an operation.
#[utoipa::path(post, path = "/redrives/{id}/pause", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, body = OperationView)))]
pub(super) async fn pause(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
) -> Result<Json<OperationView>, Problem> {
    turn(&console, &id, OperationState::Paused, &operator).await
}

/// Goes on with an operation that was paused, or stopped itself.
#[utoipa::path(post, path = "/redrives/{id}/resume", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, body = OperationView)))]
pub(super) async fn resume(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
) -> Result<Json<OperationView>, Problem> {
    turn(&console, &id, OperationState::Running, &operator).await
}

/// Ends an operation; what is done stays done.
#[utoipa::path(post, path = "/redrives/{id}/cancel", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, body = OperationView)))]
pub(super) async fn cancel(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
) -> Result<Json<OperationView>, Problem> {
    turn(&console, &id, OperationState::Cancelled, &operator).await
}

async fn turn(
    console: &Console,
    id: &str,
    next: OperationState,
    operator: &Operator,
) -> Result<Json<OperationView>, Problem> {
    Ok(Json(console.turn(number(id)?, next, operator).await?.into()))
}

fn number(id: &str) -> Result<i64, Problem> {
    id.parse().map_err(|_| {
        let detail = format!("There is no operation `{id}`: the list at /api/v1/redrives has their numbers.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

fn wanted(
    action: Action,
    filter: Option<FilterIn>,
    ids: Option<Vec<String>>,
    all: bool,
    why: Option<String>,
) -> Result<Request, Problem> {
    let why = why.unwrap_or_default();
    note(&why)?;
    let ids = ids.unwrap_or_default();
    if ids.len() > MOST_IDS {
        let why = format!("has {} entries: at most {MOST_IDS}; use a filter instead", ids.len());
        return Err(Problem::field("ids", why));
    }
    let id = |text: String| {
        text.parse::<LetterId>().map_err(|error| Problem::field("ids", format!("is not accepted: {error}")))
    };
    let ids = ids.into_iter().map(id).collect::<Result<_, _>>()?;
    let filter = filter.unwrap_or_default().check()?;
    Ok(Request { ids, all, note: why, ..Request::new(action, filter) })
}

async fn begin(
    console: &Console,
    request: &Request,
    dry_run: bool,
    operator: &Operator,
    key: Option<String>,
) -> Result<Response, Problem> {
    if dry_run {
        return Ok(Json(PreviewView::from(console.preview(request).await?)).into_response());
    }
    // The key of one person's redrive is not that of another's, nor that of a resolution.
    let key = key.map(|key| format!("{} {} {key}", request.action.name(), operator.name()));
    let operation = console.start(request, operator, key.as_deref()).await?;
    let location = format!("/api/v1/redrives/{}", operation.id);
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)], Json(OperationView::from(operation))).into_response())
}

impl CanaryIn {
    fn ramp(self) -> Option<Canary> {
        let usual = Canary::default();
        match self {
            Self::Usual(wanted) => wanted.then_some(usual),
            Self::Ramp(ramp) => Some(Canary {
                steps: ramp.steps.unwrap_or(usual.steps),
                patience: ramp.patience.map_or(usual.patience, |Span(span)| span),
                observe: ramp.observe.map_or(usual.observe, |Span(span)| span),
            }),
        }
    }
}
