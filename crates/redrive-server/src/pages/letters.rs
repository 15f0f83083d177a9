//! Letters, newest first, that a query means.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use redrive_core::dead_letter::{Filter, LetterId, Summary};
use redrive_engine::console::{Console, ConsoleError, Letterbox, Place};
use serde::Deserialize;

use super::failed::Failed;
use super::frame::{Frame, Section, Visitor, page};
use super::groups::away;
use super::moment::Moment;
use super::{query, text};

/// How many letters one page has.
const PAGE: u32 = 50;

#[derive(Deserialize)]
pub(super) struct Asked {
    q: Option<String>,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "letters.html")]
struct LettersPage {
    frame: Frame,
    q: String,
    /// What is wrong with the query, or with the place in the list.
    mistake: Option<String>,
    rows: Vec<Row>,
    /// The group that all of them are of.
    group: Option<Row>,
    is_first: bool,
    next: Option<String>,
    /// How far back a search looked that takes long.
    searched_to: Option<Moment>,
    unavailable: Vec<(String, String)>,
    /// What no store answers, when none does.
    all_away: Option<String>,
}

impl LettersPage {
    /// The query, inert; in the field it is as it was typed.
    fn shown_q(&self) -> String {
        text::line(&self.q, 300)
    }

    /// Qualifiers to choose: what they are called, and the query with them.
    fn choices(&self) -> Vec<(&'static str, String)> {
        let choices = [
            ("open", "status", "open"),
            ("failed", "status", "failed"),
            ("redriven", "status", "redriven"),
            ("resolved", "status", "resolved"),
            ("last hour", "since", "1h"),
        ];
        choices.map(|(said, name, value)| (said, text::encode(&query::with(&self.q, name, value)))).to_vec()
    }
}

/// One letter as lists show it.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) to: String,
    pub(super) pipeline: String,
    pub(super) status: &'static str,
    pub(super) event_type: String,
    pub(super) key: String,
    pub(super) class: &'static str,
    pub(super) code: Option<String>,
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) attempts: u32,
    pub(super) redrives: u32,
    pub(super) failed: Moment,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let q = asked.q.unwrap_or_default().trim().to_owned();
    if let Some(to) = letter_named(&console, &q) {
        return Ok(Redirect::to(&to).into_response());
    }
    let now = Timestamp::now();
    let mut shown = LettersPage {
        frame: Frame::new(Section::Letters, "Letters", visitor),
        mistake: None,
        rows: Vec::new(),
        group: None,
        is_first: asked.after.is_none(),
        next: None,
        searched_to: None,
        unavailable: Vec::new(),
        all_away: None,
        q,
    };
    let filter = match query::parse(&shown.q, now) {
        Ok(filter) => filter,
        Err(mistake) => return Ok(mistaken(shown, mistake.to_string())),
    };
    let after = match asked.after.as_deref().map(str::parse::<Place>).transpose() {
        Ok(after) => after,
        Err(error) => return Ok(mistaken(shown, format!("The place in the list {error}."))),
    };
    match console.list(&filter, PAGE, after.as_ref()).await {
        Ok(found) => fill(&mut shown, found, &filter, now),
        Err(ConsoleError::NoPipeline { asked, known }) => {
            let error = ConsoleError::NoPipeline { asked, known };
            return Ok(mistaken(shown, text::line(&format!("{error}."), 500)));
        }
        Err(ConsoleError::Unavailable(error)) => {
            shown.all_away = Some(text::line(&error.to_string(), 500));
            return Ok(page(StatusCode::SERVICE_UNAVAILABLE, &shown));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(page(StatusCode::OK, &shown))
}

/// The page of the letter, when its id was typed into the filter.
fn letter_named(console: &Console, q: &str) -> Option<String> {
    let id: LetterId = q.parse().ok()?;
    let is_known = console.names().any(|name| name == id.pipeline);
    (is_known && !q.contains(char::is_whitespace)).then(|| address(&id))
}

fn mistaken(mut shown: LettersPage, mistake: String) -> Response {
    shown.mistake = Some(mistake);
    page(StatusCode::UNPROCESSABLE_ENTITY, &shown)
}

fn fill(shown: &mut LettersPage, found: Letterbox, filter: &Filter, now: Timestamp) {
    shown.rows = found.letters.iter().map(|letter| row(letter, now)).collect();
    shown.group = shown.rows.first().filter(|_| filter.group.is_some()).cloned();
    let q = text::encode(&shown.q);
    shown.searched_to = found.searched_to.map(|at| Moment::new(at, now));
    shown.next = found.next.map(|next| format!("/letters?q={q}&after={}", text::encode(&next.to_string())));
    shown.unavailable = away(found.unavailable);
}

/// Where the page of a letter is.
pub(super) fn address(id: &LetterId) -> String {
    // Colons are fine in a path, and ids are nicer with theirs.
    format!("/letters/{}:{}", text::encode(&id.pipeline), text::encode(&id.local))
}

pub(super) fn row(letter: &Summary, now: Timestamp) -> Row {
    Row {
        id: letter.id.to_string(),
        to: address(&letter.id),
        pipeline: letter.id.pipeline.clone(),
        status: letter.status.name(),
        event_type: text::line(&letter.event_type, 60),
        key: text::line(&letter.key, 60),
        class: letter.failure.class.name(),
        code: letter.failure.code.as_ref().map(|code| text::line(&code.to_string(), 40)),
        kind: text::kind(&letter.failure.kind),
        message: text::line(&letter.failure.message, 160),
        attempts: letter.attempts,
        redrives: letter.redrive_count,
        failed: Moment::new(letter.failed_at, now),
    }
}
