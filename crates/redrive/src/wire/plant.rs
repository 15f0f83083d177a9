//! The plant: every pipeline that works, ready to start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive::config::{AlertsConfig, Config};
use redrive_engine::WatchOptions;
use redrive_engine::alerts::AlertService;
use redrive_engine::console::Desk;
use redrive_engine::ingest::Ingest;
use redrive_server::{Doors, IngestDoor};

use super::stores::OWN;
use super::stores::Stores;
use super::{Launch, ingest, intake, jobs, kafka, outbox, persist};

/// Every pipeline that works, ready to start.
pub(crate) struct Plant {
    /// What starts, by the name of the part that must be prepared first.
    pub(crate) launches: HashMap<String, Launch>,
    /// Where work comes in over HTTP.
    pub(crate) doors: Doors,
    /// The dead letters of each pipeline, for the console.
    pub(crate) desks: Vec<Desk>,
    /// What needs no table, and starts at once.
    pub(crate) ingests: Vec<Arc<Ingest>>,
}

/// What the pipelines share.
pub(super) struct Surroundings<'a> {
    pub(super) alerts: Arc<dyn AlertService>,
    pub(super) watch: &'a AlertsConfig,
    pub(super) grace: Duration,
}

impl Plant {
    /// Makes the pipelines of a configuration on its stores.
    pub(crate) fn new(
        config: &Config,
        stores: &Stores<'_>,
        alerts: Arc<dyn AlertService>,
    ) -> anyhow::Result<Self> {
        let grace = grace(config.server.shutdown_deadline);
        let surroundings = Surroundings { alerts, watch: &config.alerts, grace };
        let mut plant = Self {
            launches: HashMap::new(),
            doors: Doors::default(),
            desks: Vec::new(),
            ingests: Vec::new(),
        };
        for wired in &stores.outboxes {
            let name = &wired.config.name;
            let launch = outbox::launch(wired, &surroundings)
                .with_context(|| format!("[outbox.{name}] cannot start"))?;
            plant.doors.add_outbox(outbox::door(wired, &launch));
            plant.launches.insert(name.clone(), launch);
        }
        for wired in &stores.jobs {
            let name = &wired.config.name;
            let launch =
                jobs::launch(wired, &surroundings).with_context(|| format!("[jobs.{name}] cannot start"))?;
            plant.doors.add_jobs(jobs::door(wired, &launch));
            plant.launches.insert(name.clone(), launch);
        }
        for wired in &stores.persists {
            let name = &wired.config.name;
            let (launch, door) = persist::launch(wired, &surroundings)
                .with_context(|| format!("[persist.{name}] cannot start"))?;
            plant.doors.add_persist(door);
            plant.launches.insert(name.clone(), launch);
        }
        for ingest in &config.ingests {
            let opened = ingest::open(ingest, Arc::clone(&surroundings.alerts), grace)
                .with_context(|| format!("[ingest.{}] cannot start", ingest.name))?;
            plant.doors.add_ingest(IngestDoor::new(Arc::clone(&opened), config.server.max_body.as_len()));
            plant.ingests.push(opened);
        }
        for wired in &stores.kafkas {
            let name = &wired.config.name;
            let launch = kafka::launch(wired, &surroundings)
                .with_context(|| format!("[kafka.{name}] cannot start"))?;
            plant.launches.insert(name.clone(), launch);
        }
        let launch =
            intake::launch(&config.intake, &stores.intake, &surroundings).context("[intake] cannot start")?;
        plant.launches.insert(OWN.to_owned(), launch);
        let files = plant.ingests.iter().map(|ingest| Desk { queue: ingest.letters(), workers: None });
        plant.desks = plant.launches.values().map(|launch| Desk::of(&launch.pipeline)).chain(files).collect();
        Ok(plant)
    }
}

impl Surroundings<'_> {
    /// How a pipeline with this threshold is watched.
    pub(super) fn watch(&self, threshold: u32) -> WatchOptions {
        WatchOptions {
            threshold: threshold.into(),
            check_interval: self.watch.check_interval,
            report_interval: self.watch.report_interval,
        }
    }
}

/// Handlers get most of the time that a stop may take; the rest is for handing back and for alerts.
fn grace(deadline: Duration) -> Duration {
    deadline.mul_f64(0.8)
}
