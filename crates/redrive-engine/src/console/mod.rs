//! The console: every dead letter of every pipeline, and what operators do about them.
//!
//! REST, dashboard and CLI know nothing else. What is done to one letter is done at once; what is done to
//! many is an operation: frozen, paced, followed, and continued after a crash ([`Runner`]).

mod acting;
mod census;
mod desk;
mod error;
mod freezing;
mod pausing;
mod place;
mod pulse;
mod records;
mod request;
mod runner;
mod sending;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use redrive_core::dead_letter::{
    Filter, Group, Letter, LetterId, PipelineKind, Stats, Status, Summary, Unavailable,
};
use redrive_core::fingerprint::Fingerprint;
use redrive_store::{EditedPayload, Entry, Operation, Requests, Samples};
use tokio::sync::Notify;

pub use census::{Count, HOURS};
pub use desk::{Desk, Workers};
pub use error::ConsoleError;
pub use place::{NotAPlace, Place};
pub use pulse::{Pulse, PulseOperation, PulsePipeline, Snapshot};
pub use records::Records;
pub use request::{Action, Canary, Request};
pub use runner::Runner;

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
    /// When they were counted.
    pub counted_at: Option<Timestamp>,
}

/// A page of letters of several pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letterbox {
    /// The letters, newest first.
    pub letters: Vec<Summary>,
    /// Where the next page starts; nothing at the end.
    pub next: Option<Place>,
    /// How far a search looked that was given no more time, and found less than a page.
    pub searched_to: Option<Timestamp>,
    /// The pipelines whose store did not answer, with what it said: their letters are missing here.
    pub unavailable: Vec<(String, String)>,
}

/// What an operation would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// How many letters of each pipeline wait and are meant.
    pub letters: Vec<(String, u64)>,
    /// When they were counted.
    pub as_of: Timestamp,
}

impl Preview {
    /// How many letters in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.letters.iter().map(|(_, count)| count).sum()
    }
}

/// How many groups are remembered by a letter: their letters fail alike, so that any will do for ever.
const MOST_SAMPLES: usize = 1_000;

/// The console of one process.
pub struct Console {
    desks: BTreeMap<String, Desk>,
    censuses: BTreeMap<String, Arc<census::Census>>,
    records: Records,
    /// Where letters that are handed in may be redriven to.
    targets: BTreeSet<String>,
    /// What keeps a pipeline from working, by its name, as far as the process knows.
    troubles: Mutex<BTreeMap<String, String>>,
    /// Which pipelines are paused, as far as is known here.
    pausing: pausing::Pausing,
    /// A letter of each group that somebody asked for.
    samples: Mutex<HashMap<Fingerprint, Summary>>,
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
        let (targets, troubles, samples) = (BTreeSet::new(), Mutex::default(), Mutex::default());
        let pausing = pausing::Pausing::default();
        Self { desks, censuses, records, targets, troubles, pausing, samples, wake: Notify::new() }
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

    /// Notes what keeps pipelines from working, as whoever prepares and watches them sees it.
    pub fn note_troubles(&self, troubles: impl IntoIterator<Item = (String, String)>) {
        *self.troubles() = troubles.into_iter().collect();
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
        if let Some(known) = groups.into_iter().find(|group| group.group.fingerprint == fingerprint) {
            return Ok(Some(known));
        }
        // A census keeps the largest groups; small ones are looked up.
        let mut away = None;
        for desk in self.desks.values() {
            match census::group(desk, fingerprint).await {
                Ok(None) => {}
                Ok(Some(group)) => {
                    let (pipeline, kind) = (desk.queue.pipeline().to_owned(), desk.queue.kind());
                    let count = self.count(desk).await?;
                    let history = count.history.get(&fingerprint).copied().unwrap_or_default().to_vec();
                    return Ok(Some(PipelineGroup { pipeline, kind, group, history }));
                }
                Err(error) => away = Some(error),
            }
        }
        away.map_or(Ok(None), |error| Err(error.into()))
    }

    /// A letter of a group, whatever has become of it; nothing when none is left, or its store does not answer.
    pub async fn sample(&self, group: Fingerprint) -> Option<Summary> {
        let samples = || self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = samples().get(&group) {
            return Some(known.clone());
        }
        let filter = Filter { group: Some(group), ..Filter::default() };
        let found = self.list(&filter, 1, None).await.ok()?.letters.into_iter().next()?;
        let mut samples = samples();
        if samples.len() >= MOST_SAMPLES {
            samples.clear();
        }
        samples.insert(group, found.clone());
        Some(found)
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

    /// What was asked for under a key.
    #[must_use]
    pub const fn requests(&self) -> &Requests {
        &self.records.requests
    }

    /// What charts show, as every instance sampled it.
    #[must_use]
    pub const fn samples(&self) -> &Samples {
        &self.records.samples
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

    /// The latest entries of the audit log before this number, newest first.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<Entry>, ConsoleError> {
        Ok(self.records.audit.list(before, limit).await?)
    }

    /// The pipelines that a filter means.
    fn meant(&self, filter: &Filter) -> Result<Vec<&Desk>, ConsoleError> {
        match &filter.pipeline {
            Some(pipeline) => Ok(vec![self.desk(pipeline)?]),
            None => Ok(self.desks.values().collect()),
        }
    }

    /// The pipelines that an operation means: those that there were when it was asked for.
    fn meant_by(&self, request: &Request) -> Result<Vec<&Desk>, ConsoleError> {
        match request.pipelines.is_empty() {
            true => self.meant(&request.filter),
            false => request.pipelines.iter().map(|pipeline| self.desk(pipeline)).collect(),
        }
    }

    async fn look(&self, desk: &Desk) -> Overview {
        let count = self.count(desk).await;
        let away = count.as_ref().err().map(|error| error.source.to_string());
        let of_workers = || desk.workers.as_ref().and_then(desk::Workers::trouble);
        let noted = || self.troubles().get(desk.queue.pipeline()).cloned();
        Overview {
            name: desk.queue.pipeline().to_owned(),
            kind: desk.queue.kind(),
            paused: desk.workers.as_ref().map(|workers| workers.switch.is_paused()),
            // What readiness knows says why, where a listing only fails.
            trouble: noted().or_else(of_workers).or(away),
            counted_at: count.as_ref().ok().map(|count| count.at),
            stats: count.ok().map(|count| count.stats.clone()),
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

    fn troubles(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a letter of this status waits for somebody.
#[must_use]
pub const fn is_waiting(status: Status) -> bool {
    matches!(status, Status::Open | Status::Failed)
}
