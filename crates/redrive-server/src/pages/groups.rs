//! The home page: groups of letters that failed for the same reason.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use redrive_engine::console::{Console, PipelineGroup};
use serde::Deserialize;

use super::failed::Failed;
use super::frame::{Frame, Section, Visitor, page};
use super::moment::Moment;
use super::{chart, query, text};
use crate::number;

/// The most groups on the page.
const MOST: u32 = 50;

#[derive(Deserialize)]
pub(super) struct Asked {
    pipeline: Option<String>,
}

#[derive(Template)]
#[template(path = "groups.html")]
struct GroupsPage {
    frame: Frame,
    pipelines: Vec<PipelineLink>,
    chosen: Option<String>,
    rows: Vec<Row>,
    waiting: String,
    is_cut: bool,
    unavailable: Vec<(String, String)>,
}

impl GroupsPage {
    fn is_all_away(&self) -> bool {
        self.rows.is_empty() && !self.unavailable.is_empty() && self.unavailable.len() >= self.asked()
    }

    fn asked(&self) -> usize {
        if self.chosen.is_some() { 1 } else { self.pipelines.len() }
    }
}

struct PipelineLink {
    name: String,
    to: String,
    is_chosen: bool,
}

struct Row {
    fingerprint: String,
    to: String,
    redrive: String,
    resolve: String,
    pipeline: String,
    event_type: String,
    class: &'static str,
    code: Option<String>,
    kind: String,
    message: String,
    count: String,
    first: Moment,
    last: Moment,
    spark: String,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let chosen = asked.pipeline.filter(|name| !name.is_empty());
    let (groups, unavailable) = console.groups(chosen.as_deref(), MOST).await?;
    let now = Timestamp::now();
    let letters: u64 = groups.iter().map(|found| found.group.count).sum();
    let page_of = GroupsPage {
        frame: Frame::new(Section::Groups, "Groups", visitor),
        pipelines: console.names().map(|name| link(name, chosen.as_deref())).collect(),
        chosen,
        waiting: number::counted(letters, "letter"),
        is_cut: groups.len() >= MOST as usize,
        rows: groups.iter().map(|found| row(found, now)).collect(),
        unavailable: away(unavailable),
    };
    let status = if page_of.is_all_away() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    Ok(page(status, &page_of))
}

/// The pipelines whose store does not answer, with what it said.
pub(super) fn away(unavailable: Vec<(String, String)>) -> Vec<(String, String)> {
    unavailable.into_iter().map(|(name, why)| (name, text::line(&why, 300))).collect()
}

fn link(name: &str, chosen: Option<&str>) -> PipelineLink {
    let to = format!("/?pipeline={}", text::encode(name));
    PipelineLink { name: name.to_owned(), to, is_chosen: chosen == Some(name) }
}

fn row(found: &PipelineGroup, now: Timestamp) -> Row {
    let group = &found.group;
    let asked = format!("{} group:{}", query::qualified("pipeline", &found.pipeline), group.fingerprint);
    let asked = text::encode(&asked);
    Row {
        fingerprint: group.fingerprint.to_string(),
        to: format!("/letters?q={asked}"),
        redrive: format!("/confirm?action=redrive&q={asked}"),
        resolve: format!("/confirm?action=resolve&q={asked}"),
        pipeline: found.pipeline.clone(),
        event_type: text::line(&group.event_type, 60),
        class: group.failure.class.name(),
        code: group.failure.code.as_ref().map(|code| text::line(&code.to_string(), 40)),
        kind: text::kind(&group.failure.kind),
        message: text::line(&group.failure.message, 240),
        count: number::grouped(group.count),
        first: Moment::new(group.first_seen, now),
        last: Moment::new(group.last_seen, now),
        spark: chart::sparkline(&found.history),
    }
}
