//! redrive's own tables, which the console keeps its records in.

use std::sync::Arc;

use redrive_core::dead_letter::PipelineKind;
use redrive_store::{Audit, Database, Edits, Error, Letters, Operations, Pauses, Plan, Requests, Samples};

/// redrive's own tables, which the console keeps its records in.
pub struct Records {
    /// The ledger of operations.
    pub operations: Operations,
    /// Who did what.
    pub audit: Audit,
    /// What letters were before they were edited.
    pub edits: Edits,
    /// Which pipelines are paused.
    pub pauses: Pauses,
    /// What was asked for under a key.
    pub requests: Requests,
    /// What charts show.
    pub samples: Samples,
    /// Letters that were handed in.
    pub intake: Arc<Letters>,
}

impl Records {
    /// Those in this database. Nothing is asked of it yet.
    #[must_use]
    pub fn of(database: &Database) -> Self {
        let intake = Letters::new(database.clone(), PipelineKind::Intake.name(), PipelineKind::Intake);
        Self {
            operations: Operations::new(database.clone()),
            audit: Audit::new(database.clone()),
            edits: Edits::new(database.clone()),
            pauses: Pauses::new(database.clone()),
            requests: Requests::new(database.clone()),
            samples: Samples::new(database.clone()),
            intake: Arc::new(intake),
        }
    }

    /// Makes the tables that are missing.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.intake.migrate().await?;
        self.operations.migrate().await?;
        self.edits.migrate().await?;
        self.pauses.migrate().await?;
        self.requests.migrate().await?;
        self.samples.migrate().await?;
        self.audit.migrate().await
    }

    /// What a migration would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        let plan = self.intake.plan().await?.and(self.operations.plan().await?).and(self.edits.plan().await?);
        let plan = plan.and(self.pauses.plan().await?).and(self.requests.plan().await?);
        Ok(plan.and(self.samples.plan().await?).and(self.audit.plan().await?))
    }
}
