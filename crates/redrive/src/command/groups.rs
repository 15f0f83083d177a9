//! `redrive groups`: letters that failed for the same reason.

use redrive_server::view::{GroupView, GroupsPage, Unanswered};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{ago, bars, count, plain, say, say_json, say_table, short};

/// Prints the groups, the largest first.
pub(crate) async fn run(line: &Line, to: &To, pipeline: Option<&str>, limit: u32) -> Result<(), Failure> {
    let mut query = vec![("limit", limit.to_string())];
    query.extend(pipeline.map(|pipeline| ("pipeline", pipeline.to_owned())));
    let found: GroupsPage = line.get(&["groups"], &query).await?;
    if to.json {
        say_json(&found)?;
    } else if found.groups.is_empty() {
        say("no letters wait: nothing to do")?;
    } else {
        let rows = found.groups.iter().map(row).collect();
        say_table(&["GROUP", "WAITING", "LAST", "24 HOURS", "PIPELINE", "TYPE", "CODE", "FAILURE"], rows)?;
    }
    missing(&found.unavailable)
}

/// What is missing because a store did not answer is no success.
pub(crate) fn missing(unavailable: &[Unanswered]) -> Result<(), Failure> {
    let Some(first) = unavailable.first() else { return Ok(()) };
    let names: Vec<String> = unavailable.iter().map(|one| plain(&one.pipeline)).collect();
    Err(Failure::Unavailable(format!(
        "the letters of {} are missing: {}; are its tables there (redrive migrate), and does its database run?",
        names.join(", "),
        plain(&first.reason)
    )))
}

fn row(group: &GroupView) -> Vec<String> {
    vec![
        plain(&group.fingerprint),
        count(group.count),
        ago(group.last_seen),
        bars(&group.history),
        plain(&group.pipeline),
        short(&group.event_type, 30),
        plain(group.failure.code.as_deref().unwrap_or("-")),
        short(&group.failure.message, 80),
    ]
}
