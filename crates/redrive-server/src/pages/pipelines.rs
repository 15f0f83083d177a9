//! Pipelines: how each is, what waits in it, and its recent past.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::{SignedDuration, Timestamp};
use redrive_core::dead_letter::{PipelineKind, Status};
use redrive_engine::console::{Console, Overview};
use serde::Deserialize;

use super::chart::{self, Chart};
use super::failed::Failed;
use super::form::wrong;
use super::frame::{Frame, Section, Visitor, page};
use super::moment::{Moment, span};
use super::{query, text};
use crate::view::PointView;
use crate::{Series, number};

/// How many points of all pipelines one page has.
const MOST_POINTS: usize = 700;

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
    /// Where its events go, when that is not their target.
    ladder: Option<&'static str>,
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
    State(series): State<Series>,
    Query(asked): Query<Asked>,
) -> Response {
    let overviews = console.overviews().await;
    let now = Timestamp::now();
    let all_away = !overviews.is_empty() && overviews.iter().all(|overview| overview.stats.is_none());
    let pasts = pasts(&series, now);
    let past = |name: &str| pasts.get(name).cloned().unwrap_or_default();
    let card = |overview: &Overview| {
        let rung = series.latest(&overview.name).rung;
        card(overview, &past(&overview.name), rung.and_then(ladder), now)
    };
    let shown = PipelinesPage {
        frame: Frame::new(Section::Pipelines, "Pipelines", visitor).after(asked.did.as_deref()),
        pipelines: overviews.iter().map(card).collect(),
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

fn card(overview: &Overview, past: &Past, ladder: Option<&'static str>, now: Timestamp) -> Card {
    let (state, said) = match (&overview.trouble, overview.paused) {
        (Some(_), _) => ("troubled", "in trouble"),
        (None, Some(true)) => ("paused", "paused"),
        (None, Some(false)) => ("working", "working"),
        // It has no workers that claim: whoever sends events is served.
        (None, None) if overview.kind == PipelineKind::Ingest => ("working", "working"),
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
        ladder,
        can_pause: overview.paused == Some(false),
        can_resume: overview.paused == Some(true),
        counts: stats.map(|stats| {
            let count = |status: Status| {
                let to = letters(&overview.name, "status", status.name());
                (status.name(), number::grouped(stats.count(status)), to)
            };
            Status::ALL.map(count).to_vec()
        }),
        oldest: stats.and_then(|stats| stats.oldest_waiting).map(|oldest| Moment::new(oldest, now)),
        types: stats.map_or_else(Vec::new, |stats| {
            let types = stats.waiting_by_type.iter().take(8);
            let shown = |(name, count): &(String, u64)| {
                (text::line(name, 60), number::grouped(*count), letters(&overview.name, "type", name))
            };
            types.map(shown).collect()
        }),
        charts: vec![
            Chart::new("Throughput", &past.rate(|point| point.delivered), chart::rate),
            Chart::new("Failed attempts", &past.rate(|point| point.failed + point.dead), chart::rate),
            Chart::new("Backlog", &past.level(|point| point.backlog), chart::whole),
            Chart::new("Oldest letter", &past.level(|point| point.oldest), chart::age),
        ],
        covers: span(past.step.as_secs() * past.points.len() as u64),
    }
}

/// Where events go while their target does not take them.
fn ladder(rung: u8) -> Option<&'static str> {
    match rung {
        2 => Some("Its target does not take events: they go to the dead-letter store."),
        3 => Some("Neither its target nor the dead-letter store takes events: they go to the local disk."),
        4.. => Some(
            "Nothing durable takes its events: they are in memory only, and senders are refused. Mend its target \
             before anything else, and do not stop redrive: that would lose them.",
        ),
        _ => None,
    }
}

/// The recent past of one pipeline, oldest first.
#[derive(Clone, Default)]
struct Past {
    points: Vec<PointView>,
    /// The time between two of them.
    step: Duration,
}

impl Past {
    /// Something that is counted, per second.
    fn rate(&self, of: fn(&PointView) -> u64) -> Vec<f64> {
        let seconds = self.step.as_secs_f64().max(1.0);
        self.points.iter().map(|point| of(point) as f64 / seconds).collect()
    }

    fn level(&self, of: fn(&PointView) -> u64) -> Vec<f64> {
        self.points.iter().map(|point| of(point) as f64).collect()
    }
}

/// The last hour of every pipeline, in so few points that the page stays small.
fn pasts(series: &Series, now: Timestamp) -> HashMap<String, Past> {
    let hour = now.checked_sub(SignedDuration::from_hours(1)).unwrap_or(now);
    let steps = [10, 30, 120].map(Duration::from_secs);
    let taken = steps.map(|step| (step, series.since(hour, step, None)));
    let points = |taken: &[crate::view::SeriesView]| taken.iter().map(|one| one.points.len()).sum::<usize>();
    let fits = taken.iter().position(|(_, taken)| points(taken) <= MOST_POINTS).unwrap_or(taken.len() - 1);
    let Some((step, taken)) = taken.into_iter().nth(fits) else { return HashMap::new() };
    taken.into_iter().map(|one| (one.pipeline, Past { points: one.points, step })).collect()
}

/// Where the letters of a pipeline are that have this value.
fn letters(pipeline: &str, name: &str, value: &str) -> String {
    // Endless values would make endless addresses.
    let value: String = value.chars().take(200).collect();
    let q = format!("{} {}", query::qualified("pipeline", pipeline), query::qualified(name, &value));
    format!("/letters?q={}", text::encode(&q))
}
