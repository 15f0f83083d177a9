//! `redrive ls`: letters, newest first.

use redrive_server::view::{LetterPage, StatusName, SummaryView};

use super::Failure;
use super::missing::Missing;
use crate::args::To;
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, ago, plain, say, say_json, say_table};
use crate::selection::Selection;

/// The most letters of one page.
pub(super) const PAGE: u32 = 500;

const COLUMNS: [Column; 8] = [
    Column::whole("LETTER"),
    Column::whole("STATUS"),
    Column::whole("FAILED"),
    Column::cut("TYPE"),
    Column::cut("KEY"),
    Column::spared("CODE"),
    Column::spared("TRIES"),
    Column::message("FAILURE"),
];

/// Prints letters.
pub(crate) async fn run(line: &Line, to: &To, selection: &Selection, limit: u32) -> Result<(), Failure> {
    let page = letters(line, selection, limit).await?;
    if to.json {
        say_json(&page)?;
    } else if page.letters.is_empty() {
        say("no letters match")?;
    } else {
        say_table(&Table::new(&COLUMNS, page.letters.iter().map(row).collect()))?;
        if page.next.is_some() {
            say(&format!(
                "there are more than these {}: give a larger --limit, or say which",
                page.letters.len()
            ))?;
        }
    }
    Missing::from(page.unavailable).report()
}

/// So many of the letters that are meant, as one page, with what any part of it lacks.
async fn letters(line: &Line, selection: &Selection, limit: u32) -> Result<LetterPage, Failure> {
    let mut all = page(line, selection, limit.min(PAGE), None).await?;
    while all.letters.len() < limit as usize {
        let Some(next) = all.next.take() else { break };
        let left = limit - u32::try_from(all.letters.len()).unwrap_or(limit);
        let more = page(line, selection, left.min(PAGE), Some(next)).await?;
        all.letters.extend(more.letters);
        all.unavailable.extend(more.unavailable);
        all.next = more.next;
    }
    all.unavailable.sort_by(|one, other| one.pipeline.cmp(&other.pipeline));
    all.unavailable.dedup_by(|one, other| one.pipeline == other.pipeline);
    Ok(all)
}

/// One page of the letters that are meant.
pub(super) async fn page(
    line: &Line,
    selection: &Selection,
    limit: u32,
    cursor: Option<String>,
) -> Result<LetterPage, Failure> {
    let mut query = selection.query();
    query.push(("limit", limit.to_string()));
    query.extend(cursor.map(|cursor| ("cursor", cursor)));
    line.get(&["dead-letters"], &query).await
}

fn row(letter: &SummaryView) -> Vec<Cell> {
    vec![
        Cell::new(Tone::Strong, plain(&letter.id)),
        Cell::new(tone(letter.status), letter.status.to_string()),
        ago(letter.failed_at).into(),
        plain(&letter.event_type).into(),
        plain(&letter.key).into(),
        plain(letter.failure.code.as_deref().unwrap_or("-")).into(),
        letter.attempts.to_string().into(),
        plain(&letter.failure.message).into(),
    ]
}

/// How a letter of this status is doing.
pub(super) const fn tone(status: StatusName) -> Tone {
    match status {
        StatusName::Open => Tone::Waiting,
        StatusName::Failed => Tone::Trouble,
        StatusName::Retrying => Tone::Plain,
        StatusName::Redriven | StatusName::Resolved => Tone::Good,
    }
}
