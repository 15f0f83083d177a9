//! A console straight on the stores of a configuration, without a server: nobody works on the pipelines here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use axum::Router;
use redrive::config::Config;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind};
use redrive_core::policy::Policy;
use redrive_engine::Pipeline;
use redrive_engine::console::{Console, Desk, Pulse, Records};
use redrive_server::{
    Access, Caller, Component, Doors, Gate, JobsDoor, Metrics, OutboxDoor, Readiness, Role, Series, Site,
};
use tokio_util::sync::CancellationToken;

use super::stores::Stores;

/// A console straight on the stores.
pub(crate) struct Inside {
    /// Letters and operations.
    pub(crate) console: Arc<Console>,
    /// The routes of the API, without a socket.
    pub(crate) router: Router,
}

impl Inside {
    /// The console of this configuration, for this person. Nothing is connected yet.
    pub(crate) fn open(config: &Config, operator: &str) -> anyhow::Result<Self> {
        let stores = Stores::of(config)?;
        let targets = config.intake.targets.iter().map(|(name, _)| name.clone());
        let console = Console::new(Records::of(&stores.own), desks(&stores)).with_targets(targets);
        let console = Arc::new(console);
        let site = Site {
            readiness: Arc::new(Unwatched),
            access: Access::default(),
            console: Arc::clone(&console),
            pulse: Pulse::default(),
            doors: Arc::new(doors(&stores)?),
            metrics: Metrics::install()?,
            series: Series::default(),
            stop: CancellationToken::new(),
        };
        let caller = Caller { name: operator.to_owned(), role: Role::Admin };
        Ok(Self { console, router: redrive_server::inside(site, caller) })
    }
}

/// The letters in every store. Those of an ingest pipeline are files that only its server may touch.
fn desks(stores: &Stores<'_>) -> Vec<Desk> {
    let mut queues: Vec<Arc<dyn DeadLetterQueue>> = vec![stores.intake.clone()];
    queues.extend(stores.outboxes.iter().map(|wired| wired.store.clone() as Arc<dyn DeadLetterQueue>));
    queues.extend(stores.jobs.iter().map(|wired| wired.store.clone() as Arc<dyn DeadLetterQueue>));
    queues.extend(stores.persists.iter().map(|wired| wired.store.failed.clone() as Arc<dyn DeadLetterQueue>));
    queues.extend(stores.kafkas.iter().map(|wired| wired.store.clone() as Arc<dyn DeadLetterQueue>));
    queues.into_iter().map(|queue| Desk { queue, workers: None }).collect()
}

/// Where work can be put in: a row of a table needs nobody to take it.
fn doors(stores: &Stores<'_>) -> anyhow::Result<Doors> {
    let gate = Gate::default();
    gate.open();
    let second = Duration::from_secs(1);
    // Nothing is attempted here, so nothing is judged.
    let policy =
        Policy::new(1, Backoff::new(second, 1.0, second).context("invariant: a backoff of a second")?);
    let mut doors = Doors::default();
    for wired in &stores.outboxes {
        let (name, store) = (&wired.config.name, &wired.store);
        let pipeline =
            Pipeline::new(name, PipelineKind::Outbox, store.clone(), store.clone(), policy.clone());
        doors.add_outbox(OutboxDoor::new(Arc::new(pipeline), store.clone(), gate.clone()));
    }
    for wired in &stores.jobs {
        let (name, store) = (&wired.config.name, &wired.store);
        let pipeline = Pipeline::new(name, PipelineKind::Jobs, store.clone(), store.clone(), policy.clone());
        doors.add_jobs(JobsDoor::new(Arc::new(pipeline), store.clone(), gate.clone()));
    }
    Ok(doors)
}

/// Nobody watches the parts here: whoever asks for something hears it then.
struct Unwatched;

#[async_trait]
impl Readiness for Unwatched {
    async fn check(&self) -> Vec<Component> {
        Vec::new()
    }
}
