//! The console: every dead letter of every pipeline, and what operators do about them.
//!
//! REST, dashboard and CLI know nothing else. What is done to one letter is done at once; what is done to
//! many is an operation: frozen, paced, followed, and continued after a crash ([`Runner`]).

mod census;
mod error;
mod place;
mod pulse;
mod request;
mod runner;
mod sending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_core::books::Balance;
use redrive_core::dead_letter::{
    Acted, DeadLetterQueue, Filter, Group, Letter, LetterId, Operator, Order, PipelineKind, Refusal, Stats,
    Status, Summary, Unavailable,
};
use redrive_core::fingerprint::Fingerprint;
use redrive_store::{
    Audit, Database, EditedPayload, Edits, Entry, Error, Letters, NewLetter, NewOperation, Opened, Operation,
    OperationState, Operations,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use census::{Count, HOURS};
pub use error::ConsoleError;
pub use place::{NotAPlace, Place};
pub use pulse::{Pulse, PulseOperation, PulsePipeline, Snapshot};
pub use request::{Action, Canary, Request};
pub use runner::Runner;

use crate::pipeline::Pipeline;
use crate::{Bell, Health, Switch};

/// What the console has of one pipeline.
#[derive(Clone)]
pub struct Desk {
    /// Its dead letters.
    pub queue: Arc<dyn DeadLetterQueue>,
    /// Its workers: woken when something was sent back, paused, resumed. None when nobody works on it here.
    pub workers: Option<Workers>,
}

/// The workers of a pipeline.
#[derive(Clone)]
pub struct Workers {
    /// Wakes them.
    pub bell: Bell,
    /// Stops and restarts them.
    pub switch: Switch,
    /// Whether their store answers.
    pub health: Health,
}

impl Workers {
    /// The workers of this pipeline.
    #[must_use]
    pub fn of(pipeline: &Pipeline) -> Self {
        Self { bell: pipeline.bell.clone(), switch: pipeline.switch.clone(), health: pipeline.health.clone() }
    }
}

/// redrive's own tables, which the console keeps its records in.
pub struct Records {
    /// The ledger of operations.
    pub operations: Operations,
    /// Who did what.
    pub audit: Audit,
    /// What letters were before they were edited.
    pub edits: Edits,
    /// Letters that were handed in.
    pub intake: Arc<Letters>,
}

impl Records {
    /// Those in this database. Nothing is asked of it yet.
    #[must_use]
    pub fn of(database: &Database) -> Self {
        let intake = Letters::new(database.clone(), PipelineKind::Intake.name(), PipelineKind::Intake);
        Self {
            operations: Operations::new(database.clone()),
            audit: Audit::new(database.clone()),
            edits: Edits::new(database.clone()),
            intake: Arc::new(intake),
        }
    }

    /// Makes the tables that are missing.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.intake.migrate().await?;
        self.operations.migrate().await?;
        self.edits.migrate().await?;
        self.audit.migrate().await
    }
}

/// One group, with the pipeline that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineGroup {
    /// The pipeline's name.
    pub pipeline: String,
    /// Its kind.
    pub kind: PipelineKind,
    /// The group.
    pub group: Group,
    /// How many of its letters died in each of the last 24 hours, oldest first.
    pub history: Vec<u64>,
}

/// One pipeline, as a list of them shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PipelineKind,
    /// Whether its workers claim; nothing when nobody works on it here.
    pub paused: Option<bool>,
    /// What is wrong with it, in words.
    pub trouble: Option<String>,
    /// Its letters; nothing while its store does not answer.
    pub stats: Option<Stats>,
}

/// A page of letters of several pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letterbox {
    /// The letters, newest first.
    pub letters: Vec<Summary>,
    /// Where the next page starts; nothing at the end.
    pub next: Option<Place>,
    /// The pipelines whose store did not answer, with what it said: their letters are missing here.
    pub unavailable: Vec<(String, String)>,
}

/// What an operation would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// How many letters of each pipeline wait and are meant.
    pub letters: Vec<(String, u64)>,
    /// When they were counted.
    pub as_of: jiff::Timestamp,
}

impl Preview {
    /// How many letters in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.letters.iter().map(|(_, count)| count).sum()
    }
}

