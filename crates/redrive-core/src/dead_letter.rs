//! A dead letter, the same for every pipeline, and the one trait that console, API and CLI know.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::books::Balance;
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;
use crate::history::History;

/// The most letters that one page holds.
pub const MAX_PAGE: u32 = 500;

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
    local.parse().unwrap_or_else(|_| {
        let hash = local.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (hash >> 1).cast_signed()
    })
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
    /// The attempts at it.
    pub history: History,
    /// When it first failed.
    pub first_failed_at: Timestamp,
    /// How it was closed.
    pub resolution: Option<Resolution>,
}

/// Which letters are meant. Every part that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of this pipeline. A queue has the letters of one pipeline only: whoever has several queues
    /// chooses by this.
    pub pipeline: Option<String>,
    /// In this state.
    pub status: Option<Status>,
    /// Of this event type.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// With a failure of this class, by name.
    pub class: Option<String>,
    /// With this code: `sqlstate:23505`, or just `23505`.
    pub code: Option<String>,
    /// In this group.
    pub group: Option<Fingerprint>,
    /// With this text in the failure's message, in whatever case.
    #[serde(rename = "q")]
    pub text: Option<String>,
    /// Failed at or after this.
    pub since: Option<Timestamp>,
    /// Failed before this.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Whether it means every letter; bulk actions refuse that unless `all` is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A place in a list: after the letter that failed then and has this number.
///
/// Stable while letters arrive: newcomers are newer, so they stay on the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the last letter of the page failed, in microseconds since 1970.
    pub failed_at: i64,
    /// Its number.
    pub id: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.failed_at, self.id)
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (failed_at, id) = text.split_once('.').ok_or(NotACursor)?;
        let number = |part| i64::from_str_radix(part, 16).map_err(|_| NotACursor);
        Ok(Self { failed_at: number(failed_at)?, id: number(id)? })
    }
}

/// A text that no list has handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not one that a list has returned: start again without it")]
pub struct NotACursor;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    after: Option<Cursor>,
}

impl Page {
    /// The first `limit` letters, newest first; at least 1 and at most [`MAX_PAGE`].
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { limit: limit.clamp(1, MAX_PAGE), after: None }
    }

    /// The same number of letters, from after this place.
    #[must_use]
    pub const fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// How many letters at most.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Where it starts.
    #[must_use]
    pub const fn cursor(&self) -> Option<Cursor> {
        self.after
    }
}

/// Ids of letters, the longest dead first, for whoever is about to act on many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// The local ids.
    pub ids: Vec<String>,
    /// Where to go on; nothing at the end.
    pub next: Option<Cursor>,
}

/// One page of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The letters, newest first.
    pub letters: Vec<Summary>,
    /// Where the next page starts; nothing at the end.
    pub next: Option<Cursor>,
}

/// Letters that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub fingerprint: Fingerprint,
    /// The type of its events.
    pub event_type: String,
    /// One of its failures, to read.
    pub failure: Failure,
    /// How many letters wait in it.
    pub count: u64,
    /// When the first of them failed.
    pub first_seen: Timestamp,
    /// When the latest of them failed.
    pub last_seen: Timestamp,
}

/// Letters of one group that died within one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    /// The group.
    pub fingerprint: Fingerprint,
    /// When the hour began.
    pub hour: Timestamp,
    /// How many of its letters died in it, whatever has become of them since.
    pub count: u64,
}

/// How many letters there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// How many are in each state.
    pub by_status: Vec<(Status, u64)>,
    /// How many wait for a person, by event type.
    pub waiting_by_type: Vec<(String, u64)>,
    /// When the oldest of those failed.
    pub oldest_waiting: Option<Timestamp>,
}

impl Stats {
    /// How many letters are in this state.
    #[must_use]
    pub fn count(&self, status: Status) -> u64 {
        self.by_status.iter().find(|(of, _)| *of == status).map_or(0, |(_, count)| *count)
    }

    /// How many letters wait for a person: open or failed.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.count(Status::Open) + self.count(Status::Failed)
    }
}

/// Who acts. Goes into the letter and into the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Operator(String);

impl Operator {
    /// The longest name that is kept, in characters.
    pub const MAX: usize = 100;

    /// The operator of this name, cut to [`Operator::MAX`] characters.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.chars().filter(|c| *c != '\0').take(Self::MAX).collect())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// An order to send letters back to work.
///
/// Its mark makes it one order, however often it is carried out: a letter that it has sent is not sent by
/// it again, whatever has become of it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    operator: Operator,
    note: String,
}

