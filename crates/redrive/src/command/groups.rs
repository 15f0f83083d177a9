//! `redrive groups`: letters that failed for the same reason.

use redrive_server::number::grouped;
use redrive_server::view::{GroupView, GroupsPage};

use super::Failure;
use super::missing::Missing;
use crate::args::To;
use crate::line::Line;
use crate::screen::{ago, bars, plain, say, say_json, say_table, short};

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
    Missing::from(found.unavailable).report()
}

fn row(group: &GroupView) -> Vec<String> {
    vec![
        plain(&group.fingerprint),
        grouped(group.count),
        ago(group.last_seen),
        bars(&group.history),
        plain(&group.pipeline),
        short(&group.event_type, 30),
        plain(group.failure.code.as_deref().unwrap_or("-")),
        short(&group.failure.message, 80),
    ]
}
