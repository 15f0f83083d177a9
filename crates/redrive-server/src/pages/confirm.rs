//! Before many letters are acted on: how many they are, as of when, how fast, and why.
//!
//! The page freezes what it counted: letters that fail after that moment are not meant any more, so what is
//! confirmed is what was shown.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use redrive_core::dead_letter::{Filter, LetterId, PipelineKind};
use redrive_engine::console::{Action, Console, Preview, Request};
use serde::Deserialize;

use super::failed::Failed;
use super::form::{Form, fresh_key, wrong};
use super::frame::{Frame, Section, Visitor, page};
use super::moment::Moment;
use super::{query, text};
use crate::number;

#[derive(Deserialize)]
pub(super) struct Asked {
    action: Option<String>,
    q: Option<String>,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    action: &'static str,
    verb: &'static str,
    /// What was asked for, in words.
    meant: String,
    total: u64,
    shown_total: String,
    pipelines: Vec<(String, String)>,
    as_of: String,
    as_of_exactly: String,
    /// Every letter of every pipeline.
    is_everything: bool,
    filter: String,
    ids: Vec<String>,
    back: String,
    /// Files of events are meant, and will not be uploaded.
    sets_files_aside: bool,
    key: String,
}

impl ConfirmPage {
    fn is_redrive(&self) -> bool {
        self.action == Action::Redrive.name()
    }
}

/// Of the letters that a query means.
pub(super) async fn matching(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let action = action(asked.action.as_deref())?;
    let q = asked.q.unwrap_or_default();
    all_matching(visitor, &console, action, q.trim()).await
}

/// Of the letters that were ticked, or of all that the list was of.
pub(super) async fn chosen(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    form: Form,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let action = action(form.get("action"))?;
    let q = form.get("q").unwrap_or_default();
    if form.get("everything").is_some() {
        return all_matching(visitor, &console, action, q).await;
    }
    let ids = ids(&form)?;
    if ids.is_empty() {
        return Err(wrong("No letter is ticked: tick some, or tick the box for all that match."));
    }
    let back = format!("/letters?q={}", text::encode(q));
    confirm(
        visitor,
        &console,
        Request { ids, ..Request::new(action, Filter::default()) },
        String::new(),
        back,
    )
    .await
}

async fn all_matching(
    visitor: Visitor,
    console: &Console,
    action: Action,
    q: &str,
) -> Result<Response, Failed> {
    let now = Timestamp::now();
    let filter = query::parse(q, now).map_err(|mistake| wrong(mistake.to_string()))?;
    let until = filter.until.map_or(now, |until| until.min(now));
    let meant = query::of(&filter);
    let back = format!("/letters?q={}", text::encode(q));
    confirm(visitor, console, Request::new(action, Filter { until: Some(until), ..filter }), meant, back)
        .await
}

async fn confirm(
    visitor: Visitor,
    console: &Console,
    request: Request,
    meant: String,
    back: String,
) -> Result<Response, Failed> {
    let preview = console.preview(&request).await?;
    let as_of = request.filter.until.unwrap_or(preview.as_of).max(preview.as_of);
    let (verb, title) = match request.action {
        Action::Redrive => ("Redrive", "Confirm a redrive"),
        Action::Resolve => ("Resolve", "Confirm a resolution"),
    };
    let shown = ConfirmPage {
        frame: Frame::new(Section::Letters, title, visitor),
        action: request.action.name(),
        verb,
        total: preview.total(),
        shown_total: number::counted(preview.total(), "letter"),
        pipelines: preview
            .letters
            .iter()
            .map(|(name, count)| (name.clone(), number::grouped(*count)))
            .collect(),
        as_of: Moment::clock(as_of),
        as_of_exactly: Moment::new(as_of, as_of).full,
        is_everything: request.ids.is_empty() && meant.is_empty(),
        filter: serde_json::to_string(&request.filter).unwrap_or_default(),
        ids: request.ids.iter().map(ToString::to_string).collect(),
        meant: text::line(&meant, 500),
        back,
        sets_files_aside: request.action == Action::Resolve && has_files(console, &preview),
        key: fresh_key()?,
    };
    Ok(page(StatusCode::OK, &shown))
}

/// Whether files of events are meant.
fn has_files(console: &Console, preview: &Preview) -> bool {
    let is_ingest =
        |name: &str| console.desk(name).is_ok_and(|desk| desk.queue.kind() == PipelineKind::Ingest);
    preview.letters.iter().any(|(name, _)| is_ingest(name))
}

/// What is to be done.
pub(super) fn action(name: Option<&str>) -> Result<Action, Failed> {
    match name {
        Some("redrive") => Ok(Action::Redrive),
        Some("resolve") => Ok(Action::Resolve),
        _ => Err(wrong(
            "The form does not say whether to redrive or to resolve: start from the letters again.",
        )),
    }
}

/// The letters that are named one by one.
pub(super) fn ids(form: &Form) -> Result<Vec<LetterId>, Failed> {
    form.all("id").map(|id| id.parse().map_err(|error| wrong(format!("{error}.")))).collect()
}