/// When letters are counted first: tables may have to be made before.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// When the books are checked first, and how often: it looks at every row.
const FIRST_VERIFY: Duration = Duration::from_secs(30);
const VERIFY_EVERY: Duration = Duration::from_secs(600);
/// It takes at most one part in this many of the time.
const VERIFY_SHARE: u32 = 100;

/// The console of one process.
pub struct Console {
    desks: BTreeMap<String, Desk>,
    censuses: BTreeMap<String, Arc<census::Census>>,
    records: Records,
    /// Where letters that are handed in may be redriven to.
    targets: BTreeSet<String>,
    /// Rung when there is an operation to work on.
    wake: Notify,
}

impl Console {
    /// A console over these pipelines.
    #[must_use]
    pub fn new(records: Records, desks: impl IntoIterator<Item = Desk>) -> Self {
        let desks: BTreeMap<String, Desk> =
            desks.into_iter().map(|desk| (desk.queue.pipeline().to_owned(), desk)).collect();
        let censuses = desks.keys().map(|name| (name.clone(), Arc::default())).collect();
        Self { desks, censuses, records, targets: BTreeSet::new(), wake: Notify::new() }
    }

    /// The same console; letters that are handed in may name these targets.
    #[must_use]
    pub fn with_targets(mut self, targets: impl IntoIterator<Item = String>) -> Self {
        self.targets.extend(targets);
        self
    }

