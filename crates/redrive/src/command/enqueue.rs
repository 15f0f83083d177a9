//! `redrive enqueue`: work into an outbox or a job queue.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use anyhow::Context as _;
use redrive_server::number::{counted, grouped};
use serde::{Deserialize, Serialize};
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

/// What was accepted.
#[derive(Debug, Default, Serialize)]
struct Accepted {
    accepted: u64,
    /// The numbers of the events or jobs, in the order in which they were given.
    ids: Vec<i64>,
    /// Jobs that were left out: one with the same unique key is pending or running.
    duplicates: u64,
}

/// What the server answers, for an outbox or for a queue.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    ids: Vec<i64>,
    #[serde(default)]
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    id: Option<i64>,
}

/// Puts work in.
pub(crate) async fn run(line: &Line, to: &To, kind: Work, name: &str, one: &One<'_>) -> Result<(), Failure> {
    let path: Vec<&str> = match kind {
        Work::Outbox => vec!["outbox", name, "events"],
        Work::Jobs => vec!["jobs", name],
    };
    let mut accepted = Accepted::default();
    match piece(kind, one)? {
        Some(piece) => accepted.add(line.post(&path, &piece).await?),
        None => from_lines(line, &path, &mut accepted).await?,
    }
    if to.json {
        return Ok(say_json(&accepted)?);
    }
    Ok(say(&accepted.text(kind))?)
}

impl Accepted {
    fn add(&mut self, answer: Answer) {
        let before = self.ids.len();
        let jobs = answer.jobs.len();
        self.ids.extend(answer.jobs.into_iter().filter_map(|job| job.id).chain(answer.ids));
        let more = self.ids.len() - before;
        self.accepted += more as u64;
        self.duplicates += jobs.saturating_sub(more) as u64;
    }

    fn text(&self, kind: Work) -> String {
        let noun = match kind {
            Work::Outbox => "event",
            Work::Jobs => "job",
        };
        match (&self.ids[..], self.duplicates) {
            ([id], 0) => format!("{noun} {id} accepted"),
            ([], 1) => "not accepted: a job with this unique key is pending or running".to_owned(),
            (_, 0) => format!("{} accepted", grouped(self.accepted)),
            (_, duplicates) => {
                format!("{} accepted, {}", grouped(self.accepted), counted(duplicates, "duplicate"))
            }
        }
    }
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
async fn from_lines(line: &Line, path: &[&str], accepted: &mut Accepted) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        let said = "give --key (and --type for an outbox), or one JSON object per line on standard input";
        return Err(Failure::Usage(said.to_owned()));
    }
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
                grouped(accepted.accepted)
            ))
        })?;
        batch.push(value);
        if batch.len() == BATCH {
            send(line, path, &mut batch, accepted).await?;
        }
    }
    send(line, path, &mut batch, accepted).await
}

async fn send(
    line: &Line,
    path: &[&str],
    batch: &mut Vec<Box<RawValue>>,
    accepted: &mut Accepted,
) -> Result<(), Failure> {
    let sent = std::mem::take(batch);
    let before = grouped(accepted.accepted);
    let before = |said: String| format!("{said} ({before} were accepted before this batch)");
    match line.post(path, &sent).await {
        Ok(answer) => {
            accepted.add(answer);
            Ok(())
        }
        Err(Failure::Usage(said)) => Err(Failure::Usage(before(said))),
        Err(Failure::Unavailable(said)) => Err(Failure::Unavailable(before(said))),
        Err(other) => Err(other),
    }
}
