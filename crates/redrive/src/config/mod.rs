//! The configuration: `redrive.toml`, overridden by `REDRIVE__SECTION__KEY`, checked as a whole.
//!
//! ```text
//! file + variables ──Document──▶ tree with places ──Section──▶ Config, or every Mistake at once
//! ```
//!
//! What leaves this module is valid, plain and immutable. Every setting is declared where it is read,
//! with its default and a line of explanation; `docs/configuration.md` is printed from that.
//! Secrets never appear in a message: neither their values nor the lines they stand in.

mod address;
mod alerts;
mod auto_redrive;
mod column;
mod context;
mod database;
mod document;
mod environment;
mod finding;
mod handler;
mod identifier;
mod ingest;
mod intake;
mod jobs;
mod kafka;
mod mistake;
mod outbox;
mod persist;
mod reference;
mod retry;
mod secret;
mod section;
mod server;
mod setting;
mod size;
mod snippet;
mod source;
mod store;
mod suggestion;

use std::path::PathBuf;

pub use address::{HttpUrl, SmtpUrl, StoreUrl, WebhookUrl};
pub use alerts::{AlertsConfig, Channel, EmailChannel, WebhookChannel};
pub use auto_redrive::{AutoRedrive, FailureClass, Letters};
pub use database::{Backend, DatabaseUrl};
pub use environment::Environment;
pub use handler::{CommandHandler, Handler, HttpHandler, KafkaHandler};
pub use identifier::{ColumnName, SchemaName, TableName};
pub use ingest::{
    IngestBatch, IngestConfig, JournalConfig, OnFull, RecoveryConfig, SpoolConfig, UploadConfig,
};
pub use intake::IntakeConfig;
pub use jobs::JobsConfig;
pub use kafka::{
    Brokers, CreateTopics, KafkaBatch, KafkaConfig, KafkaFallback, KafkaParking, KafkaPlace, KafkaPosition,
    KafkaSink, TopicName,
};
pub use mistake::{Mistake, Mistakes};
pub use outbox::{Ids, OnDead, Ordering, OutboxConfig, Processed};
pub use persist::{
    Cron, Durability, FailedColumns, PersistColumns, PersistConfig, PersistDlq, PersistJournal, PersistQueue,
};
pub use reference::reference;
pub use retry::{Backoff, Retry};
pub use secret::Secret;
pub use server::{Role, ServerConfig, Token, TokenHash};
pub use size::ByteSize;
pub use source::Source;

use context::Context;
use document::Document;
use section::Section;

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`
    pub server: ServerConfig,
    /// `[outbox.NAME]`
    pub outboxes: Vec<OutboxConfig>,
    /// `[jobs.NAME]`
    pub jobs: Vec<JobsConfig>,
    /// `[persist.NAME]`
    pub persists: Vec<PersistConfig>,
    /// `[ingest.NAME]`
    pub ingests: Vec<IngestConfig>,
    /// `[kafka.NAME]`
    pub kafkas: Vec<KafkaConfig>,
    /// `[intake]`
    pub intake: IntakeConfig,
    /// `[alerts]`
    pub alerts: AlertsConfig,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file was named that is not there.
    #[error("there is no configuration file at {}: create it, or leave --config and REDRIVE_CONFIG out to run with the defaults", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: check that it is a file and that this user may read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not UTF-8.
    #[error("the configuration file {} is not UTF-8 text: see line {line}, and save the file as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first line that is not.
        line: usize,
    },
    /// The file says something wrong.
    #[error("{0}")]
    Wrong(Mistakes),
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Wrong`] with every mistake there is.
    ///
    /// ```
    /// use redrive::config::{Config, Environment, Source};
    ///
    /// let source = Source::of_text("redrive.toml", "[outbox.orders]\nbatch-size = 100\n");
    /// let config = Config::load(&source, &Environment::default())?;
    /// assert_eq!(config.outboxes[0].batch_size.get(), 100);
    /// # Ok::<(), redrive::config::Error>(())
    /// ```
    pub fn load(source: &Source, environment: &Environment) -> Result<Self, Error> {
        let document = Document::parse(source.text(), environment);
        let mut root = Section::root(&document.root, environment);
        let config = Self::read(&mut root);
        match Mistakes::gather(source.name(), source.text(), &document, root.finish()) {
            None => Ok(config),
            Some(mistakes) => Err(Error::Wrong(mistakes)),
        }
    }

    /// The names of the pipelines, with their kinds, in the order of the kinds.
    pub fn pipelines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let outboxes = self.outboxes.iter().map(|pipeline| ("outbox", pipeline.name.as_str()));
        let jobs = self.jobs.iter().map(|pipeline| ("jobs", pipeline.name.as_str()));
        let persists = self.persists.iter().map(|pipeline| ("persist", pipeline.name.as_str()));
        let ingests = self.ingests.iter().map(|pipeline| ("ingest", pipeline.name.as_str()));
        let kafkas = self.kafkas.iter().map(|pipeline| ("kafka", pipeline.name.as_str()));
        outboxes.chain(jobs).chain(persists).chain(ingests).chain(kafkas)
    }

    /// Reads every section; a mistake leaves a default or a gap, and is noted in `root`.
    fn read(root: &mut Section<'_>) -> Self {
        let server = root.table("server", "", ServerConfig::read);
        let alerts = root.table("alerts", "", AlertsConfig::read);
        let mut context = Context::new(server.database.clone(), server.data_dir.clone(), alerts.threshold);
        Self {
            server,
            outboxes: pipelines(root, "outbox", &mut context, OutboxConfig::read),
            jobs: pipelines(root, "jobs", &mut context, JobsConfig::read),
            persists: pipelines(root, "persist", &mut context, PersistConfig::read),
            ingests: pipelines(root, "ingest", &mut context, IngestConfig::read),
            kafkas: pipelines(root, "kafka", &mut context, KafkaConfig::read),
            intake: root.table("intake", "", |section| IntakeConfig::read(section, &context)),
            alerts,
        }
    }
}

fn pipelines<T>(
    root: &mut Section<'_>,
    kind: &'static str,
    context: &mut Context,
    read: impl Fn(&str, &mut Section<'_>, &mut Context) -> Option<T>,
) -> Vec<T> {
    root.table(kind, "", |section| section.named_tables("NAME", |name, section| read(name, section, context)))
}
