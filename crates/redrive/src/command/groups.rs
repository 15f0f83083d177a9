//! `redrive groups`: letters that failed for the same reason.

use redrive_server::number::grouped;
use redrive_server::view::{GroupView, GroupsPage};

use super::Failure;
use super::missing::Missing;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, ago, bars, plain, say, say_json, say_table};

const COLUMNS: [Column; 8] = [
    Column::whole("GROUP"),
    Column::whole("WAITING"),
    Column::whole("LAST"),
    Column::whole("PIPELINE"),
    Column::cut("TYPE"),
    Column::spared("CODE"),
    Column::spared("24 HOURS"),
    Column::message("FAILURE"),
];

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
        say_table(&Table::new(&COLUMNS, found.groups.iter().map(row).collect()))?;
    }
    Missing::from(found.unavailable).report()
}

fn row(group: &GroupView) -> Vec<Cell> {
    vec![
        Cell::new(Tone::Strong, plain(&group.fingerprint)),
        grouped(group.count).into(),
        ago(group.last_seen).into(),
        plain(&group.pipeline).into(),
        plain(&group.event_type).into(),
        plain(group.failure.code.as_deref().unwrap_or("-")).into(),
        bars(&group.history).into(),
        plain(&group.failure.message).into(),
    ]
}
