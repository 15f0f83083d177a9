//! `redrive audit`: who did what, when, to how many, and why.

use redrive_server::number::grouped;
use redrive_server::view::{AuditPage, EntryView};

use super::Failure;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, plain, say, say_json, say_table};

/// The most entries of one page.
const PAGE: u32 = 500;

const COLUMNS: [Column; 6] = [
    Column::whole("WHEN"),
    Column::cut("BY"),
    Column::whole("ACTION"),
    Column::whole("LETTERS"),
    Column::cut("SUBJECT"),
    Column::message("NOTE"),
];

/// Prints the latest entries before this number, newest first.
pub(crate) async fn run(line: &Line, to: &To, before: Option<i64>, limit: u32) -> Result<(), Failure> {
    let found = entries(line, before, limit).await?;
    if to.json {
        return Ok(say_json(&found)?);
    }
    if found.entries.is_empty() {
        return Ok(say("nothing is in the audit log yet")?);
    }
    say_table(&Table::new(&COLUMNS, found.entries.iter().map(row).collect()))?;
    if let Some(next) = found.next {
        say(&format!("there are older entries: give a larger --limit, or --before {next}"))?;
    }
    Ok(())
}

async fn entries(line: &Line, before: Option<i64>, limit: u32) -> Result<AuditPage, Failure> {
    let mut all = page(line, before, limit.min(PAGE)).await?;
    while all.entries.len() < limit as usize {
        let Some(next) = all.next else { break };
        let left = limit - u32::try_from(all.entries.len()).unwrap_or(limit);
        let more = page(line, Some(next), left.min(PAGE)).await?;
        all.entries.extend(more.entries);
        all.next = more.next;
    }
    Ok(all)
}

async fn page(line: &Line, before: Option<i64>, limit: u32) -> Result<AuditPage, Failure> {
    let mut query = vec![("limit", limit.to_string())];
    query.extend(before.map(|before| ("before", before.to_string())));
    line.get(&["audit"], &query).await
}

fn row(entry: &EntryView) -> Vec<Cell> {
    let letters = if entry.count == 0 { "-".to_owned() } else { grouped(entry.count) };
    vec![
        format!("{:.0}", entry.at).into(),
        plain(&entry.operator).into(),
        Cell::new(Tone::Strong, plain(&entry.action)),
        letters.into(),
        plain(&entry.subject).into(),
        plain(&entry.note).into(),
    ]
}
