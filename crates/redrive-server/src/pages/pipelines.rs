//! Pipelines: how each is, what waits in it, and its recent past.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use redrive_core::dead_letter::Status;
use redrive_engine::console::{Console, Overview};
use serde::Deserialize;

use super::chart::{self, Chart};
use super::failed::Failed;
use super::form::wrong;
use super::frame::{Frame, Section, Visitor, page};
use super::moment::{Moment, span};
use super::series::Past;
use super::{query, text};
use crate::Metrics;

#[derive(Deserialize)]
pub(super) struct Asked {
    did: Option<String>,
}

#[derive(Template)]
#[template(path = "pipelines.html")]
struct PipelinesPage {
    frame: Frame,
    pipelines: Vec<Card>,
    all_away: bool,
}

/// One pipeline, ready to be shown.
struct Card {
    name: String,
    address: String,
    kind: &'static str,
    /// `working`, `paused`, `elsewhere`, `troubled`.
    state: &'static str,
    said: &'static str,
    trouble: Option<String>,
    can_pause: bool,
    can_resume: bool,
    /// Status, how many, and where they are; nothing while the store does not answer.
    counts: Option<Vec<(&'static str, String, String)>>,
    oldest: Option<Moment>,
    types: Vec<(String, String, String)>,
    charts: Vec<Chart>,
    covers: String,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    State(metrics): State<Metrics>,
    Query(asked): Query<Asked>,
) -> Response {
    let overviews = console.overviews().await;
    let now = Timestamp::now();
    let all_away = !overviews.is_empty() && overviews.iter().all(|overview| overview.stats.is_none());
    let shown = PipelinesPage {
        frame: Frame::new(Section::Pipelines, "Pipelines", visitor).after(asked.did.as_deref()),
        pipelines: overviews
            .iter()
            .map(|overview| card(overview, &metrics.series.of(&overview.name), now))
            .collect(),
        all_away,
    };
    let status = if all_away { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    page(status, &shown)
}

pub(super) async fn turn(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Path((name, turn)): Path<(String, String)>,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let (paused, did) = match turn.as_str() {
        "pause" => (true, "paused"),
        "resume" => (false, "resumed"),
        _ => return Err(wrong("A pipeline can be paused and resumed.")),
    };
    console.set_paused(&name, paused, &visitor.operator()).await?;
    Ok(Redirect::to(&format!("/pipelines?did={did}")).into_response())
}

fn card(overview: &Overview, past: &Past, now: Timestamp) -> Card {
    let (state, said) = match (&overview.trouble, overview.paused) {
        (Some(_), _) => ("troubled", "in trouble"),
        (None, Some(true)) => ("paused", "paused"),
        (None, Some(false)) => ("working", "working"),
        (None, None) => ("elsewhere", "no workers in this process"),
    };
    let stats = overview.stats.as_ref();
    Card {
        name: overview.name.clone(),
        address: text::encode(&overview.name),
        kind: overview.kind.name(),
        state,
        said,
        trouble: overview.trouble.as_ref().map(|trouble| text::line(trouble, 500)),
        can_pause: overview.paused == Some(false),
        can_resume: overview.paused == Some(true),
        counts: stats.map(|stats| {
            let count = |status: Status| {
                let to = letters(&overview.name, "status", status.name());
                (status.name(), text::number(stats.count(status)), to)
            };
            Status::ALL.map(count).to_vec()
        }),
        oldest: stats.and_then(|stats| stats.oldest_waiting).map(|oldest| Moment::new(oldest, now)),
        types: stats.map_or_else(Vec::new, |stats| {
            let types = stats.waiting_by_type.iter().take(8);
            let shown = |(name, count): &(String, u64)| {
                (text::line(name, 60), text::number(*count), letters(&overview.name, "type", name))
            };
            types.map(shown).collect()
        }),
        charts: vec![
            Chart::new("Throughput", &past.throughput, chart::rate),
            Chart::new("Failed attempts", &past.failures, chart::rate),
            Chart::new("Backlog", &past.backlog, chart::whole),
            Chart::new("Oldest letter", &past.oldest, chart::age),
        ],
        covers: span(past.length.as_secs()),
    }
}

/// Where the letters of a pipeline are that have this value.
fn letters(pipeline: &str, name: &str, value: &str) -> String {
    // Endless values would make endless addresses.
    let value: String = value.chars().take(200).collect();
    let q = format!("{} {}", query::qualified("pipeline", pipeline), query::qualified(name, &value));
    format!("/letters?q={}", text::encode(&q))
}
