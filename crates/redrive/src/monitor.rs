//! Whether every part can work: prepared once, then started, and asked again at each look.
//!
//! A database that is down at the start is no reason to fail: it is tried again until it comes, and
//! `/api/v1/ready` says so meanwhile. One that goes away later is noticed at the next look, or by the
//! workers of its pipeline. What a look finds is told at once wherever it is shown, so that no two places
//! say different things of a pipeline.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use metrics::gauge;
use redrive_engine::console::Console;
use redrive_engine::ingest::Ingest;
use redrive_server::{Component, Readiness};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::running::Running;
use crate::wire::{Launch, Part};

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pauses between attempts at the start: short enough to be back soon after a database is.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often it is looked when nobody asks.
const LOOKED_EVERY: Duration = Duration::from_secs(5);

/// The parts and how far each one is.
pub(crate) struct Monitor {
    parts: Vec<Watched>,
    ingests: Vec<Arc<Ingest>>,
    console: Arc<Console>,
    /// How many looks have begun.
    looks: AtomicU64,
    /// The look that was told last, by its number.
    told: Mutex<u64>,
}

struct Watched {
    part: Part,
    /// What starts when it is prepared.
    launch: Option<Launch>,
    progress: Mutex<Progress>,
}

#[derive(Clone)]
enum Progress {
    /// Not prepared yet, and why.
    Waiting(String),
    Prepared,
}

impl Monitor {
    /// These parts, what starts when the part of that name is prepared, and who is told how they are.
    pub(crate) fn new(
        parts: Vec<Part>,
        mut launches: HashMap<String, Launch>,
        ingests: Vec<Arc<Ingest>>,
        console: Arc<Console>,
    ) -> Self {
        let watched = |part: Part| {
            let launch = launches.remove(part.name());
            let progress = Mutex::new(Progress::Waiting("connecting, no answer yet".to_owned()));
            Watched { part, launch, progress }
        };
        let parts = parts.into_iter().map(watched).collect();
        Self { parts, ingests, console, looks: AtomicU64::new(0), told: Mutex::new(0) }
    }

    /// Prepares and starts every part, each for as long as it takes; ends when all are done or at the stop.
    pub(crate) async fn prepare(self: Arc<Self>, running: Arc<Running>, stop: CancellationToken) {
        let mut preparing = JoinSet::new();
        for index in 0..self.parts.len() {
            let monitor = Arc::clone(&self);
            let (running, stop) = (Arc::clone(&running), stop.clone());
            preparing.spawn(async move {
                let part = &monitor.parts[index];
                if stop.run_until_cancelled(part.prepare()).await.is_some() {
                    // One that was paused before a restart stays paused. If that cannot be read now, it works: the
                    // console's database must not keep a healthy pipeline from it.
                    if timeout(PATIENCE, monitor.console.follow_pauses()).await != Ok(true) {
                        let name = part.part.name();
                        tracing::warn!(
                            name,
                            "begins to work: whether somebody has paused it cannot be read now"
                        );
                    }
                    part.start(&running);
                    stop.run_until_cancelled(monitor.check()).await;
                }
            });
        }
        while preparing.join_next().await.is_some() {}
    }

    /// Looks, and tells what it found, until it is told to stop.
    pub(crate) async fn keep_looking(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(self.check()).await.is_some() {
            let _ = stop.run_until_cancelled(sleep(LOOKED_EVERY)).await;
        }
    }

    /// Lets go of every connection.
    pub(crate) async fn close(&self) {
        for watched in &self.parts {
            watched.part.close().await;
        }
    }

    /// Shows what a look found as `redrive_ready`, for those who watch numbers, and in the console, for those who
    /// look at pipelines. A look that was overtaken by a later one knows nothing new.
    fn tell(&self, look: u64, components: &[Component]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if look < *told {
            return;
        }
        *told = look;
        let troubled = components.iter().filter(|component| !component.ok);
        let troubled = troubled.map(|part| (part.name.clone(), part.detail.clone()));
        // It is ready, since it takes events in; but something is wrong with it.
        let stores = self.ingests.iter().filter_map(|ingest| {
            let error = ingest.status().store_down?;
            Some((ingest.name().to_owned(), format!("the store does not answer: {error}")))
        });
        self.console.note_troubles(troubled.chain(stores));
        for Component { kind, name, ok, .. } in components {
            gauge!("redrive_ready", "kind" => *kind, "name" => name.clone()).set(f64::from(u8::from(*ok)));
        }
    }
}

impl Watched {
    async fn prepare(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.part.prepare().await {
            let (kind, name) = (self.part.kind(), self.part.name());
            tracing::warn!(kind, name, place = %self.part.place(), retry_in = ?pause, error = format!("{error}"), "not ready");
            self.note(Progress::Waiting(format!("{error}")));
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn start(&self, running: &Running) {
        if let Some(launch) = &self.launch {
            launch.start(running);
        }
        self.note(Progress::Prepared);
        tracing::info!(kind = self.part.kind(), name = self.part.name(), "ready");
    }

    async fn look(&self) -> Component {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match progress {
            Progress::Waiting(why) => self.component(Err(why)),
            Progress::Prepared => match timeout(PATIENCE, self.part.ping()).await {
                Ok(Ok(())) => self.component(self.launch.as_ref().map_or(Ok(()), Launch::health)),
                Ok(Err(error)) => self.component(Err(format!("{error}"))),
                Err(_) => self.component(Err(format!("no answer within {PATIENCE:?}"))),
            },
        }
    }

    fn component(&self, state: Result<(), String>) -> Component {
        Component {
            name: self.part.name().to_owned(),
            kind: self.part.kind(),
            ok: state.is_ok(),
            detail: state.err().unwrap_or_else(|| "ready".to_owned()),
        }
    }

    fn note(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

/// An ingest pipeline takes events in while its store is down: it is ready, and says what waits.
fn component(ingest: &Ingest) -> Component {
    let status = ingest.status();
    let files = status.spool.files;
    let detail = match status.store_down {
        Some(error) => format!("ready; the store does not answer, {files} files wait on disk: {error}"),
        None if files > 0 => format!("ready; {files} files wait on disk to be uploaded"),
        None => "ready".to_owned(),
    };
    Component { name: ingest.name().to_owned(), kind: "ingest", ok: true, detail }
}

#[async_trait]
impl Readiness for Monitor {
    async fn check(&self) -> Vec<Component> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let looks = self.parts.iter().map(Watched::look);
        let mut components = futures_util::future::join_all(looks).await;
        components.extend(self.ingests.iter().map(|ingest| component(ingest)));
        self.tell(look, &components);
        components
    }
}
