//! One operation: how far it is, why it is not further, and stopping it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use redrive_engine::console::{Canary, Console, Request};
use redrive_store::OperationState;
use serde::Deserialize;

use super::failed::Failed;
use super::form::wrong;
use super::frame::{Frame, Section, Visitor, page};
use super::operations::{Row, row, wording};
use super::{query, text};
use crate::number;

/// How many refusals are shown.
const MOST_REFUSALS: usize = 100;

#[derive(Deserialize)]
pub(super) struct Asked {
    did: Option<String>,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct OperationPage {
    frame: Frame,
    row: Row,
    rate: String,
    ramp: String,
    /// The letters that it was confirmed for, as a query.
    to: Option<String>,
    refusals: Vec<String>,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let operation = console.operation(operation_id(&id)?).await?;
    let refusals = console.refusals(operation.id).await?;
    let request = Request::of(&operation.request).ok();
    let ramp = match request.as_ref().map(|request| &request.canary) {
        Some(Some(canary)) => ramp(canary),
        Some(None) => "all at once".to_owned(),
        None => "–".to_owned(),
    };
    let wording = wording(&console, std::slice::from_ref(&operation)).await;
    let rate = request.as_ref().map(|request| request.rate);
    let title = format!("Operation {}", operation.id);
    let shown = OperationPage {
        frame: Frame::new(Section::Operations, &title, visitor).after(asked.did.as_deref()),
        row: row(&operation, &wording, Timestamp::now()),
        rate: rate.flatten().map_or_else(
            || "no limit".to_owned(),
            |rate| format!("{} per second", number::grouped(rate.into())),
        ),
        ramp,
        to: request
            .filter(|request| request.ids.is_empty())
            .map(|request| format!("/letters?q={}", text::encode(&query::of(&request.filter)))),
        refusals: refusals.iter().take(MOST_REFUSALS).map(|refusal| text::line(refusal, 500)).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

pub(super) async fn turn(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let (next, did) = match turn.as_str() {
        "pause" => (OperationState::Paused, "paused"),
        "resume" => (OperationState::Running, "resumed"),
        "cancel" => (OperationState::Cancelled, "cancelled"),
        _ => return Err(wrong("An operation can be paused, resumed and cancelled.")),
    };
    let operation = console.turn(operation_id(&id)?, next, &visitor.operator()).await?;
    Ok(Redirect::to(&format!("/operations/{}?did={did}", operation.id)).into_response())
}

fn operation_id(text: &str) -> Result<i64, Failed> {
    text.parse()
        .map_err(|_| Failed::new(StatusCode::NOT_FOUND, "Operations have numbers: the list has them."))
}

fn ramp(canary: &Canary) -> String {
    let steps: Vec<String> = canary.steps.iter().map(ToString::to_string).collect();
    format!("{}, then the rest", steps.join(", "))
}
