//! Whether every part can work: prepared once, then started, and asked again at each look.
//!
//! A database that is down at the start is no reason to fail: it is tried again until it comes, and
//! `/api/v1/ready` says so meanwhile. One that goes away later is noticed at the next look, or by the
//! workers of its pipeline. So is a table that was altered, or a right that was revoked, since: the catalogue is
//! read again every few seconds, because some of it would show only when the next event dies or is redriven. What a
//! look finds is reported at once wherever it is shown, so that no two places say different things of a pipeline.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use metrics::gauge;
use redrive_core::trouble::{Reason, Trouble};
use redrive_engine::console::Console;
use redrive_engine::ingest::Ingest;
use redrive_server::{Component, Readiness};
use redrive_store::{Error, Plan};
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
const LOOKED_EVERY: Duration = Duration::from_secs(3);
/// How long it may take to compare the tables of a part with what they must be. Nobody who asks waits for it.
const COMPARED_WITHIN: Duration = Duration::from_secs(10);

/// The parts and how far each one is.
pub(crate) struct Monitor {
    parts: Vec<Watched>,
    ingests: Vec<Arc<Ingest>>,
    console: Arc<Console>,
    /// How many looks have begun.
    looks: AtomicU64,
    /// The look that was told last, by its number.
    told: Mutex<u64>,
    /// How each part was at the last look, by kind and name.
    states: Mutex<HashMap<(&'static str, String), State>>,
}

/// What is wrong with a part, and since when it is so.
struct State {
    reason: Option<Reason>,
    since: Timestamp,
}

struct Watched {
    part: Part,
    /// What starts when it is prepared.
    launch: Option<Launch>,
    progress: Mutex<Progress>,
    /// Its tables as they were when they were looked at last.
    tables: Mutex<Result<(), Trouble>>,
}

#[derive(Clone)]
enum Progress {
    /// Not prepared yet, and why.
    Waiting(Trouble),
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
            let starting = Trouble::new(Reason::Starting, "connecting, no answer yet");
            let progress = Mutex::new(Progress::Waiting(starting));
            Watched { part, launch, progress, tables: Mutex::new(Ok(())) }
        };
        let parts = parts.into_iter().map(watched).collect();
        let (looks, told, states) = (AtomicU64::new(0), Mutex::new(0), Mutex::default());
        Self { parts, ingests, console, looks, told, states }
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
        let looking = async {
            loop {
                self.check().await;
                sleep(LOOKED_EVERY).await;
            }
        };
        let comparing = futures_util::future::join_all(self.parts.iter().map(Watched::keep_comparing));
        let _ = stop.run_until_cancelled(async { tokio::join!(looking, comparing) }).await;
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
        let troubled = troubled.map(|part| (part.name.clone(), part.detail.clone().unwrap_or_default()));
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