    /// Where letters that are handed in may be redriven to.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(String::as_str)
    }

    /// The names of the pipelines.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.desks.keys().map(String::as_str)
    }

    /// The letters of one pipeline.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`] names those that there are.
    pub fn desk(&self, pipeline: &str) -> Result<&Desk, ConsoleError> {
        self.desks.get(pipeline).ok_or_else(|| ConsoleError::NoPipeline {
            asked: pipeline.to_owned(),
            known: self.names().map(str::to_owned).collect(),
        })
    }

    /// The pipelines that a filter means.
    fn meant(&self, filter: &Filter) -> Result<Vec<&Desk>, ConsoleError> {
        match &filter.pipeline {
            Some(pipeline) => Ok(vec![self.desk(pipeline)?]),
            None => Ok(self.desks.values().collect()),
        }
    }

    /// Every pipeline and how it is.
    pub async fn overviews(&self) -> Vec<Overview> {
        let looks = self.desks.values().map(|desk| self.look(desk));
        futures_util::future::join_all(looks).await
    }

    /// One pipeline and how it is.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`].
    pub async fn overview(&self, pipeline: &str) -> Result<Overview, ConsoleError> {
        Ok(self.look(self.desk(pipeline)?).await)
    }

    /// Takes the first census of every pipeline, so that nobody waits for it.
    pub async fn look_around(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = FIRST_LOOK;
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            if self.overviews().await.iter().all(|overview| overview.stats.is_some()) {
                return;
            }
            pause = (pause * 2).min(VERIFY_EVERY);
        }
    }

    /// The latest census of a pipeline.
    async fn count(&self, desk: &Desk) -> Result<Arc<Count>, Unavailable> {
        match self.censuses.get(desk.queue.pipeline()) {
            Some(census) => census.get(desk).await,
            None => Ok(Arc::default()),
        }
    }

    /// Something was done to letters of this pipeline.
    fn touch(&self, pipeline: &str) {
        if let Some(census) = self.censuses.get(pipeline) {
            census.touch();
        }
    }

    async fn look(&self, desk: &Desk) -> Overview {
        let count = self.count(desk).await;
        let trouble = match (&count, &desk.workers) {
            (Err(error), _) => Some(error.source.to_string()),
            (Ok(_), Some(workers)) => workers.health.get().err(),
            (Ok(_), None) => None,
        };
        Overview {
            name: desk.queue.pipeline().to_owned(),
            kind: desk.queue.kind(),
            paused: desk.workers.as_ref().map(|workers| workers.switch.is_paused()),
            trouble,
            stats: count.ok().map(|count| count.stats.clone()),
        }
    }

    /// The groups of letters that wait, the largest first. A pipeline whose store does not answer is left
    /// out, and named.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`].
    pub async fn groups(
        &self,
        pipeline: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<PipelineGroup>, Vec<(String, String)>), ConsoleError> {
        let filter = Filter { pipeline: pipeline.map(str::to_owned), ..Filter::default() };
        let desks = self.meant(&filter)?;
        let asked = desks.iter().map(|desk| self.count(desk));
        let (mut groups, mut unavailable) = (Vec::new(), Vec::new());
        for (desk, answer) in desks.iter().zip(futures_util::future::join_all(asked).await) {
            let name = desk.queue.pipeline();
            match answer {
                Ok(count) => groups.extend(count.groups.iter().map(|group| PipelineGroup {
                    pipeline: name.to_owned(),
                    kind: desk.queue.kind(),
                    history: count.history.get(&group.fingerprint).copied().unwrap_or_default().to_vec(),
                    group: group.clone(),
                })),
                Err(error) => unavailable.push((name.to_owned(), error.source.to_string())),
            }
        }
        groups.sort_by(|a, b| {
            b.group.count.cmp(&a.group.count).then(a.group.fingerprint.cmp(&b.group.fingerprint))
        });
        groups.truncate(limit as usize);
        Ok((groups, unavailable))
    }

    /// One group.
    ///
    /// # Errors
    /// [`ConsoleError::Unavailable`] when a store does not answer and no other has it.
    pub async fn group(&self, fingerprint: Fingerprint) -> Result<Option<PipelineGroup>, ConsoleError> {
        const MOST: u32 = 10_000;
        let (groups, _) = self.groups(None, MOST).await?;
        Ok(groups.into_iter().find(|group| group.group.fingerprint == fingerprint))
    }

    /// The letters that a filter means, newest first.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`]; [`ConsoleError::Unavailable`] when no store answers.
    pub async fn list(
        &self,
        filter: &Filter,
        limit: u32,
        after: Option<&Place>,
    ) -> Result<Letterbox, ConsoleError> {
        place::list(&self.meant(filter)?, filter, limit, after).await
    }

    /// One letter, whole.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`], [`ConsoleError::NoLetter`], [`ConsoleError::Unavailable`].
    pub async fn letter(&self, id: &LetterId) -> Result<Letter, ConsoleError> {
        let letter = self.desk(&id.pipeline)?.queue.get(&id.local).await?;
        letter.ok_or_else(|| ConsoleError::NoLetter(id.clone()))
    }

    /// What a letter was before it was edited, newest first.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn edits(&self, id: &LetterId) -> Result<Vec<EditedPayload>, ConsoleError> {
        Ok(self.records.edits.of(id).await?)
    }

    /// Sends one letter back to work, with another payload if one is given. `key` makes it one request,
    /// however often it is sent.
    ///
    /// # Errors
    /// [`ConsoleError::Refused`] when it is not waiting, and the others.
    pub async fn redrive(
        &self,
        id: &LetterId,
        payload: Option<&[u8]>,
        operator: &Operator,
        key: Option<&str>,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(&id.pipeline)?;
        let own = format!("request {}", request::number());
        let order = Order::new(operator, &key.map_or(own, |key| format!("request {key}")));
        let ids = std::slice::from_ref(&id.local);
        let acted = match payload {
            Some(payload) => {
                let letter = self.letter(id).await?;
                // First what it was, then the change: a crash in between leaves a record too many.
                self.records.edits.record(id, operator, &letter.payload, payload).await?;
                desk.queue.redrive_edited(&id.local, payload, &order).await?
            }
            None => desk.queue.redrive(ids, &order).await?,
        };
        desk.wake();
        self.touch(&id.pipeline);
        let is_repeated = acted.done.is_empty() && !acted.before.is_empty();
        self.settle_one(id, acted).await?;
        if is_repeated {
            return Ok(());
        }
        let action = if payload.is_some() { "edit and redrive" } else { "redrive" };
        Ok(self.records.audit.record(operator, action, &id.to_string(), 1, "").await?)
    }

    /// Closes one letter.
    ///
    /// # Errors
    /// As [`Console::redrive`].
    pub async fn resolve(&self, id: &LetterId, operator: &Operator, note: &str) -> Result<(), ConsoleError> {
        let queue = &self.desk(&id.pipeline)?.queue;
        let acted = queue.resolve(std::slice::from_ref(&id.local), operator, note).await?;
        self.touch(&id.pipeline);
        self.settle_one(id, acted).await?;
        Ok(self.records.audit.record(operator, "resolve", &id.to_string(), 1, note).await?)
    }

    async fn settle_one(&self, id: &LetterId, mut acted: Acted) -> Result<(), ConsoleError> {
        match acted.refused.pop() {
            None => Ok(()),
            Some(Refusal::Unknown(_)) => Err(ConsoleError::NoLetter(id.clone())),
            Some(Refusal::NotWaiting(_)) => Err(ConsoleError::Refused(Refusal::NotWaiting(id.to_string()))),
            Some(Refusal::Impossible { why, .. }) => {
                Err(ConsoleError::Refused(Refusal::Impossible { id: id.to_string(), why }))
            }
        }
    }

    /// Takes a letter in that another service hands over.
    ///
    /// # Errors
    /// [`ConsoleError::Store`]; [`Error::Refused`] in it when the letter cannot be kept.
    pub async fn take_in(&self, letter: NewLetter) -> Result<LetterId, ConsoleError> {
        if let Some(target) = letter.target.as_ref().filter(|target| !self.targets.contains(*target)) {
            let known: Vec<&str> = self.targets().collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(ConsoleError::Request(format!(
                "there is no target {target} in [intake.targets]: {known}; add it, or leave the target out"
            )));
        }
        let intake = &self.records.intake;
        let source = letter.source.clone();
        intake.add(&[letter]).await?;
        let numbers = intake.numbers_of(std::slice::from_ref(&source)).await?;
        let number = numbers.first().map(ToString::to_string).unwrap_or_default();
        Ok(LetterId::new(intake.pipeline(), number))
    }

    /// What an operation would do, if it were started now.
    ///
    /// # Errors
    /// [`ConsoleError::Request`] when it asks for nothing or for too much, and those of the stores.
    pub async fn preview(&self, request: &Request) -> Result<Preview, ConsoleError> {
        request.check()?;
        let as_of = jiff::Timestamp::now();
        let mut letters = Vec::new();
        if !request.ids.is_empty() {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for id in &request.ids {
                self.desk(&id.pipeline)?;
                *counts.entry(id.pipeline.clone()).or_default() += 1;
            }
            return Ok(Preview { letters: counts.into_iter().collect(), as_of });
        }
        for desk in self.meant(&request.filter)? {
            let count = desk.queue.count(&request.filter).await?;
            if count > 0 {
                letters.push((desk.queue.pipeline().to_owned(), count));
            }
        }
        Ok(Preview { letters, as_of })
    }

    /// Starts an operation; a [`Runner`] carries it out. The same key again is the same operation.
    ///
    /// # Errors
    /// As [`Console::preview`].
    pub async fn start(
        &self,
        request: &Request,
        operator: &Operator,
        key: Option<&str>,
    ) -> Result<Operation, ConsoleError> {
        request.check()?;
        for pipeline in request.filter.pipeline.iter().chain(request.ids.iter().map(|id| &id.pipeline)) {
            self.desk(pipeline)?;
        }
        let text = request.to_json();
        let new = NewOperation {
            action: request.action.name(),
            operator,
            note: &request.note,
            request: &text,
            key,
        };
        let id = match self.records.operations.open(&new).await? {
            Opened::Known(id) => id,
            Opened::New(id) => {
                let subject = format!("operation {id}: {}", request.subject());
                self.records
                    .audit
                    .record(operator, request.action.name(), &subject, 0, &request.note)
                    .await?;
                id
            }
        };
        self.wake.notify_one();
        self.operation(id).await
    }

    /// One operation.
    ///
    /// # Errors
    /// [`ConsoleError::NoOperation`], [`ConsoleError::Store`].
    pub async fn operation(&self, id: i64) -> Result<Operation, ConsoleError> {
        self.records.operations.get(id).await?.ok_or(ConsoleError::NoOperation(id))
    }

    /// Some of the letters that an operation was not done to, with the reasons.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn refusals(&self, id: i64) -> Result<Vec<String>, ConsoleError> {
        Ok(self.records.operations.refusals(id).await?)
    }

    /// The latest operations before this number, newest first.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<Operation>, ConsoleError> {
        Ok(self.records.operations.list(before, limit).await?)
    }

    /// Pauses, resumes or cancels an operation.
    ///
    /// # Errors
    /// [`ConsoleError::NoOperation`]; [`ConsoleError::WrongState`] when it cannot go there from where it is.
    pub async fn turn(
        &self,
        id: i64,
        next: OperationState,
        operator: &Operator,
    ) -> Result<Operation, ConsoleError> {
        let operation = self.operation(id).await?;
        let verb = match next {
            OperationState::Paused => "pause",
            OperationState::Running => "resume",
            _ => "cancel",
        };
        let reason = match next {
            OperationState::Running => String::new(),
            _ => format!("by {}", operator.name()),
        };
        if !self.records.operations.become_state(id, next, &reason).await? {
            return Err(ConsoleError::WrongState { id, verb, state: operation.state });
        }
        self.records.audit.record(operator, verb, &format!("operation {id}"), operation.total, "").await?;
        self.wake.notify_one();
        self.operation(id).await
    }

    /// Stops or restarts the workers of a pipeline in this process.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`]; [`ConsoleError::NoWorkers`] when nobody works on it here.
    pub async fn set_paused(
        &self,
        pipeline: &str,
        paused: bool,
        operator: &Operator,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(pipeline)?;
        let workers = desk.workers.as_ref().ok_or_else(|| ConsoleError::NoWorkers(pipeline.to_owned()))?;
        match paused {
            true => workers.switch.pause(),
            false => workers.switch.resume(),
        }
        let action = if paused { "pause pipeline" } else { "resume pipeline" };
        Ok(self.records.audit.record(operator, action, pipeline, 0, "").await?)
    }

    /// Where everything is that each pipeline ever accepted; what a store said that does not answer.
    pub async fn verify(&self) -> Vec<(String, PipelineKind, Result<Balance, String>)> {
        let asked = self.desks.values().map(|desk| desk.queue.balance());
        let answers = futures_util::future::join_all(asked).await;
        let balance = |(desk, answer): (&Desk, Result<Balance, Unavailable>)| {
            let answer = answer.map_err(|error| error.source.to_string());
            (desk.queue.pipeline().to_owned(), desk.queue.kind(), answer)
        };
        self.desks.values().zip(answers).map(balance).collect()
    }

    /// Checks the books now and then, and shows what is missing as `redrive_conservation_gap`.
    pub async fn keep_verifying(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = FIRST_VERIFY;
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let begun = tokio::time::Instant::now();
            for (pipeline, _, answer) in self.verify().await {
                let Ok(balance) = answer else { continue };
                let gap = balance.gap();
                metrics::gauge!("redrive_conservation_gap", "pipeline" => pipeline.clone()).set(gap as f64);
                if gap != 0 {
                    tracing::error!(pipeline, gap, ?balance, "the books do not balance");
                }
            }
            pause = VERIFY_EVERY.max(begun.elapsed() * VERIFY_SHARE);
        }
    }

    /// The latest entries of the audit log before this number, newest first.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<Entry>, ConsoleError> {
        Ok(self.records.audit.list(before, limit).await?)
    }

    /// Writes down what somebody did elsewhere.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn note(&self, operator: &Operator, action: &str, subject: &str) -> Result<(), ConsoleError> {
        Ok(self.records.audit.record(operator, action, subject, 0, "").await?)
    }
}

impl Desk {
    /// The letters of a pipeline that works here.
    #[must_use]
    pub fn of(pipeline: &Pipeline) -> Self {
        Self { queue: Arc::clone(&pipeline.letters), workers: Some(Workers::of(pipeline)) }
    }

    fn wake(&self) {
        if let Some(workers) = &self.workers {
            workers.bell.ring();
        }
    }
}

/// Whether a letter of this status waits for somebody.
#[must_use]
pub const fn is_waiting(status: Status) -> bool {
    matches!(status, Status::Open | Status::Failed)
}

/// Whether the ledger could not be reached, rather than refused.
fn is_away(error: &Error) -> bool {
    error.is_unavailable()
}
