//! `redrive retry`: letters back to work, one or many.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_server::view::{Done, OperationStateName, OperationView, PreviewView};
use serde_json::{Value, json};

use super::Failure;
use crate::args::{To, Which};
use crate::line::Line;
use crate::screen::{LOOK, Progress, count, letters, plain, say, say_json};

/// How letters are sent back.
pub(crate) struct How<'a> {
    pub(crate) rate: Option<u32>,
    pub(crate) canary: bool,
    pub(crate) edit: Option<&'a Path>,
}

/// Sends letters back.
pub(crate) async fn run(line: &Line, to: &To, which: &Which, how: &How<'_>) -> Result<(), Failure> {
    let Some(id) = &which.id else {
        let mut request = wanted(which)?;
        request["canary"] = how.canary.into();
        if let Some(rate) = how.rate {
            request["rate"] = rate.into();
        }
        return many(line, to, which, "redrives", "redrive", request).await;
    };
    only_one(which)?;
    let body = match how.edit {
        Some(file) => json!({"payload_base64": STANDARD.encode(read(file)?)}),
        None => json!({}),
    };
    let done: Done = line.post_once(&["dead-letters", id, "redrive"], &body, &key()).await?;
    told(to, &done, "sent back to work")
}

/// Says what was done to one letter.
pub(super) fn told(to: &To, done: &Done, what: &str) -> Result<(), Failure> {
    if to.json {
        return Ok(say_json(done)?);
    }
    Ok(say(&format!("{}: {what}", plain(&done.id)))?)
}

/// The flags of many do not fit one letter.
pub(super) fn only_one(which: &Which) -> Result<(), Failure> {
    match which.selection.is_empty() {
        true => Ok(()),
        false => Err(Failure::Usage("there is an id and a filter: give one of the two".to_owned())),
    }
}

/// The request for many.
pub(super) fn wanted(which: &Which) -> Result<Value, Failure> {
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
    noun: &str,
    verb: &str,
    request: Value,
) -> Result<(), Failure> {
    let mut dry = request.clone();
    dry["dry_run"] = true.into();
    let preview: PreviewView = line.post(&[noun], &dry).await?;
    if which.dry_run {
        return show(to, verb, &preview);
    }
    if preview.total == 0 {
        return Err(Failure::Refused(format!("no letter that waits matches: there is nothing to {verb}")));
    }
    confirm(which, verb, &preview)?;
    if which.detach && !line.is_remote() {
        let said = "--detach needs a server that goes on with it: give --server, or leave it out";
        return Err(Failure::Usage(said.to_owned()));
    }
    let operation: OperationView = line.post_once(&[noun], &request, &key()).await?;
    if which.detach {
        return report(to, &operation);
    }
    let at_work = line.work();
    let ended = follow(line, operation.id).await;
    if let Some(at_work) = at_work {
        at_work.end().await;
    }
    report(to, &ended?)
}

fn show(to: &To, verb: &str, preview: &PreviewView) -> Result<(), Failure> {
    if to.json {
        return Ok(say_json(preview)?);
    }
    for part in &preview.letters {
        say(&format!("{:>10}  {}", count(part.count), plain(&part.pipeline)))?;
    }
    Ok(say(&format!("{} to {verb} as of {}; nothing was changed", letters(preview.total), preview.as_of))?)
}

fn confirm(which: &Which, verb: &str, preview: &PreviewView) -> Result<(), Failure> {
    if which.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let said = format!(
            "{} would be meant: say --yes to {verb} them, or --dry-run to look",
            letters(preview.total)
        );
        return Err(Failure::Usage(said));
    }
    let mut err = std::io::stderr();
    write!(err, "{verb} {} as of {}? [y/N] ", letters(preview.total), preview.as_of)
        .context("nobody can be asked")?;
    err.flush().context("nobody can be asked")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("nobody answers")?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}

/// Looks at an operation until it rests.
pub(super) async fn follow(line: &Line, id: i64) -> Result<OperationView, Failure> {
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
                return Err(Failure::Refused(format!("operation {id} is not over: {what}; `redrive ops {id}` shows it")));
            }
        }
    }
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
        _ => Ok(()),
    }
}

/// An operation on one line.
pub(super) fn line_of(operation: &OperationView) -> String {
    let mut text = format!(
        "operation {} {}: {} of {} done",
        operation.id,
        operation.state,
        count(operation.done),
        letters(operation.total)
    );
    if operation.refused > 0 {
        text.push_str(&format!(", {} refused", count(operation.refused)));
    }
    if operation.failed > 0 {
        text.push_str(&format!(", {} failed again", count(operation.failed)));
    }
    text
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// A key that no other request has.
pub(super) fn key() -> String {
    format!("cli-{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
}