    /// What a look found of one part, with the time since when it is so.
    fn component(&self, (kind, name): (&'static str, &str), found: Found) -> Component {
        let Found { ok, reason, detail } = found;
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states
            .entry((kind, name.to_owned()))
            .or_insert_with(|| State { reason, since: Timestamp::now() });
        if state.reason != reason {
            show_trouble(kind, name, state.reason, 0.0);
            *state = State { reason, since: Timestamp::now() };
        }
        show_trouble(kind, name, reason, 1.0);
        let (since, reason) = (state.since, reason.map(Reason::as_str));
        Component { name: name.to_owned(), kind, ok, reason, since, detail: Some(detail) }
    }
}

impl Watched {
    async fn prepare(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.part.prepare().await {
            let (kind, name) = (self.part.kind(), self.part.name());
            tracing::warn!(kind, name, place = %self.part.place(), retry_in = ?pause, error = format!("{error}"), "not ready");
            self.note(Progress::Waiting(error.trouble()));
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

    async fn look(&self) -> Result<(), Trouble> {
        match self.progress() {
            Progress::Waiting(why) => Err(why),
            Progress::Prepared => {
                in_time(self.part.ping()).await?;
                self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
                self.launch.as_ref().map_or(Ok(()), Launch::health)
            }
        }
    }

    /// Compares the tables with what they must be, for ever, each part at its own pace.
    async fn keep_comparing(&self) {
        loop {
            if matches!(self.progress(), Progress::Prepared) {
                self.compare().await;
            }
            sleep(LOOKED_EVERY).await;
        }
    }

    /// A database that does not answer says nothing about its tables.
    async fn compare(&self) {
        if let Ok(Ok(plan)) = timeout(COMPARED_WITHIN, self.part.plan()).await {
            *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = check(&plan);
        }
    }

    fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

/// What a look found.
struct Found {
    ok: bool,
    reason: Option<Reason>,
    detail: String,
}

impl From<Result<(), Trouble>> for Found {
    fn from(look: Result<(), Trouble>) -> Self {
        match look {
            Ok(()) => Self { ok: true, reason: None, detail: "ready".to_owned() },
            Err(Trouble { reason, detail }) => Self { ok: false, reason: Some(reason), detail },
        }
    }
}

impl From<&Ingest> for Found {
    /// An ingest pipeline takes events in while its store is down: it is ready, and says what waits. While the disk
    /// takes nothing either, it is not.
    fn from(ingest: &Ingest) -> Self {
        let status = ingest.status();
        if let Some(why) = status.nowhere {
            let detail = format!("neither the store nor the disk takes batches: {why}");
            return Self { ok: false, reason: Some(Reason::DiskUnusable), detail };
        }
        let files = status.spool.files;
        let reason = status.store_down.is_some().then_some(Reason::ObjectStoreUnavailable);
        let detail = match status.store_down {
            Some(error) => format!("ready; the store does not answer, {files} files wait on disk: {error}"),
            None if files > 0 => format!("ready; {files} files wait on disk to be uploaded"),
            None => "ready".to_owned(),
        };
        Self { ok: true, reason, detail }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| error.trouble()),
        Err(_) => Err(Trouble::new(Reason::StoreUnreachable, format!("no answer within {PATIENCE:?}"))),
    }
}

/// Whether tables that were right when the pipeline started still are.
fn check(plan: &Plan) -> Result<(), Trouble> {
    if !plan.problems.is_empty() {
        let detail =
            format!("the tables have changed and cannot be used as they are: {}", plan.problems.join("; "));
        return Err(Trouble::new(Reason::TableRefused, detail));
    }
    if plan.lacks_columns() {
        let detail = format!(
            "tables or columns of redrive's are gone since it started: run `redrive migrate`, which would run: {}",
            plan.statements.join("; ")
        );
        return Err(Trouble::new(Reason::TableRefused, detail));
    }
    match plan.unserved.is_empty() {
        true => Ok(()),
        false => Err(Trouble::new(Reason::TableRefused, plan.unserved.join("; "))),
    }
}

/// `redrive_trouble{kind,name,reason}` is 1 while it lasts.
fn show_trouble(kind: &'static str, name: &str, reason: Option<Reason>, value: f64) {
    if let Some(reason) = reason {
        gauge!("redrive_trouble", "kind" => kind, "name" => name.to_owned(), "reason" => reason.as_str())
            .set(value);
    }
}

#[async_trait]
impl Readiness for Monitor {
    async fn check(&self) -> Vec<Component> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let looks = futures_util::future::join_all(self.parts.iter().map(Watched::look)).await;
        let found = |(watched, look): (&Watched, Result<(), Trouble>)| {
            self.component((watched.part.kind(), watched.part.name()), look.into())
        };
        let mut components: Vec<Component> = self.parts.iter().zip(looks).map(found).collect();
        let of_ingest =
            |ingest: &Arc<Ingest>| self.component(("ingest", ingest.name()), ingest.as_ref().into());
        components.extend(self.ingests.iter().map(of_ingest));
        self.tell(look, &components);
        components
    }
}
