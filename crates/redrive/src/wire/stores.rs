//! The stores of a configuration.

use std::sync::Arc;

use redrive::config::{Config, DatabaseUrl, JobsConfig, KafkaConfig, OutboxConfig, PersistConfig};
use redrive_engine::console::Records;
use redrive_store::{Database, Error, FailedEvents, Jobs, Letters, Outbox, Target};

use super::databases::Databases;
use super::part::{Part, Persisted, Tables};
use super::{jobs, outbox, persist};

/// The name of the part that is redrive's own database.
pub(super) const OWN: &str = "server.database";

/// Every part of a configuration that keeps something in a database.
pub(crate) struct Stores<'a> {
    /// All of them, redrive's own first.
    pub(crate) parts: Vec<Part>,
    /// redrive's own database.
    pub(crate) own: Database,
    /// Letters that were handed in, in that.
    pub(super) intake: Arc<Letters>,
    /// The outboxes among them.
    pub(super) outboxes: Vec<Wired<'a, OutboxConfig, Outbox>>,
    /// The job queues among them.
    pub(super) jobs: Vec<Wired<'a, JobsConfig, Jobs>>,
    /// The persist pipelines among them.
    pub(super) persists: Vec<Wired<'a, PersistConfig, Persisted>>,
    /// The index of letters of each Kafka pipeline.
    pub(super) kafkas: Vec<Wired<'a, KafkaConfig, Letters>>,
}

/// The store of a pipeline, with its configuration.
pub(super) struct Wired<'a, C, S> {
    pub(super) config: &'a C,
    /// Where to listen for new work, past a pooler; none where the store's own database says it.
    pub(super) listen: Option<Database>,
    pub(super) store: Arc<S>,
}

impl<'a> Stores<'a> {
    /// Opens none of them yet.
    pub(crate) fn of(config: &'a Config) -> Result<Self, Error> {
        let mut databases = Databases::new(config.server.schema.as_ref());
        let own = &config.server.database;
        let database = databases.open(own)?;
        let records = Arc::new(Records::of(&database));
        let intake = Arc::clone(&records.intake);
        let console = part(OWN, "store", own, &database, records);
        let mut stores = Self {
            parts: vec![console],
            own: database.clone(),
            intake,
            outboxes: Vec::new(),
            jobs: Vec::new(),
            persists: Vec::new(),
            kafkas: Vec::new(),
        };
        for outbox in &config.outboxes {
            let listen = databases.open_optional(outbox.listen_database.as_ref())?;
            stores.add_outbox(outbox, &databases.open(&outbox.database)?, listen)?;
        }
        for jobs in &config.jobs {
            let listen = databases.open_optional(jobs.listen_database.as_ref())?;
            stores.add_jobs(jobs, &databases.open(&jobs.database)?, listen)?;
        }
        for persist in &config.persists {
            stores.add_persist(persist, &databases.open(&persist.database)?)?;
        }
        for kafka in &config.kafkas {
            let store = Arc::new(Letters::of_topic(database.clone(), &kafka.name, kafka.topic.as_str()));
            stores.parts.push(part(&kafka.name, "kafka", own, &database, store.clone()));
            stores.kafkas.push(Wired { config: kafka, listen: None, store });
        }
        Ok(stores)
    }

    fn add_outbox(
        &mut self,
        config: &'a OutboxConfig,
        database: &Database,
        listen: Option<Database>,
    ) -> Result<(), Error> {
        let store = Arc::new(Outbox::new(database.clone(), outbox::options(config))?);
        self.parts.push(part(&config.name, "outbox", &config.database, database, store.clone()));
        self.outboxes.push(Wired { config, listen, store });
        Ok(())
    }

    fn add_jobs(
        &mut self,
        config: &'a JobsConfig,
        database: &Database,
        listen: Option<Database>,
    ) -> Result<(), Error> {
        let store = Arc::new(Jobs::new(database.clone(), jobs::options(config))?);
        self.parts.push(part(&config.name, "jobs", &config.database, database, store.clone()));
        self.jobs.push(Wired { config, listen, store });
        Ok(())
    }

    fn add_persist(&mut self, config: &'a PersistConfig, database: &Database) -> Result<(), Error> {
        let target = Arc::new(Target::new(database.clone(), &persist::target_options(config))?);
        let failed = Arc::new(FailedEvents::new(database.clone(), persist::failed_options(config))?);
        let store = Arc::new(Persisted { target, failed });
        self.parts.push(part(&config.name, "persist", &config.database, database, store.clone()));
        self.persists.push(Wired { config, listen: None, store });
        Ok(())
    }
}

fn part(
    name: &str,
    kind: &'static str,
    url: &DatabaseUrl,
    database: &Database,
    tables: Arc<dyn Tables>,
) -> Part {
    let (name, address, place) = (name.to_owned(), url.clone(), url.to_string());
    Part { name, kind, address, place, database: database.clone(), tables }
}
