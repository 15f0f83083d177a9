//! `redrive ops`: operations on many letters.

use redrive_server::number::grouped;
use redrive_server::view::{OperationPage, OperationView};
use serde_json::json;

use super::Failure;
use super::operation::{line_of, report, see_through};
use crate::args::{To, Turn};
use crate::line::Line;
use crate::screen::{ago, plain, say, say_json, say_table, short};

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
    let rows = found.operations.iter().map(row).collect();
    Ok(say_table(
        &["ID", "ACTION", "STATE", "DONE", "TOTAL", "REFUSED", "FAILED", "STARTED", "BY", "LETTERS"],
        rows,
    )?)
}

fn row(operation: &OperationView) -> Vec<String> {
    vec![
        operation.id.to_string(),
        plain(&operation.action),
        operation.state.to_string(),
        grouped(operation.done),
        grouped(operation.total),
        grouped(operation.refused),
        grouped(operation.failed),
        ago(operation.created_at),
        short(&operation.operator, 20),
        short(&operation.subject, 60),
    ]
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
