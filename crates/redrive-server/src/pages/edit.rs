//! Edit and redrive: the editor, then what the edit changes, then the redrive.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use redrive_core::dead_letter::LetterId;
use redrive_engine::console::{Console, is_waiting};

use super::comparison::{DiffLine, comparison};
use super::failed::Failed;
use super::form::{Form, fresh_key, wrong};
use super::frame::{Frame, Section, Visitor, page};
use super::letter::letter_id;
use super::letters::address;
use super::payload;
use crate::json;

#[derive(Template)]
#[template(path = "edit.html")]
struct EditPage {
    frame: Frame,
    id: String,
    to: String,
    payload: String,
    is_json: bool,
}

#[derive(Template)]
#[template(path = "review.html")]
struct ReviewPage {
    frame: Frame,
    id: String,
    to: String,
    payload: String,
    lines: Vec<DiffLine>,
    /// It was JSON and is none any more.
    breaks_json: bool,
    key: String,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    let (id, original) = original(&visitor, &console, &id).await?;
    Ok(editor(visitor, &id, original.clone(), &original))
}

/// The editor with what was written in it already.
pub(super) async fn again(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Failed> {
    let (id, original) = original(&visitor, &console, &id).await?;
    let written = payload::returned(form.raw("payload").unwrap_or_default(), &original);
    Ok(editor(visitor, &id, written, &original))
}

pub(super) async fn review(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Failed> {
    let (id, original) = original(&visitor, &console, &id).await?;
    let sent =
        form.raw("payload").ok_or_else(|| wrong("The form has no payload: start from the letter again."))?;
    let written = payload::returned(sent, &original);
    let shown = ReviewPage {
        frame: Frame::new(Section::Letters, &format!("Review the edit of {id}"), visitor),
        lines: comparison(&original, &written),
        breaks_json: json::is_json(&original) && !json::is_json(&written),
        key: fresh_key()?,
        to: address(&id),
        id: id.to_string(),
        payload: written,
    };
    Ok(page(StatusCode::OK, &shown))
}

/// What the letter says, if it can be edited.
async fn original(visitor: &Visitor, console: &Console, id: &str) -> Result<(LetterId, String), Failed> {
    visitor.must_act()?;
    let id = letter_id(id)?;
    let letter = console.letter(&id).await?;
    if !is_waiting(letter.summary.status) {
        let what = format!("Letter {id} is {}: only letters that wait can be edited.", letter.summary.status);
        return Err(Failed::new(StatusCode::CONFLICT, what));
    }
    let original = payload::editable(&letter.payload).map_err(wrong)?.to_owned();
    Ok((id, original))
}

fn editor(visitor: Visitor, id: &LetterId, payload: String, original: &str) -> Response {
    let shown = EditPage {
        frame: Frame::new(Section::Letters, &format!("Edit {id}"), visitor),
        is_json: json::is_json(original),
        to: address(id),
        id: id.to_string(),
        payload,
    };
    page(StatusCode::OK, &shown)
}
