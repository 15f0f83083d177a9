//! Operations: what is being done to many letters, how far it is, and stopping it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use redrive_core::dead_letter::Filter;
use redrive_engine::console::{Action, Canary, Console, Request};
use redrive_store::{Operation, OperationState};
use serde::Deserialize;

use super::confirm::{action, ids};
use super::failed::Failed;
use super::form::{Form, wrong};
use super::frame::{Frame, Section, Visitor, page};
use super::moment::{Moment, span};
use super::{query, text};

/// How many operations one page has.
const PAGE: u32 = 50;
/// How many refusals are shown.
const MOST_REFUSALS: usize = 100;

#[derive(Deserialize)]
pub(super) struct Asked {
    before: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct AskedOne {
    did: Option<String>,
}

#[derive(Template)]
#[template(path = "operations.html")]
struct OperationsPage {
    frame: Frame,
    rows: Vec<Row>,
    is_first: bool,
    next: Option<i64>,
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

/// An operation, ready to be shown.
struct Row {
    id: i64,
    action: String,
    state: &'static str,
    reason: String,
    operator: String,
    note: String,
    meant: String,
    /// Letters that failed after this stay out.
    as_of: Option<String>,
    total: u64,
    dealt_with: u64,
    counts: String,
    created: Moment,
    updated: Moment,
    took: String,
    is_counting: bool,
    can_pause: bool,
    can_resume: bool,
    can_cancel: bool,
}

pub(super) async fn list(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let operations = console.operations(asked.before, PAGE).await?;
    let now = Timestamp::now();
    let is_full = operations.len() >= PAGE as usize;
    let shown = OperationsPage {
        frame: Frame::new(Section::Operations, "Operations", visitor),
        is_first: asked.before.is_none(),
        next: operations.last().filter(|_| is_full).map(|last| last.id),
        rows: operations.iter().map(|operation| row(operation, now)).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Query(asked): Query<AskedOne>,
) -> Result<Response, Failed> {
    let operation = console.operation(number(&id)?).await?;
    let refusals = console.refusals(operation.id).await?;
    let request = Request::of(&operation.request).ok();
    let ramp = match request.as_ref().map(|request| &request.canary) {
        Some(Some(canary)) => ramp(canary),
        Some(None) => "all at once".to_owned(),
        None => "–".to_owned(),
    };
    let rate = request.as_ref().map(|request| request.rate);
    let title = format!("Operation {}", operation.id);
    let shown = OperationPage {
        frame: Frame::new(Section::Operations, &title, visitor).after(asked.did.as_deref()),
        row: row(&operation, Timestamp::now()),
        rate: rate.flatten().map_or_else(
            || "no limit".to_owned(),
            |rate| format!("{} per second", text::number(rate.into())),
        ),
        ramp,
        to: request
            .filter(|request| request.ids.is_empty())
            .map(|request| format!("/letters?q={}", text::encode(&query::of(&request.filter)))),
        refusals: refusals.iter().take(MOST_REFUSALS).map(|refusal| text::line(refusal, 500)).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

/// Starts what was confirmed.
pub(super) async fn start(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    form: Form,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let request = request(&form)?;
    let operation = console.start(&request, &visitor.operator(), form.get("key")).await?;
    Ok(Redirect::to(&format!("/operations/{}", operation.id)).into_response())
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
    let operation = console.turn(number(&id)?, next, &visitor.operator()).await?;
    Ok(Redirect::to(&format!("/operations/{}?did={did}", operation.id)).into_response())
}

/// What a confirmed form asks for.
fn request(form: &Form) -> Result<Request, Failed> {
    let action = action(form.get("action"))?;
    let ids = ids(form)?;
    let filter = match form.get("filter") {
        Some(json) if ids.is_empty() => serde_json::from_str(json)
            .map_err(|error| wrong(format!("The filter of the form cannot be read: {error}.")))?,
        _ => Filter::default(),
    };
    if form.get("everything").is_some() && form.get("sure").is_none() {
        return Err(wrong("This means every letter that waits: tick the box that says so."));
    }
    let note = form.get("note").unwrap_or_default().to_owned();
    if action == Action::Resolve && note.is_empty() {
        return Err(wrong("A resolution needs a note that says why the letters are done with."));
    }
    let redrives = action == Action::Redrive;
    let canary =
        if redrives && form.get("canary").is_some() { Some(canary(form.get("steps"))?) } else { None };
    Ok(Request { action, filter, ids, all: false, rate: rate(form.get("rate"))?, canary, note })
}

fn rate(text: Option<&str>) -> Result<Option<u32>, Failed> {
    let Some(text) = text else { return Ok(None) };
    let rate = text.replace(',', "").parse().map_err(|_| {
        wrong(format!(
            "{:?} is no rate: write a whole number of letters per second, or nothing for no limit.",
            text::line(text, 20)
        ))
    })?;
    Ok(Some(rate))
}

fn canary(steps: Option<&str>) -> Result<Canary, Failed> {
    let Some(steps) = steps else { return Ok(Canary::default()) };
    let numbers = steps.split([',', ' ']).filter(|step| !step.is_empty()).map(str::parse);
    let steps = numbers.collect::<Result<Vec<u32>, _>>().map_err(|_| {
        wrong(format!("{:?} are no steps of a ramp: write numbers such as 1, 5, 20.", text::line(steps, 40)))
    })?;
    Ok(Canary { steps, ..Canary::default() })
}

fn number(text: &str) -> Result<i64, Failed> {
    text.parse()
        .map_err(|_| Failed::new(StatusCode::NOT_FOUND, "Operations have numbers: the list has them."))
}

fn ramp(canary: &Canary) -> String {
    let steps: Vec<String> = canary.steps.iter().map(ToString::to_string).collect();
    format!("{}, then the rest", steps.join(", "))
}

fn row(operation: &Operation, now: Timestamp) -> Row {
    let state = operation.state;
    let request = Request::of(&operation.request);
    let meant = match &request {
        Ok(request) if !request.ids.is_empty() => {
            format!("{} by id", text::count(request.ids.len() as u64, "letter"))
        }
        Ok(request) => {
            let frozen = Filter { until: None, ..request.filter.clone() };
            if frozen.is_empty() { "every letter that waits".to_owned() } else { query::of(&frozen) }
        }
        Err(_) => String::new(),
    };
    let as_of = request.ok().and_then(|request| request.filter.until);
    let took = operation.updated_at.duration_since(operation.created_at).as_secs();
    Row {
        id: operation.id,
        action: text::line(&operation.action, 40),
        state: state.name(),
        reason: text::line(&operation.reason, 1_000),
        operator: text::line(&operation.operator, 100),
        note: text::line(&operation.note, 1_000),
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

fn counts(operation: &Operation) -> String {
    let mut counts = format!("{} of {} done", text::number(operation.done), text::number(operation.total));
    if operation.refused > 0 {
        counts.push_str(&format!(", {} refused", text::number(operation.refused)));
    }
    if operation.failed > 0 {
        counts.push_str(&format!(", {} failed again", text::number(operation.failed)));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str) -> Result<Request, Failed> {
        request(&Form::read(form.as_bytes()))
    }

    #[test]
    fn a_form_becomes_a_request() {
        let form =
            "action=redrive&filter=%7B%22type%22%3A%22A%22%7D&rate=1%2C000&canary=1&steps=2%2C+10&note=+why+";
        let request = read(form).unwrap();
        assert_eq!(request.filter.event_type.as_deref(), Some("A"));
        assert_eq!((request.rate, request.note.as_str()), (Some(1_000), "why"));
        assert_eq!(request.canary.unwrap().steps, [2, 10]);
        let request = read("action=redrive&id=a:1&id=b:2&filter=%7B%7D").unwrap();
        assert_eq!((request.ids.len(), request.canary, request.rate), (2, None, None));
    }

    #[test]
    fn a_form_that_makes_no_sense_is_refused() {
        for form in [
            "",
            "action=delete",
            "action=resolve&id=a:1",
            "action=redrive&id=nonsense",
            "action=redrive&id=a:1&rate=fast",
            "action=redrive&id=a:1&canary=1&steps=one",
            "action=redrive&filter=%7B%22typ%22%3A1%7D",
            "action=redrive&filter=%7B%7D&everything=1",
        ] {
            assert!(read(form).is_err(), "{form}");
        }
    }
}
