//! The plant: every pipeline that works, ready to start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive::config::{AlertsConfig, Config, IngestConfig, JobsConfig, OutboxConfig, PersistConfig};
use redrive_engine::WatchOptions;
use redrive_engine::alerts::AlertService;
use redrive_engine::console::Desk;
use redrive_engine::ingest::Ingest;
use redrive_server::{Doors, IngestDoor};
use redrive_store::{Jobs, Outbox};

use super::part::Persisted;
use super::stores::{OWN, Stores, Wired};
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
            plant.add_outbox(wired, &surroundings)?;
        }
        for wired in &stores.jobs {
            plant.add_jobs(wired, &surroundings)?;
        }
        for wired in &stores.persists {
            plant.add_persist(wired, &surroundings)?;
        }
        for ingest in &config.ingests {
            plant.add_ingest(ingest, config.server.max_body.as_len(), &surroundings)?;
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

    fn add_outbox(
        &mut self,
        wired: &Wired<'_, OutboxConfig, Outbox>,
        surroundings: &Surroundings<'_>,
    ) -> anyhow::Result<()> {
        let name = &wired.config.name;
        let launch =
            outbox::launch(wired, surroundings).with_context(|| format!("[outbox.{name}] cannot start"))?;
        self.doors.add_outbox(outbox::door(wired, &launch));
        self.launches.insert(name.clone(), launch);
        Ok(())
    }

    fn add_jobs(
        &mut self,
        wired: &Wired<'_, JobsConfig, Jobs>,
        surroundings: &Surroundings<'_>,
    ) -> anyhow::Result<()> {
        let name = &wired.config.name;
        let launch =
            jobs::launch(wired, surroundings).with_context(|| format!("[jobs.{name}] cannot start"))?;
        self.doors.add_jobs(jobs::door(wired, &launch));
        self.launches.insert(name.clone(), launch);
        Ok(())
    }

    fn add_persist(
        &mut self,
        wired: &Wired<'_, PersistConfig, Persisted>,
        surroundings: &Surroundings<'_>,
    ) -> anyhow::Result<()> {
        let name = &wired.config.name;
        let (launch, door) =
            persist::launch(wired, surroundings).with_context(|| format!("[persist.{name}] cannot start"))?;
        self.doors.add_persist(door);
        self.launches.insert(name.clone(), launch);
        Ok(())
    }

    fn add_ingest(
        &mut self,
        config: &IngestConfig,
        max_body: usize,
        surroundings: &Surroundings<'_>,
    ) -> anyhow::Result<()> {
        let opened = ingest::open(config, Arc::clone(&surroundings.alerts), surroundings.grace)
            .with_context(|| format!("[ingest.{}] cannot start", config.name))?;
        self.doors.add_ingest(IngestDoor::new(Arc::clone(&opened), max_body));
        self.ingests.push(opened);
        Ok(())
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
