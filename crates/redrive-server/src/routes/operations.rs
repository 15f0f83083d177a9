//! `POST /api/v1/redrives`, `/resolutions`, `GET /redrives`, `/redrives/{id}`, and their pause, resume, cancel.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_engine::console::{Action, Console, Request};
use redrive_store::OperationState;
use serde::Deserialize;
use utoipa::ToSchema;

use super::canary::CanaryIn;
use super::filter::FilterIn;
use super::slice::{Slice, next_of};
use crate::caller::{RequestKey, Who};
use crate::query::Params;
use crate::view::{OperationPage, OperationView, PreviewView};
use crate::{Problem, body, note};

/// The most letters that are named one by one.
const MOST_IDS: usize = 10_000;
/// Letters per second; more is no limit at all.
const HIGHEST_RATE: u32 = 1_000_000;

/// Which letters to send back, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RedriveRequest {
    /// Which letters: those that wait and match.
    #[serde(default, deserialize_with = "body::object_or_none")]
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
    #[serde(default, deserialize_with = "body::object_or_none")]
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

/// Starts to send letters back to work, or says how many that would be.
#[utoipa::path(post, path = "/redrives", operation_id = "start_redrive", tag = "operations",
    params(("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = RedriveRequest,
    responses((status = 202, description = "The operation has started.", body = OperationView, headers(("Location" = String, description = "The operation."))),
        (status = 200, description = "A dry run: nothing was changed.", body = PreviewView)))]
pub(super) async fn redrive(
    State(console): State<Arc<Console>>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let asked = body::one::<RedriveRequest>(request).await?;
    let meant = Meant { filter: asked.filter, ids: asked.ids, all: asked.all, note: asked.note };
    let request = Request {
        rate: asked.rate.map(rate).transpose()?,
        canary: asked.canary.and_then(CanaryIn::ramp),
        ..meant.request(Action::Redrive)?
    };
    if asked.dry_run {
        return preview(&console, &request).await;
    }
    start(&console, &request, &operator, key).await
}

/// Starts to close letters, or says how many that would be.
#[utoipa::path(post, path = "/resolutions", operation_id = "start_resolution", tag = "operations",
    params(("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = ResolutionRequest,
    responses((status = 202, description = "The operation has started.", body = OperationView, headers(("Location" = String, description = "The operation."))),
        (status = 200, description = "A dry run: nothing was changed.", body = PreviewView)))]
pub(super) async fn resolve(
    State(console): State<Arc<Console>>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let asked = body::one::<ResolutionRequest>(request).await?;
    let meant = Meant { filter: asked.filter, ids: asked.ids, all: asked.all, note: asked.note };
    let request = meant.request(Action::Resolve)?;
    if asked.dry_run {
        return preview(&console, &request).await;
    }
    start(&console, &request, &operator, key).await
}

/// The latest operations, newest first.
#[utoipa::path(get, path = "/redrives", operation_id = "list_operations", tag = "operations", params(Slice), responses((status = 200, description = "A page of operations.", body = OperationPage)))]
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
#[utoipa::path(get, path = "/redrives/{id}", operation_id = "get_operation", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, description = "The operation.", body = OperationView)))]
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Json<OperationView>, Problem> {
    let id = number(&id)?;
    let (operation, refusals) = tokio::try_join!(console.operation(id), console.refusals(id))?;
    Ok(Json(OperationView { refusals, ..operation.into() }))
}

/// Pauses an operation.
#[utoipa::path(post, path = "/redrives/{id}/pause", operation_id = "pause_operation", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, description = "The operation.", body = OperationView)))]
pub(super) async fn pause(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
) -> Result<Json<OperationView>, Problem> {
    turn(&console, &id, OperationState::Paused, &operator).await
}

/// Goes on with an operation that was paused, or stopped itself.
#[utoipa::path(post, path = "/redrives/{id}/resume", operation_id = "resume_operation", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, description = "The operation.", body = OperationView)))]
pub(super) async fn resume(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Who(operator): Who,
) -> Result<Json<OperationView>, Problem> {
    turn(&console, &id, OperationState::Running, &operator).await
}

/// Ends an operation; what is done stays done.
#[utoipa::path(post, path = "/redrives/{id}/cancel", operation_id = "cancel_operation", tag = "operations", params(("id" = i64, Path, description = "The operation.")),
    responses((status = 200, description = "The operation.", body = OperationView)))]
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

/// Which letters are meant, and why.
struct Meant {
    filter: Option<FilterIn>,
    ids: Option<Vec<String>>,
    all: bool,
    note: Option<String>,
}

impl Meant {
    fn request(self, action: Action) -> Result<Request, Problem> {
        let note = self.note.unwrap_or_default();
        note::check(&note)?;
        let ids = self.ids.unwrap_or_default();
        if ids.len() > MOST_IDS {
            let why = format!("has {} entries: at most {MOST_IDS}; use a filter instead", ids.len());
            return Err(Problem::field("ids", why));
        }
        let ids = ids.iter().map(|id| letter_id(id)).collect::<Result<_, _>>()?;
        let filter = self.filter.unwrap_or_default();
        // Every message has a blank text in it, such as that of a variable that was never set.
        if filter.q.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(Problem::field(
                "q",
                "is blank, and that is in every message: say what to look for, or leave it out",
            ));
        }
        let filter = filter.check()?;
        Ok(Request { ids, all: self.all, note, ..Request::new(action, filter) })
    }
}

fn letter_id(text: &str) -> Result<LetterId, Problem> {
    text.parse().map_err(|error| Problem::field("ids", format!("is not accepted: {error}")))
}

fn rate(asked: u32) -> Result<u32, Problem> {
    if (1..=HIGHEST_RATE).contains(&asked) {
        return Ok(asked);
    }
    let why = format!(
        "is not accepted: expected 1 to {HIGHEST_RATE} letters per second; leave it out for no limit"
    );
    Err(Problem::field("rate", why))
}

async fn preview(console: &Console, request: &Request) -> Result<Response, Problem> {
    Ok(Json(PreviewView::from(console.preview(request).await?)).into_response())
}

async fn start(
    console: &Console,
    request: &Request,
    operator: &Operator,
    key: Option<String>,
) -> Result<Response, Problem> {
    // The key of one person's redrive is not that of another's, nor that of a resolution.
    let key = key.map(|key| format!("{} {} {key}", request.action.name(), operator.name()));
    let operation = console.start(request, operator, key.as_deref()).await?;
    let location = format!("/api/v1/redrives/{}", operation.id);
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)], Json(OperationView::from(operation))).into_response())
}
