//! `redrive enqueue`: work into an outbox or a job queue.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use anyhow::Context as _;
use redrive_server::number::grouped;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Failure;
use crate::args::{To, Work};
use crate::line::Line;
use crate::screen::{say, say_json};

/// How many pieces are sent at a time.
const BATCH: usize = 500;

/// One piece of work from flags.
pub(crate) struct One<'a> {
    pub(crate) event_type: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) payload: Option<&'a str>,
}

/// Puts work in.
pub(crate) async fn run(line: &Line, to: &To, kind: Work, name: &str, one: &One<'_>) -> Result<(), Failure> {
    let path: Vec<&str> = match kind {
        Work::Outbox => vec!["outbox", name, "events"],
        Work::Jobs => vec!["jobs", name],
    };
    let accepted = match piece(kind, one)? {
        Some(piece) => {
            let _: Value = line.post(&path, &piece).await?;
            1
        }
        None => from_lines(line, &path).await?,
    };
    if to.json {
        return Ok(say_json(&json!({"accepted": accepted}))?);
    }
    Ok(say(&format!("{} accepted", grouped(accepted)))?)
}

/// The one piece that the flags describe, if they do.
fn piece(kind: Work, one: &One<'_>) -> Result<Option<Value>, Failure> {
    if one.event_type.is_none() && one.key.is_none() && one.payload.is_none() {
        return Ok(None);
    }
    match (kind, one.event_type, one.key) {
        (Work::Outbox, Some(event_type), key) => Ok(Some(
            json!({"event_type": event_type, "aggregate_id": key.unwrap_or_default(), "payload": payload(one)?}),
        )),
        (Work::Outbox, None, _) => Err(Failure::Usage("an event needs a type: give --type".to_owned())),
        (Work::Jobs, None, Some(key)) => Ok(Some(json!({"subject": key, "payload": payload(one)?}))),
        (Work::Jobs, Some(_), _) => Err(Failure::Usage("a job has no type: leave --type out".to_owned())),
        (Work::Jobs, None, None) => Err(Failure::Usage("a job needs a subject: give --key".to_owned())),
    }
}

/// The payload of the one piece: from its flag, else all of standard input.
fn payload(one: &One<'_>) -> anyhow::Result<String> {
    if let Some(payload) = one.payload {
        return Ok(payload.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("standard input cannot be read as text")?;
    Ok(text)
}

/// One JSON object per line; each batch is accepted whole or not at all.
async fn from_lines(line: &Line, path: &[&str]) -> Result<u64, Failure> {
    if std::io::stdin().is_terminal() {
        let said = "give --key (and --type for an outbox), or one JSON object per line on standard input";
        return Err(Failure::Usage(said.to_owned()));
    }
    let mut accepted = 0;
    let mut batch = Vec::new();
    for (number, text) in std::io::stdin().lock().lines().enumerate() {
        let text = text.context("standard input cannot be read as text")?;
        if text.trim().is_empty() {
            continue;
        }
        // Kept as it is written: a number of many digits must not become another one.
        let value: Box<RawValue> = serde_json::from_str(&text).map_err(|error| {
            Failure::Usage(format!(
                "line {} is no JSON: {error}; {} were accepted before it",
                number + 1,
                grouped(accepted)
            ))
        })?;
        batch.push(value);
        if batch.len() == BATCH {
            accepted += send(line, path, &mut batch, accepted).await?;
        }
    }
    accepted += send(line, path, &mut batch, accepted).await?;
    Ok(accepted)
}

async fn send(
    line: &Line,
    path: &[&str],
    batch: &mut Vec<Box<RawValue>>,
    before: u64,
) -> Result<u64, Failure> {
    let sent = std::mem::take(batch);
    let many = sent.len() as u64;
    let before = |said: String| format!("{said} ({} were accepted before this batch)", grouped(before));
    let answer: Result<Value, Failure> = line.post(path, &sent).await;
    match answer {
        Ok(_) => Ok(many),
        Err(Failure::Usage(said)) => Err(Failure::Usage(before(said))),
        Err(Failure::Unavailable(said)) => Err(Failure::Unavailable(before(said))),
        Err(other) => Err(other),
    }
}
