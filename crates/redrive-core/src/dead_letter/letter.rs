//! A dead letter: what it is called, where it is from, how far it is.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::fingerprint::{Fingerprint, digest};
use crate::history::History;

/// The state of a letter, in the same word on every screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waiting for a person or a policy.
    Open,
    /// On its way back.
    Retrying,
    /// Sent back to work.
    Redriven,
    /// Closed.
    Resolved,
    /// Needs a person: redriving it failed, too.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Open, Self::Retrying, Self::Redriven, Self::Resolved, Self::Failed];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Retrying => "retrying",
            Self::Redriven => "redriven",
            Self::Resolved => "resolved",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which kind of pipeline a letter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PipelineKind {
    /// Write-behind persistence.
    Persist,
    /// A transactional outbox.
    Outbox,
    /// HTTP to object storage.
    Ingest,
    /// A Kafka consumer.
    Kafka,
    /// A job queue.
    Jobs,
    /// Handed in by another service.
    Intake,
}

impl PipelineKind {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Persist => "persist",
            Self::Outbox => "outbox",
            Self::Ingest => "ingest",
            Self::Kafka => "kafka",
            Self::Jobs => "jobs",
            Self::Intake => "intake",
        }
    }
}

/// A letter's name everywhere: `<pipeline>:<local id>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LetterId {
    /// The pipeline's name.
    pub pipeline: String,
    /// What its own store calls it.
    pub local: String,
}

impl LetterId {
    /// The letter `local` of `pipeline`.
    #[must_use]
    pub fn new(pipeline: impl Into<String>, local: impl std::fmt::Display) -> Self {
        Self { pipeline: pipeline.into(), local: local.to_string() }
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pipeline, self.local)
    }
}

impl From<LetterId> for String {
    fn from(id: LetterId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for LetterId {
    type Error = NotALetterId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for LetterId {
    type Err = NotALetterId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((pipeline, local)) if !pipeline.is_empty() && !local.is_empty() => {
                Ok(Self::new(pipeline, local))
            }
            _ => Err(NotALetterId(text.to_owned())),
        }
    }
}

/// A text that is not `<pipeline>:<local id>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a letter: ids look like orders:42")]
pub struct NotALetterId(String);

/// Where a letter was before it died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum Origin {
    /// A row of a table.
    Table {
        /// The table.
        table: String,
        /// The row.
        id: i64,
    },
    /// A record of a topic.
    Topic {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A line of a file.
    File {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: u64,
    },
    /// Another service handed it in.
    Service {
        /// What it calls itself.
        name: String,
    },
}

/// How a letter was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Who did it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub note: String,
}

/// How far the event of a redriven letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedeliveryState {
    /// It has not been handled yet, or is being retried.
    Pending,
    /// It was delivered.
    Delivered,
    /// It was handed over, to a topic for example, and has not come back since.
    HandedOver,
    /// It failed again, for good.
    Failed,
}

/// What became of a letter's event since the letter was last redriven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// How far it is.
    pub state: RedeliveryState,
    /// When it was delivered, handed over, or failed again; nothing while it is pending, and where delivered events are
    /// not kept.
    pub at: Option<Timestamp>,
    /// The letter that it failed again as: itself, where a letter keeps its id.
    pub letter: Option<LetterId>,
}

/// A letter as a list shows it: everything but its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its name.
    pub id: LetterId,
    /// The kind of its pipeline.
    pub kind: PipelineKind,
    /// The type of the event.
    pub event_type: String,
    /// The key of the event.
    pub key: String,
    /// The latest failure.
    pub failure: Failure,
    /// How many attempts failed.
    pub attempts: u32,
    /// When the latest attempt failed.
    pub failed_at: Timestamp,
    /// Its state.
    pub status: Status,
    /// How often it was redriven.
    pub redrive_count: u32,
    /// Which group it belongs to.
    pub fingerprint: Fingerprint,
}

impl Summary {
    /// Its number within the moment that it failed in: a store's own, or made from the local id.
    #[must_use]
    pub fn number(&self) -> i64 {
        number(&self.id.local)
    }
}

/// The number of a letter with this local id, for lists: a number is itself, a name is hashed (FNV-1a).
#[must_use]
pub fn number(local: &str) -> i64 {
    local.parse().unwrap_or_else(|_| (digest(local.as_bytes()) >> 1).cast_signed())
}

/// A letter, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// What a list shows.
    pub summary: Summary,
    /// The body, byte for byte.
    pub payload: Vec<u8>,
    /// The headers, in order, byte for byte.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Where it was.
    pub origin: Origin,
    /// Where it is redriven to, if that is not where it was: a target from the configuration, by name.
    pub target: Option<String>,
    /// The attempts at it.
    pub history: History,
    /// When it first failed.
    pub first_failed_at: Timestamp,
    /// How it was closed.
    pub resolution: Option<Resolution>,
    /// What became of its event since it was last redriven.
    pub redelivery: Option<Redelivery>,
    /// The letter whose redrive failed again as this one.
    pub redriven_from: Option<LetterId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_id_survives_its_text_form() {
        let id: LetterId = "orders:a:b".parse().unwrap();
        assert_eq!(id, LetterId::new("orders", "a:b"));
        assert_eq!(id.to_string(), "orders:a:b");
        assert!("orders".parse::<LetterId>().is_err());
        assert!(":4".parse::<LetterId>().is_err());
    }
}
