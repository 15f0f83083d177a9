//! One letter: what it says, what happened to it, and what can be done about it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use redrive_core::dead_letter::{Letter, LetterId, Origin, PipelineKind, Redelivery, RedeliveryState};
use redrive_core::history::Attempt;
use redrive_engine::console::{Console, is_waiting};
use redrive_store::EditedPayload;
use serde::Deserialize;

use super::comparison::{DiffLine, comparison};
use super::failed::Failed;
use super::form::{Form, fresh_key, wrong};
use super::frame::{Frame, Section, Visitor, page};
use super::letters::{Row, address, row};
use super::moment::Moment;
use super::payload::{self, Shown, View};
use super::{query, text};
use crate::download::attachment;
use crate::note;

/// The most headers that are shown.
const MOST_HEADERS: usize = 100;

#[derive(Deserialize)]
pub(super) struct Asked {
    view: Option<String>,
    did: Option<String>,
}

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterPage {
    frame: Frame,
    row: Row,
    is_waiting: bool,
    is_file: bool,
    message: String,
    group: String,
    first_failed: Moment,
    origin: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    headers_left_out: usize,
    attempts: Vec<Try>,
    resolution: Option<Closed>,
    redelivery: Option<Redelivered>,
    redriven_from: Option<Link>,
    payload: Shown,
    views: Vec<(&'static str, bool)>,
    size: String,
    cannot_edit: Option<&'static str>,
    edits: Vec<Edit>,
    key: String,
}

/// One attempt.
struct Try {
    number: u32,
    /// How many attempts before it are not kept.
    missing: u32,
    at: Moment,
    class: &'static str,
    code: Option<String>,
    kind: String,
    message: String,
}

struct Closed {
    by: String,
    at: Moment,
    note: String,
}

/// What became of its event since it was last redriven.
struct Redelivered {
    said: &'static str,
    at: Option<Moment>,
    /// The other letter that it failed again as.
    letter: Option<Link>,
}

/// Another letter.
struct Link {
    id: String,
    to: String,
}

/// What was changed before it was redriven.
struct Edit {
    by: String,
    at: Moment,
    lines: Vec<DiffLine>,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let id = letter_id(&id)?;
    let letter = console.letter(&id).await?;
    let edits = console.edits(&id).await?;
    let now = Timestamp::now();
    let row = row(&letter.summary, now);
    let shown = payload::show(&letter.payload, asked.view.as_deref().and_then(View::named));
    let title = format!("{} {}", row.id, row.event_type);
    let shown = LetterPage {
        frame: Frame::new(Section::Letters, &title, visitor).after(asked.did.as_deref()),
        is_waiting: is_waiting(letter.summary.status),
        is_file: letter.summary.kind == PipelineKind::Ingest,
        message: text::visible(&letter.summary.failure.message),
        group: group_address(&letter),
        first_failed: Moment::new(letter.first_failed_at, now),
        origin: origin(&letter.origin).into_iter().chain(target(&letter)).collect(),
        headers: letter.headers.iter().take(MOST_HEADERS).map(header).collect(),
        headers_left_out: letter.headers.len().saturating_sub(MOST_HEADERS),
        attempts: attempts(letter.history.attempts(), now),
        resolution: letter.resolution.as_ref().map(|closed| Closed {
            by: text::line(&closed.by, 100),
            at: Moment::new(closed.at, now),
            note: text::line(&closed.note, 1_000),
        }),
        redelivery: letter.redelivery.as_ref().map(|found| redelivered(found, &letter.summary.id, now)),
        redriven_from: letter.redriven_from.as_ref().map(link),
        views: View::ALL.map(|view| (view.name(), view == shown.view)).to_vec(),
        size: text::size(letter.payload.len()),
        cannot_edit: payload::editable(&letter.payload).err(),
        edits: edits.iter().map(|edit| edit_of(edit, now)).collect(),
        key: fresh_key()?,
        payload: shown,
        row,
    };
    Ok(page(StatusCode::OK, &shown))
}

/// The payload, to be saved.
pub(super) async fn payload(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    let id = letter_id(&id)?;
    Ok(attachment(&id, console.letter(&id).await?.payload))
}

pub(super) async fn redrive(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let id = letter_id(&id)?;
    let edited = match form.raw("payload") {
        Some(sent) => Some(returned(&console, &id, sent).await?),
        None => None,
    };
    let bytes = edited.as_ref().map(String::as_bytes);
    console.redrive(&id, bytes, &visitor.operator(), form.get("key")).await?;
    let did = if edited.is_some() { "edited" } else { "redriven" };
    Ok(Redirect::to(&format!("{}?did={did}", address(&id))).into_response())
}

pub(super) async fn resolve(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let id = letter_id(&id)?;
    let note = form
        .get("note")
        .ok_or_else(|| wrong("A resolution needs a note that says why the letter is done with."))?;
    note::check(note)?;
    console.resolve(&id, &visitor.operator(), note, form.get("key")).await?;
    Ok(Redirect::to(&format!("{}?did=resolved", address(&id))).into_response())
}

/// What a form sent back for the payload of this letter.
async fn returned(console: &Console, id: &LetterId, sent: &str) -> Result<String, Failed> {
    let letter = console.letter(id).await?;
    let original = payload::editable(&letter.payload).map_err(wrong)?;
    Ok(payload::returned(sent, original))
}

pub(super) fn letter_id(text: &str) -> Result<LetterId, Failed> {
    text.parse().map_err(|error| Failed::new(StatusCode::NOT_FOUND, format!("{error}.")))
}

fn group_address(letter: &Letter) -> String {
    let summary = &letter.summary;
    let pipeline = query::qualified("pipeline", &summary.id.pipeline);
    format!("/letters?q={}", text::encode(&format!("{pipeline} group:{}", summary.fingerprint)))
}

fn origin(origin: &Origin) -> Vec<(&'static str, String)> {
    match origin {
        Origin::Table { table, id } => vec![("table", text::line(table, 200)), ("row", id.to_string())],
        Origin::Topic { topic, partition, offset } => vec![
            ("topic", text::line(topic, 250)),
            ("partition", partition.to_string()),
            ("offset", offset.to_string()),
        ],
        Origin::File { file, line } => vec![("file", text::line(file, 500)), ("line", line.to_string())],
        Origin::Service { name } => vec![("service", text::line(name, 200))],
    }
}

/// Where a letter that was handed in is redriven to.
fn target(letter: &Letter) -> Option<(&'static str, String)> {
    match &letter.target {
        Some(target) => Some(("target", text::line(target, 255))),
        None if letter.summary.kind == PipelineKind::Intake => {
            Some(("target", "none: it can only be resolved".to_owned()))
        }
        None => None,
    }
}

fn redelivered(redelivery: &Redelivery, of: &LetterId, now: Timestamp) -> Redelivered {
    Redelivered {
        said: match redelivery.state {
            RedeliveryState::Pending => "not handled yet",
            RedeliveryState::Delivered => "delivered",
            RedeliveryState::HandedOver => "handed over",
            RedeliveryState::Failed => "failed again",
        },
        at: redelivery.at.map(|at| Moment::new(at, now)),
        letter: redelivery.letter.as_ref().filter(|letter| *letter != of).map(link),
    }
}

fn link(letter: &LetterId) -> Link {
    Link { id: letter.to_string(), to: address(letter) }
}

fn header((name, value): &(String, Vec<u8>)) -> (String, String) {
    const LONGEST: usize = 500;
    let shown = match std::str::from_utf8(value) {
        Ok(value) => text::line(value, LONGEST),
        Err(_) => {
            let digits: String = value.iter().take(LONGEST / 2).map(|byte| format!("{byte:02x}")).collect();
            format!("0x{digits}{}", if value.len() > LONGEST / 2 { "…" } else { "" })
        }
    };
    (text::line(name, 200), shown)
}

fn attempts(attempts: &[Attempt], now: Timestamp) -> Vec<Try> {
    let mut last = 0;
    let shown = attempts.iter().map(|attempt| {
        let missing = attempt.number.saturating_sub(last + 1);
        last = attempt.number;
        Try {
            number: attempt.number,
            missing,
            at: Moment::new(attempt.at, now),
            class: attempt.failure.class.name(),
            code: attempt.failure.code.as_ref().map(|code| text::line(&code.to_string(), 40)),
            kind: text::kind(&attempt.failure.kind),
            message: text::line(&attempt.failure.message, 600),
        }
    });
    let mut shown: Vec<Try> = shown.collect();
    shown.reverse();
    shown
}

fn edit_of(edit: &EditedPayload, now: Timestamp) -> Edit {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = comparison(&text(&edit.original), &text(&edit.edited));
    Edit { by: text::line(&edit.operator, 100), at: Moment::new(edit.at, now), lines }
}
