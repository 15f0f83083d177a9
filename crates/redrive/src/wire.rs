//! From a valid configuration to the stores behind it. The only file that knows how those are made.

use std::collections::HashMap;

use async_trait::async_trait;
use redrive::config::{
    Config, DatabaseUrl, JobsConfig, OnDead, Ordering, OutboxConfig, PersistConfig, Processed,
};
use redrive_core::dead_letter::PipelineKind;
use redrive_store::{
    Audit, Database, Error, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, Letters, Operations,
    Outbox, OutboxOptions,
};

/// A pipeline, or a database, that must be prepared and can be asked how it is.
pub(crate) struct Part {
    name: String,
    kind: &'static str,
    place: String,
    database: Database,
    tables: Box<dyn Tables>,
}

/// Tables that are created and brought up to date by whoever uses them.
#[async_trait]
trait Tables: Send + Sync {
    async fn migrate(&self) -> Result<(), Error>;
}

impl Part {
    /// Its name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it is: `outbox`, `jobs`, …, or `store`.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// Where its data is, without secrets.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Gets it ready to work.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        self.tables.migrate().await
    }

    /// Whether it can work right now.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        self.database.ping().await
    }

    /// Lets go of its connections.
    pub(crate) async fn close(&self) {
        self.database.close().await;
    }
}

/// Every part of a configuration that keeps something in a database. Nothing is connected yet: that
/// is what `prepare` does. Call it within a runtime, which the drivers need.
pub(crate) fn wire(config: &Config) -> Result<Vec<Part>, Error> {
    let mut databases = Databases::default();
    let own = &config.server.database;
    let mut parts = vec![
        databases.part("server.database", "store", own, |database| Ok(Box::new(Console::new(&database))))?,
    ];
    for outbox in &config.outboxes {
        parts.push(databases.part(&outbox.name, "outbox", &outbox.database, |database| {
            Ok(Box::new(Outbox::new(database, outbox_options(outbox))?))
        })?);
    }
    for jobs in &config.jobs {
        parts.push(databases.part(&jobs.name, "jobs", &jobs.database, |database| {
            Ok(Box::new(Jobs::new(database, jobs_options(jobs))?))
        })?);
    }
    for persist in &config.persists {
        parts.push(databases.part(&persist.name, "persist", &persist.database, |database| {
            Ok(Box::new(FailedEvents::new(database, failed_events_options(persist))?))
        })?);
    }
    for kafka in &config.kafkas {
        parts.push(databases.part(&kafka.name, "kafka", own, |database| {
            Ok(Box::new(Letters::new(database, &kafka.name, PipelineKind::Kafka)))
        })?);
    }
    Ok(parts)
}

/// redrive's own tables: letters that were handed in, operations, audit.
struct Console {
    letters: Letters,
    operations: Operations,
    audit: Audit,
}

impl Console {
    fn new(database: &Database) -> Self {
        Self {
            letters: Letters::new(database.clone(), PipelineKind::Intake.name(), PipelineKind::Intake),
            operations: Operations::new(database.clone()),
            audit: Audit::new(database.clone()),
        }
    }
}

fn outbox_options(outbox: &OutboxConfig) -> OutboxOptions {
    OutboxOptions {
        pipeline: outbox.name.clone(),
        table: outbox.table.as_str().to_owned(),
        letters_table: outbox.dlq_table.as_str().to_owned(),
        ordering: match (outbox.ordering, outbox.on_dead) {
            (Ordering::None, _) => redrive_store::Ordering::None,
            (Ordering::Aggregate, OnDead::Hold) => redrive_store::Ordering::AggregateHold,
            (Ordering::Aggregate, OnDead::Skip) => redrive_store::Ordering::AggregateSkip,
        },
        processed: match outbox.processed {
            Processed::Keep => redrive_store::Processed::Keep,
            Processed::Delete => redrive_store::Processed::Delete,
        },
    }
}

fn jobs_options(jobs: &JobsConfig) -> JobsOptions {
    JobsOptions {
        pipeline: jobs.name.clone(),
        table: jobs.table.as_str().to_owned(),
        subject_column: jobs.subject_column.as_str().to_owned(),
        max_retries: jobs.max_retries,
    }
}

fn failed_events_options(persist: &PersistConfig) -> FailedEventsOptions {
    FailedEventsOptions {
        pipeline: persist.name.clone(),
        table: persist.failed_table.as_str().to_owned(),
        key_column: persist.columns.key.as_str().to_owned(),
        payload_column: persist.columns.payload.as_str().to_owned(),
    }
}

/// One `Database` per address, however many pipelines share it.
#[derive(Default)]
struct Databases {
    open: HashMap<DatabaseUrl, Database>,
}

impl Databases {
    fn part(
        &mut self,
        name: &str,
        kind: &'static str,
        url: &DatabaseUrl,
        tables: impl FnOnce(Database) -> Result<Box<dyn Tables>, Error>,
    ) -> Result<Part, Error> {
        let database = self.open(url)?;
        let tables = tables(database.clone())?;
        Ok(Part { name: name.to_owned(), kind, place: url.to_string(), database, tables })
    }

    fn open(&mut self, url: &DatabaseUrl) -> Result<Database, Error> {
        if let Some(database) = self.open.get(url) {
            return Ok(database.clone());
        }
        let database = Database::open(url.expose())?;
        self.open.insert(url.clone(), database.clone());
        Ok(database)
    }
}

#[async_trait]
impl Tables for Console {
    async fn migrate(&self) -> Result<(), Error> {
        self.letters.migrate().await?;
        self.operations.migrate().await?;
        self.audit.migrate().await
    }
}

#[async_trait]
impl Tables for Letters {
    async fn migrate(&self) -> Result<(), Error> {
        Letters::migrate(self).await
    }
}

#[async_trait]
impl Tables for Outbox {
    async fn migrate(&self) -> Result<(), Error> {
        Outbox::migrate(self).await
    }
}

#[async_trait]
impl Tables for Jobs {
    async fn migrate(&self) -> Result<(), Error> {
        Jobs::migrate(self).await
    }
}

#[async_trait]
impl Tables for FailedEvents {
    async fn migrate(&self) -> Result<(), Error> {
        FailedEvents::migrate(self).await
    }
}
