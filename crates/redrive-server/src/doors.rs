//! The doors of the pipelines: where work comes in, and where workers elsewhere come for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use redrive_engine::ingest::Ingest;
use redrive_engine::{Pipeline, Remote};
use redrive_store::{Jobs, Outbox};

use crate::Problem;
use crate::accepted::Accepted;

/// Every pipeline that takes work over HTTP, by kind and name.
#[derive(Default)]
pub struct Doors {
    outboxes: BTreeMap<String, OutboxDoor>,
    jobs: BTreeMap<String, JobsDoor>,
    ingests: BTreeMap<String, IngestDoor>,
}

/// Where events come into object storage.
pub struct IngestDoor {
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) max_body: usize,
}

impl IngestDoor {
    /// The door of this pipeline, for bodies of so many bytes once they are unpacked.
    #[must_use]
    pub fn new(ingest: Arc<Ingest>, max_body: usize) -> Self {
        Self { ingest, max_body }
    }
}

/// Where events come into an outbox.
pub struct OutboxDoor {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) store: Arc<Outbox>,
    pub(crate) accepted: Accepted,
    gate: Gate,
}

/// Where jobs come into a queue, and where workers elsewhere get them.
pub struct JobsDoor {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) store: Arc<Jobs>,
    pub(crate) remote: Remote,
    pub(crate) accepted: Accepted,
    gate: Gate,
}

/// Whether a pipeline can be used yet: its tables may still be on their way. Clones are one gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// The pipeline can be used from now on.
    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl OutboxDoor {
    /// The door of this outbox, usable as soon as the gate is open.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, store: Arc<Outbox>, gate: Gate) -> Self {
        let accepted = Accepted::new(&pipeline.name);
        Self { pipeline, store, accepted, gate }
    }
}

impl JobsDoor {
    /// The door of this queue, usable as soon as the gate is open.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, store: Arc<Jobs>, gate: Gate) -> Self {
        let accepted = Accepted::new(&pipeline.name);
        let remote = Remote::new(Arc::clone(&pipeline));
        Self { pipeline, store, remote, accepted, gate }
    }
}

impl Doors {
    /// Adds an outbox.
    pub fn add_outbox(&mut self, door: OutboxDoor) {
        self.outboxes.insert(door.pipeline.name.clone(), door);
    }

    /// Adds a job queue.
    pub fn add_jobs(&mut self, door: JobsDoor) {
        self.jobs.insert(door.pipeline.name.clone(), door);
    }

    /// Adds an ingest pipeline.
    pub fn add_ingest(&mut self, door: IngestDoor) {
        self.ingests.insert(door.ingest.name().to_owned(), door);
    }

    /// The ingest pipeline of this name.
    pub(crate) fn ingest(&self, name: &str) -> Result<&IngestDoor, Problem> {
        let other = self.kind_of(name);
        self.ingests.get(name).ok_or_else(|| unknown("ingest pipeline", name, self.ingests.keys(), other))
    }

    /// What is called so.
    fn kind_of(&self, name: &str) -> Option<&'static str> {
        let kinds = [
            (self.outboxes.contains_key(name), "an outbox"),
            (self.jobs.contains_key(name), "a job queue"),
            (self.ingests.contains_key(name), "an ingest pipeline"),
        ];
        kinds.into_iter().find_map(|(is_called_so, kind)| is_called_so.then_some(kind))
    }

    /// The outbox of this name.
    pub(crate) fn outbox(&self, name: &str) -> Result<&OutboxDoor, Problem> {
        let other = self.kind_of(name);
        let door =
            self.outboxes.get(name).ok_or_else(|| unknown("outbox", name, self.outboxes.keys(), other))?;
        if door.gate.is_open() { Ok(door) } else { Err(not_ready(name)) }
    }

    /// The job queue of this name.
    pub(crate) fn jobs(&self, name: &str) -> Result<&JobsDoor, Problem> {
        let other = self.kind_of(name);
        let door = self.jobs.get(name).ok_or_else(|| unknown("job queue", name, self.jobs.keys(), other))?;
        if door.gate.is_open() { Ok(door) } else { Err(not_ready(name)) }
    }
}

fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a String>,
    other: Option<&str>,
) -> Problem {
    let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
    let is_other = other.map(|other| format!(" `{name}` is {other}.")).unwrap_or_default();
    let known = if known.is_empty() { "none".to_owned() } else { known };
    let detail = format!("There is no {kind} named `{name}`.{is_other} Known here: {known}.");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

fn not_ready(name: &str) -> Problem {
    let detail = format!(
        "The tables of `{name}` are not ready yet: its database does not answer, or they are being made; \
         /api/v1/ready says which. Nothing was done: send it again."
    );
    Problem::unavailable(detail)
}
