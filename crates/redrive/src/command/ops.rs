//! `redrive ops`: operations on many letters.

use redrive_server::number::grouped;
use redrive_server::view::{OperationPage, OperationStateName, OperationView};
use serde_json::json;

use super::Failure;
use super::operation::{line_of, report, see_through};
use crate::args::{To, Turn};
use crate::line::Line;
use crate::screen::{Cell, Column, Table, Tone, ago, plain, say, say_json, say_table};

const COLUMNS: [Column; 10] = [
    Column::whole("ID"),
    Column::whole("ACTION"),
    Column::whole("STATE"),
    Column::whole("DONE"),
    Column::whole("TOTAL"),
    Column::whole("REFUSED"),
    Column::whole("FAILED"),
    Column::whole("STARTED"),
    Column::cut("BY"),
    Column::message("LETTERS"),
];

/// Whether to stay with an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until it rests.
    ToTheEnd,
    /// For one look.
    No,
}

/// Lists operations, or shows and turns one.
pub(crate) async fn run(
    line: &Line,
    to: &To,
    id: Option<i64>,
    turn: Option<Turn>,
    stay: Stay,
) -> Result<(), Failure> {
    let Some(id) = id else { return list(line, to).await };
    let number = id.to_string();
    let operation: OperationView = match turn {
        None => line.get(&["redrives", &number], &[]).await?,
        Some(turn) => {
            let verb = match turn {
                Turn::Pause => "pause",
                Turn::Resume => "resume",
                Turn::Cancel => "cancel",
            };
            line.post(&["redrives", &number, verb], &json!({})).await?
        }
    };
    // Without a server nobody else would go on with it.
    if stay == Stay::ToTheEnd || (turn == Some(Turn::Resume) && !line.is_remote()) {
        return report(to, &see_through(line, id).await?);
    }
    show(to, &operation)
}

async fn list(line: &Line, to: &To) -> Result<(), Failure> {
    let found: OperationPage = line.get(&["redrives"], &[]).await?;
    if to.json {
        return Ok(say_json(&found)?);
    }
    if found.operations.is_empty() {
        return Ok(say("no operations yet: redrive retry and redrive resolve start them")?);
    }
    Ok(say_table(&Table::new(&COLUMNS, found.operations.iter().map(row).collect()))?)
}

fn row(operation: &OperationView) -> Vec<Cell> {
    vec![
        Cell::new(Tone::Strong, operation.id.to_string()),
        plain(&operation.action).into(),
        Cell::new(tone(operation.state), operation.state.to_string()),
        grouped(operation.done).into(),
        grouped(operation.total).into(),
        grouped(operation.refused).into(),
        grouped(operation.failed).into(),
        ago(operation.created_at).into(),
        plain(&operation.operator).into(),
        plain(&operation.subject).into(),
    ]
}

const fn tone(state: OperationStateName) -> Tone {
    match state {
        OperationStateName::Finished => Tone::Good,
        OperationStateName::Stopped => Tone::Trouble,
        OperationStateName::Paused | OperationStateName::Cancelled => Tone::Waiting,
        _ => Tone::Plain,
    }
}

fn show(to: &To, operation: &OperationView) -> Result<(), Failure> {
    if to.json {
        return Ok(say_json(operation)?);
    }
    say(&line_of(operation))?;
    say(&format!(
        "  {} of {} by {}",
        plain(&operation.action),
        plain(&operation.subject),
        plain(&operation.operator)
    ))?;
    for (name, text) in [("note", &operation.note), ("reason", &operation.reason)] {
        if !text.is_empty() {
            say(&format!("  {name}: {}", plain(text)))?;
        }
    }
    for refusal in &operation.refusals {
        say(&format!("  {}", plain(refusal)))?;
    }
    Ok(())
}
