//! Operations: what is being done to many letters, and how far each is.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use redrive_core::dead_letter::Filter;
use redrive_engine::console::{Console, Request};
use redrive_store::{Operation, OperationState};
use serde::Deserialize;

use super::failed::Failed;
use super::frame::{Frame, Section, Visitor, page};
use super::moment::{Moment, span};
use super::wording::Wording;
use super::{query, text};
use crate::number;

/// How many operations one page has.
const PAGE: u32 = 50;

#[derive(Deserialize)]
pub(super) struct Asked {
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "operations.html")]
struct OperationsPage {
    frame: Frame,
    rows: Vec<Row>,
    is_first: bool,
    next: Option<i64>,
}

/// An operation, ready to be shown.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) action: String,
    pub(super) state: &'static str,
    pub(super) reason: String,
    pub(super) operator: String,
    pub(super) note: String,
    pub(super) meant: String,
    /// What the group is about that it is for.
    pub(super) about: Option<String>,
    /// Letters that failed after this stay out.
    pub(super) as_of: Option<String>,
    pub(super) total: u64,
    pub(super) dealt_with: u64,
    pub(super) counts: String,
    pub(super) created: Moment,
    pub(super) updated: Moment,
    pub(super) took: String,
    pub(super) is_counting: bool,
    pub(super) can_pause: bool,
    pub(super) can_resume: bool,
    pub(super) can_cancel: bool,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let operations = console.operations(asked.before, PAGE).await?;
    let wording = wording(&console, &operations).await;
    let now = Timestamp::now();
    let is_full = operations.len() >= PAGE as usize;
    let shown = OperationsPage {
        frame: Frame::new(Section::Operations, "Operations", visitor),
        is_first: asked.before.is_none(),
        next: operations.last().filter(|_| is_full).map(|last| last.id),
        rows: operations.iter().map(|operation| row(operation, &wording, now)).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

/// What the groups are about that these operations are for.
pub(super) async fn wording(console: &Console, operations: &[Operation]) -> Wording {
    let requests = operations.iter().filter_map(|operation| Request::of(&operation.request).ok());
    let meant: Vec<String> = requests.map(|request| meant(&request)).collect();
    Wording::of(console, meant.iter().map(String::as_str)).await
}

pub(super) fn row(operation: &Operation, wording: &Wording, now: Timestamp) -> Row {
    let state = operation.state;
    let request = Request::of(&operation.request);
    let meant = request.as_ref().map(meant).unwrap_or_default();
    let as_of = request.ok().and_then(|request| request.filter.until);
    let took = operation.updated_at.duration_since(operation.created_at).as_secs();
    Row {
        id: operation.id,
        action: text::line(&operation.action, 40),
        state: state.name(),
        reason: text::line(&operation.reason, 1_000),
        operator: text::line(&operation.operator, 100),
        note: text::line(&operation.note, 1_000),
        about: wording.about(&meant),
        meant: text::line(&meant, 300),
        as_of: as_of.map(|as_of| Moment::new(as_of, now).full),
        total: operation.total,
        dealt_with: (operation.done + operation.refused).min(operation.total),
        counts: counts(operation),
        created: Moment::new(operation.created_at, now),
        updated: Moment::new(operation.updated_at, now),
        took: span(took.max(0).unsigned_abs()),
        is_counting: state == OperationState::Freezing,
        can_pause: state.can_become(OperationState::Paused),
        // Freezing becomes running by itself.
        can_resume: state != OperationState::Freezing && state.can_become(OperationState::Running),
        can_cancel: state.can_become(OperationState::Cancelled),
    }
}

/// The letters that were asked for, as a query.
fn meant(request: &Request) -> String {
    if !request.ids.is_empty() {
        return format!("{} by id", number::counted(request.ids.len() as u64, "letter"));
    }
    let frozen = Filter { until: None, ..request.filter.clone() };
    if frozen.is_empty() { "every letter that waits".to_owned() } else { query::of(&frozen) }
}

fn counts(operation: &Operation) -> String {
    let mut counts =
        format!("{} of {} done", number::grouped(operation.done), number::grouped(operation.total));
    if operation.refused > 0 {
        counts.push_str(&format!(", {} refused", number::grouped(operation.refused)));
    }
    if operation.failed > 0 {
        counts.push_str(&format!(", {} failed again", number::grouped(operation.failed)));
    }
    counts
}
