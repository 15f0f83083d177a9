//! The doors of the pipelines: where work comes in, and where workers elsewhere come for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use redrive_engine::ingest::Ingest;
use redrive_engine::{Persister, Pipeline, Remote};
use redrive_store::{Jobs, Outbox, Record};

use crate::Problem;
use crate::accepted::Accepted;
use crate::event_body::BodyReaders;

/// Every pipeline that takes work over HTTP, by kind and name.
#[derive(Default)]
pub struct Doors {
    outboxes: BTreeMap<String, OutboxDoor>,
    jobs: BTreeMap<String, JobsDoor>,
    persists: BTreeMap<String, PersistDoor>,
    ingests: BTreeMap<String, IngestDoor>,
    body_readers: BodyReaders,
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

/// Where events come into a persister.
pub struct PersistDoor {
    pub(crate) persister: Persister<Record>,
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

impl PersistDoor {
    /// The door of this persister, usable as soon as the gate is open.
    #[must_use]
    pub fn new(persister: Persister<Record>, gate: Gate) -> Self {
        let accepted = Accepted::new(&persister.pipeline().name);
        Self { persister, accepted, gate }
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

    /// Adds a persister.
    pub fn add_persist(&mut self, door: PersistDoor) {
        self.persists.insert(door.persister.pipeline().name.clone(), door);
    }

    /// Adds an ingest pipeline.
    pub fn add_ingest(&mut self, door: IngestDoor) {
        self.ingests.insert(door.ingest.name().to_owned(), door);
    }

    /// The ingest pipeline of this name.
    pub(crate) fn ingest(&self, name: &str) -> Result<&IngestDoor, Problem> {
        let door = self.ingests.get(name);
        door.ok_or_else(|| self.unknown("ingest pipeline", name, self.ingests.keys()))
    }

    /// Who reads the bodies of ingest requests.
    pub(crate) fn body_readers(&self) -> &BodyReaders {
        &self.body_readers
    }

    /// The outbox of this name.
    pub(crate) fn outbox(&self, name: &str) -> Result<&OutboxDoor, Problem> {
        let door = self.outboxes.get(name);
        let door = door.ok_or_else(|| self.unknown("outbox", name, self.outboxes.keys()))?;
        if door.gate.is_open() { Ok(door) } else { Err(not_ready(name)) }
    }

    /// The job queue of this name.
    pub(crate) fn jobs(&self, name: &str) -> Result<&JobsDoor, Problem> {
        let door = self.jobs.get(name);
        let door = door.ok_or_else(|| self.unknown("job queue", name, self.jobs.keys()))?;
        if door.gate.is_open() { Ok(door) } else { Err(not_ready(name)) }
    }

    /// Waits until no claim is under way, and what nobody received is given back. For after the server has stopped.
    pub async fn finish_claims(&self) {
        for door in self.jobs.values() {
            door.remote.finish().await;
        }
    }

    /// The persister of this name.
    pub(crate) fn persist(&self, name: &str) -> Result<&PersistDoor, Problem> {
        let door = self.persists.get(name);
        let door = door.ok_or_else(|| self.unknown("persist pipeline", name, self.persists.keys()))?;
        if door.gate.is_open() { Ok(door) } else { Err(not_ready(name)) }
    }

    fn unknown<'a>(&self, kind: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Problem {
        let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        let other = self.kind_of(name).map(|other| format!(" `{name}` is {other}.")).unwrap_or_default();
        let detail = format!("There is no {kind} named `{name}`.{other} Known here: {known}.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// What the pipeline of this name is, with its article.
    fn kind_of(&self, name: &str) -> Option<&'static str> {
        let kinds = [
            (self.outboxes.contains_key(name), "an outbox"),
            (self.jobs.contains_key(name), "a job queue"),
            (self.persists.contains_key(name), "a persist pipeline"),
            (self.ingests.contains_key(name), "an ingest pipeline"),
        ];
        kinds.into_iter().find(|(is_it, _)| *is_it).map(|(_, kind)| kind)
    }
}

fn not_ready(name: &str) -> Problem {
    let detail = format!(
        "The tables of `{name}` cannot be used yet: /api/v1/ready says why, and what to correct. Nothing was done: \
         send it again once it is ready."
    );
    Problem::unavailable(detail)
}
