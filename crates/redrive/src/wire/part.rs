//! A part: something that keeps its state in a database, and must be prepared before it is used.

use std::sync::Arc;

use async_trait::async_trait;
use redrive::config::DatabaseUrl;
use redrive_engine::console::Records;
use redrive_store::{Database, Error, FailedEvents, Jobs, Letters, Outbox, Plan, Target};

/// A pipeline, or a database, that must be prepared and can be asked how it is.
pub(crate) struct Part {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) address: DatabaseUrl,
    pub(super) place: String,
    pub(super) database: Database,
    pub(super) tables: Arc<dyn Tables>,
}

/// Tables that are created and brought up to date by whoever uses them.
#[async_trait]
pub(super) trait Tables: Send + Sync {
    async fn migrate(&self) -> Result<(), Error>;

    /// What a migration would do; nothing is changed.
    async fn plan(&self) -> Result<Plan, Error>;
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

    /// Where its database is.
    pub(crate) const fn address(&self) -> &DatabaseUrl {
        &self.address
    }

    /// Gets it ready to work.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        self.tables.migrate().await
    }

    /// What getting it ready would change.
    pub(crate) async fn plan(&self) -> Result<Plan, Error> {
        self.tables.plan().await
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

/// The tables of a persist pipeline.
pub(super) struct Persisted {
    pub(super) target: Arc<Target>,
    pub(super) failed: Arc<FailedEvents>,
}

#[async_trait]
impl Tables for Persisted {
    async fn migrate(&self) -> Result<(), Error> {
        // Both are looked at before one of them is changed.
        let problems = self.plan().await?.problems;
        if !problems.is_empty() {
            return Err(Error::Unsuitable { problems });
        }
        self.target.migrate().await?;
        self.failed.migrate().await
    }

    async fn plan(&self) -> Result<Plan, Error> {
        Ok(self.target.plan().await?.and(self.failed.plan().await?))
    }
}

macro_rules! tables {
    ($($store:ty),+) => {
        $(#[async_trait]
        impl Tables for $store {
            async fn migrate(&self) -> Result<(), Error> {
                <$store>::migrate(self).await
            }

            async fn plan(&self) -> Result<Plan, Error> {
                <$store>::plan(self).await
            }
        })+
    };
}
tables!(Letters, Outbox, Jobs, Records);
