//! An operation on many letters: counted, confirmed, started, and followed to its end.
//!
//! What is confirmed is what was counted: letters that fail while a person thinks stay out.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use redrive_engine::console::Action;
use redrive_server::number::{counted, grouped};
use redrive_server::view::{OperationStateName, OperationView, PreviewView};
use serde_json::{Value, json};

use super::Failure;
use crate::args::{To, Which};
use crate::line::Line;
use crate::screen::{Progress, plain, say, say_json};

/// How often an operation that goes on is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// The request for many.
pub(super) fn wanted(which: &Which) -> Result<Value, Failure> {
    if which.selection.has_blank_text() {
        let said = "-q is blank, and that is in every message: say what to look for, or leave it out";
        return Err(Failure::Usage(said.to_owned()));
    }
    if which.selection.is_empty() && !which.all {
        let said = "say which letters: an id, a filter such as --group or --type, or --all for every letter that waits";
        return Err(Failure::Usage(said.to_owned()));
    }
    Ok(json!({"filter": which.selection.filter(), "all": which.all, "note": which.note}))
}

/// Counts, asks, starts and follows an operation.
pub(super) async fn many(
    line: &Line,
    to: &To,
    which: &Which,
    action: Action,
    mut request: Value,
) -> Result<(), Failure> {
    if which.detach && !line.is_remote() {
        let said = "--detach needs a server that goes on with it: give --server, or leave it out";
        return Err(Failure::Usage(said.to_owned()));
    }
    let preview = count(line, action, &request).await?;
    if which.dry_run {
        return show(to, action, &preview);
    }
    if preview.total == 0 {
        let verb = action.name();
        return Err(Failure::Refused(format!("no letter that waits matches: there is nothing to {verb}")));
    }
    confirm(which, action, &preview)?;
    request["filter"] = which.selection.filter_as_of(preview.as_of);
    let operation: OperationView = line.post_once(&[route(action)], &request, &key()).await?;
    if which.detach {
        return report(to, &operation);
    }
    report(to, &see_through(line, operation.id).await?)
}

/// Follows an operation until it rests, and carries it out if no server does.
pub(super) async fn see_through(line: &Line, id: i64) -> Result<OperationView, Failure> {
    let at_work = line.work();
    let ended = follow(line, id).await;
    if let Some(at_work) = at_work {
        at_work.end().await;
    }
    ended
}

/// Says how an operation stands; one that did not get through is a failure.
pub(super) fn report(to: &To, operation: &OperationView) -> Result<(), Failure> {
    if to.json {
        say_json(operation)?;
    } else {
        say(&line_of(operation))?;
        for refusal in operation.refusals.iter().take(5) {
            say(&format!("  {}", plain(refusal)))?;
        }
    }
    match operation.state {
        OperationStateName::Stopped | OperationStateName::Paused | OperationStateName::Cancelled => {
            let said =
                format!("operation {} is {}: {}", operation.id, operation.state, plain(&operation.reason));
            Err(Failure::Other(anyhow::Error::msg(said)))
        }
        OperationStateName::Finished if operation.done == 0 && operation.refused > 0 => {
            Err(Failure::Refused(format!(
                "operation {}: none of the letters could be sent or closed",
                operation.id
            )))
        }
        _ => Ok(()),
    }
}

/// An operation on one line.
pub(super) fn line_of(operation: &OperationView) -> String {
    let mut text = format!(
        "operation {} {}: {} of {} done",
        operation.id,
        operation.state,
        grouped(operation.done),
        counted(operation.total, "letter")
    );
    if operation.refused > 0 {
        text.push_str(&format!(", {} refused", grouped(operation.refused)));
    }
    if operation.failed > 0 {
        text.push_str(&format!(", {} failed again", grouped(operation.failed)));
    }
    text
}

/// A key that no other request has.
pub(super) fn key() -> String {
    format!("cli-{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
}

fn route(action: Action) -> &'static str {
    match action {
        Action::Redrive => "redrives",
        Action::Resolve => "resolutions",
    }
}

async fn count(line: &Line, action: Action, request: &Value) -> Result<PreviewView, Failure> {
    let mut dry = request.clone();
    dry["dry_run"] = true.into();
    line.post(&[route(action)], &dry).await
}

fn show(to: &To, action: Action, preview: &PreviewView) -> Result<(), Failure> {
    if to.json {
        return Ok(say_json(preview)?);
    }
    for part in &preview.letters {
        say(&format!("{:>10}  {}", grouped(part.count), plain(&part.pipeline)))?;
    }
    let (letters, verb) = (counted(preview.total, "letter"), action.name());
    Ok(say(&format!("{letters} to {verb} as of {}; nothing was changed", preview.as_of))?)
}

fn confirm(which: &Which, action: Action, preview: &PreviewView) -> Result<(), Failure> {
    if which.yes {
        return Ok(());
    }
    let (letters, verb) = (counted(preview.total, "letter"), action.name());
    if !std::io::stdin().is_terminal() {
        let said = format!("{letters} would be meant: say --yes to {verb} them, or --dry-run to look");
        return Err(Failure::Usage(said));
    }
    let mut err = std::io::stderr();
    write!(err, "{verb} {letters} as of {}? [y/N] ", preview.as_of).context("nobody can be asked")?;
    err.flush().context("nobody can be asked")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("nobody answers")?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}

/// Looks at an operation until it rests.
async fn follow(line: &Line, id: i64) -> Result<OperationView, Failure> {
    let number = id.to_string();
    let progress = Progress::new();
    loop {
        let operation: OperationView = line.get(&["redrives", &number], &[]).await?;
        progress.show(&operation);
        if operation.state.is_at_rest() {
            progress.end();
            return Ok(operation);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = tokio::signal::ctrl_c() => {
                progress.end();
                let what = if line.is_remote() { "the server goes on with it" } else { "it goes on when a server runs" };
                return Err(Failure::Interrupted(format!(
                    "operation {id} is not over: {what}; `redrive ops {id}` shows it"
                )));
            }
        }
    }
}