impl Order {
    /// The order that the operator gave under this mark, such as `operation 17`.
    #[must_use]
    pub fn new(operator: &Operator, mark: &str) -> Self {
        let note = format!("redriven by {} ({mark})", operator.name());
        Self { operator: operator.clone(), note: crate::failure::clean(&note) }
    }

    /// Who gave it.
    #[must_use]
    pub const fn operator(&self) -> &Operator {
        &self.operator
    }

    /// What it leaves on each letter.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// What has become of a letter that was sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Not known yet.
    Pending,
    /// It did its work.
    Delivered,
    /// It was handed over, and nobody will say what became of it, unless it comes back.
    HandedOver,
    /// It failed again.
    Failed(Failure),
}

/// Why nothing was done about one letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such letter.
    #[error("there is no letter {0}: check the id, it may have been purged")]
    Unknown(String),
    /// It is not waiting: somebody was faster.
    #[error("letter {0} is not waiting any more: somebody has redriven or resolved it already")]
    NotWaiting(String),
    /// It cannot be done to this kind of letter.
    #[error("letter {id}: {why}")]
    Impossible {
        /// The letter.
        id: String,
        /// Why not, and what to do.
        why: String,
    },
}

impl Refusal {
    /// The local id of the letter.
    #[must_use]
    pub fn letter(&self) -> &str {
        match self {
            Self::Unknown(id) | Self::NotWaiting(id) | Self::Impossible { id, .. } => id,
        }
    }
}

/// What a bulk action did. Each letter that was asked for is in exactly one of the three.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acted {
    /// The local ids of the letters that it was done to.
    pub done: Vec<String>,
    /// Those that the same order was carried out for before.
    pub before: Vec<String>,
    /// The others, with the reason.
    pub refused: Vec<Refusal>,
}

/// A queue of letters could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("the dead letters of {pipeline} cannot be reached: {source}")]
pub struct Unavailable {
    /// The pipeline.
    pub pipeline: String,
    /// What its store said.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The dead letters of one pipeline.
#[async_trait]
pub trait DeadLetterQueue: Send + Sync {
    /// The pipeline's name: the first part of its letters' ids.
    fn pipeline(&self) -> &str;

    /// The pipeline's kind.
    fn kind(&self) -> PipelineKind;

    /// How many letters there are.
    async fn stats(&self) -> Result<Stats, Unavailable>;

    /// The groups of letters that wait for a person, the largest first.
    async fn groups(&self, limit: u32) -> Result<Vec<Group>, Unavailable>;

    /// How many letters of each group died in each hour from this on.
    async fn arrivals(&self, since: Timestamp) -> Result<Vec<Arrivals>, Unavailable>;

    /// The letters that the filter means, newest first.
    async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Unavailable>;

    /// One letter, whole, by its local id.
    async fn get(&self, id: &str) -> Result<Option<Letter>, Unavailable>;

    /// How many letters the filter means.
    async fn count(&self, filter: &Filter) -> Result<u64, Unavailable>;

    /// The ids of the letters that the filter means, the longest dead first.
    async fn ids(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Ids, Unavailable>;

    /// Sends letters back to work, each at most once however often the order is given.
    async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Unavailable>;

    /// Sends a letter back with another payload. What it was stays on record with whoever asks for this.
    async fn redrive_edited(&self, id: &str, payload: &[u8], order: &Order) -> Result<Acted, Unavailable>;

    /// What has become of letters that were sent back, in the order of the ids.
    async fn outcomes(&self, ids: &[String]) -> Result<Vec<Outcome>, Unavailable>;

    /// Closes letters.
    async fn resolve(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Unavailable>;

    /// Where everything is that the pipeline ever accepted. Looks at every row: not for each page.
    async fn balance(&self) -> Result<Balance, Unavailable>;

    /// Deletes letters that were closed before this, and says how many.
    async fn purge(&self, closed_before: Timestamp) -> Result<u64, Unavailable>;
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

    #[test]
    fn a_cursor_survives_its_text_form_and_rubbish_is_refused() {
        let cursor = Cursor { failed_at: 1_700_000_000_000_000, id: 42 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("; drop table".parse::<Cursor>(), Err(NotACursor));
    }

    #[test]
    fn only_a_filter_without_any_part_is_empty() {
        assert!(Filter::default().is_empty());
        assert!(!Filter { status: Some(Status::Open), ..Filter::default() }.is_empty());
    }

    #[test]
    fn a_page_is_never_empty_and_never_too_large() {
        assert_eq!(Page::first(0).limit(), 1);
        assert_eq!(Page::first(u32::MAX).limit(), MAX_PAGE);
    }
}
