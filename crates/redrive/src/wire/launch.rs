//! A pipeline on the ramp: it starts once its tables are there.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::trouble::Trouble;
use redrive_engine::auto_redrive::Rule;
use redrive_engine::{Persister, Pipeline, WatchOptions};
use redrive_server::Gate;
use redrive_store::Record;
use tokio_util::sync::CancellationToken;

use crate::retention::Retention;
use crate::running::Running;

/// A pipeline that starts once its tables are there.
pub(crate) struct Launch {
    pub(super) pipeline: Arc<Pipeline>,
    /// Who works on it, if not workers.
    pub(super) persister: Option<Persister<Record>>,
    pub(super) watch: WatchOptions,
    pub(super) rules: Vec<Rule>,
    pub(super) retention: Vec<Retention>,
    /// Keeps requests out until it has started.
    pub(super) gate: Gate,
    /// What works beside the workers of the pipeline.
    pub(super) beside: Option<Arc<dyn Beside>>,
}

/// Something that works beside the workers of a pipeline.
#[async_trait]
pub(super) trait Beside: Send + Sync {
    /// Works until it is told to stop.
    async fn run(self: Arc<Self>, stop: CancellationToken);

    /// How it is.
    fn health(&self) -> Result<(), Trouble>;
}

impl Launch {
    /// Starts it.
    pub(crate) fn start(&self, running: &Running) {
        let engine = running.engine();
        match &self.persister {
            Some(persister) => engine.persist(persister, self.watch.clone()),
            None => engine.start(&self.pipeline, self.watch.clone()),
        }
        engine.auto_redrive(&self.pipeline, self.rules.clone(), Some(running.audit()));
        for retention in &self.retention {
            running.chore(|stop| retention.clone().keep(stop));
        }
        if let Some(beside) = &self.beside {
            running.chore(|stop| Arc::clone(beside).run(stop));
        }
        self.gate.open();
    }

    /// Whether its store answers its workers.
    pub(crate) fn health(&self) -> Result<(), Trouble> {
        self.pipeline.health.get()?;
        self.beside.as_ref().map_or(Ok(()), |beside| beside.health())
    }
}
