//! Who did what, when, to how many, and why.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use redrive_core::dead_letter::LetterId;
use redrive_engine::console::Console;
use redrive_store::Entry;
use serde::Deserialize;

use super::failed::Failed;
use super::frame::{Frame, Section, Visitor, page};
use super::letters::address;
use super::moment::Moment;
use super::text;
use super::wording::Wording;
use crate::number;

/// How many entries one page has.
const PAGE: u32 = 100;

#[derive(Deserialize)]
pub(super) struct Asked {
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    rows: Vec<Row>,
    is_first: bool,
    next: Option<i64>,
}

struct Row {
    at: Moment,
    operator: String,
    action: String,
    subject: String,
    /// What the group is about that the subject names.
    about: Option<String>,
    to: Option<String>,
    count: Option<String>,
    note: String,
}

pub(super) async fn show(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Query(asked): Query<Asked>,
) -> Result<Response, Failed> {
    let entries = console.audit(asked.before, PAGE).await?;
    let wording = Wording::of(&console, entries.iter().map(|entry| entry.subject.as_str())).await;
    let names: Vec<&str> = console.names().collect();
    let now = Timestamp::now();
    let is_full = entries.len() >= PAGE as usize;
    let shown = AuditPage {
        frame: Frame::new(Section::Audit, "Audit", visitor),
        is_first: asked.before.is_none(),
        next: entries.last().filter(|_| is_full).map(|last| last.id),
        rows: entries.iter().map(|entry| row(entry, &wording, &names, now)).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

fn row(entry: &Entry, wording: &Wording, pipelines: &[&str], now: Timestamp) -> Row {
    Row {
        at: Moment::new(entry.at, now),
        operator: text::line(&entry.operator, 100),
        action: text::line(&entry.action, 40),
        about: wording.about(&entry.subject),
        subject: text::line(&entry.subject, 300),
        to: subject_address(&entry.subject, pipelines),
        count: (entry.count > 0).then(|| number::grouped(entry.count)),
        note: text::line(&entry.note, 300),
    }
}

/// The page of what an entry is about, where there is one.
fn subject_address(subject: &str, pipelines: &[&str]) -> Option<String> {
    if let Some(rest) = subject.strip_prefix("operation ") {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        return digits.parse::<i64>().ok().map(|id| format!("/operations/{id}"));
    }
    let id: LetterId = subject.parse().ok()?;
    pipelines.contains(&id.pipeline.as_str()).then(|| address(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leads_to_what_it_is_about() {
        let to = |subject| subject_address(subject, &["orders"]);
        assert_eq!(to("operation 7: type:A").as_deref(), Some("/operations/7"));
        assert_eq!(to("orders:4<").as_deref(), Some("/letters/orders:4%3C"));
        assert_eq!((to("javascript:alert(1)"), to("orders"), to("operation x")), (None, None, None));
    }
}
