//! A pipeline of ours at work: the engine, whole, with a handler that does nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench_harness::{Contestant, Stage};
use bench_peers::Counter;
use redrive_core::backoff::Backoff;
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};

use crate::subject::{Subject, Tables};

/// How the pipeline works: stated with the figures.
pub(crate) const SETTINGS: &str = "2 workers, batches of 500, lease 20 s, handler takes one event at a time";

/// How many attempts an event has.
pub(crate) const ATTEMPTS: u32 = 5;

/// A pipeline with its stage.
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) stage: Stage,
    pub(crate) tables: Arc<Tables>,
    pub(crate) counter: Counter,
    /// How many attempts one round takes.
    pub(crate) attempts: u64,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) engine: Option<Engine>,
}

/// Does nothing, one event at a time.
pub(crate) struct Noop(pub(crate) Counter);

#[async_trait]
impl Handler for Noop {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        self.0.add(batch.len() as u64);
        batch.iter().map(|_| Ok(())).collect()
    }
}

/// Starts an engine with this pipeline alone.
pub(crate) fn start(tables: &Tables, handler: Arc<dyn Handler>) -> anyhow::Result<Engine> {
    let route = Route::new("bench", handler);
    let routes = match tables.subject {
        Subject::Outbox => Routes::ByType(HashMap::from([("OrderCreated".to_owned(), route)])),
        Subject::Jobs => Routes::All(route),
    };
    let backoff = Backoff::new(Duration::from_millis(10), 2.0, Duration::from_millis(50))?;
    let (store, letters) = (Arc::clone(&tables.store), Arc::clone(&tables.letters));
    let pipeline =
        Pipeline::new("bench", tables.subject.kind(), store, letters, Policy::new(ATTEMPTS, backoff))
            .handled_by(routes)
            .at(Pace { batch_size: 500, concurrency: 500, workers: 2, ..Pace::default() });
    let pipeline = Arc::new(pipeline);
    let engine = Engine::new();
    engine.start(&pipeline, WatchOptions::default());
    Ok(engine)
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.counter.expect(self.attempts);
        self.stage.set().await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        self.engine = Some(start(&self.tables, Arc::clone(&self.handler))?);
        self.counter.reached().await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
        let seen = self.counter.seen();
        anyhow::ensure!(seen == self.attempts, "{seen} attempts instead of {}", self.attempts);
        self.stage.check().await
    }
}
