//! `graphile_worker`: concurrency 500, local queue of 5,000, completions in batches of 5 ms, as in
//! its own benchmark.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bench_harness::{Contestant, Scratch};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::counter::Counter;
use crate::jobs::{CHUNK, Order, by_hand, settled};

/// The peer with its tables.
pub struct Graphile {
    scratch: Scratch,
    rows: u32,
    counter: Counter,
    running: Option<(Arc<Worker>, JoinHandle<()>)>,
}

#[derive(Serialize, Deserialize)]
struct Noop(Order);

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(counter) = ctx.get_ext::<Counter>() {
            counter.add(1);
        }
        Ok::<(), String>(())
    }
}

impl Graphile {
    /// What it is set to.
    pub const SETTINGS: &'static str =
        "concurrency 500, local queue 5,000, completions batched for 5 ms, 20 connections";

    /// It drains so many jobs.
    #[must_use]
    pub fn new(scratch: &Scratch, rows: u32) -> Self {
        Self { scratch: scratch.again(), rows, counter: Counter::default(), running: None }
    }

    async fn worker(&self) -> anyhow::Result<Worker> {
        let options = WorkerOptions::default()
            .database_url(&self.scratch.url()?)
            .max_pg_conn(20)
            .concurrency(500)
            .local_queue(LocalQueueConfig::default().with_size(5_000))
            .complete_job_batch_delay(Duration::from_millis(5))
            .listen_os_shutdown_signals(false)
            .add_extension(self.counter.clone())
            .define_job::<Noop>();
        options.init().await.context("starting graphile_worker")
    }
}

#[async_trait]
impl Contestant for Graphile {
    fn name(&self) -> String {
        "graphile_worker".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let worker = self.worker().await?;
        by_hand(&self.scratch, &["TRUNCATE graphile_worker._private_jobs CASCADE"]).await?;
        let utils = worker.create_utils();
        let numbers: Vec<_> = (0..self.rows as usize).collect();
        for chunk in numbers.chunks(CHUNK) {
            let job = |&n| RawJobSpec {
                identifier: Noop::IDENTIFIER.to_owned(),
                payload: serde_json::json!(Order::number(n)),
                spec: JobSpec::default(),
            };
            utils.add_raw_jobs(&chunk.iter().map(job).collect::<Vec<_>>()).await.context("adding jobs")?;
        }
        by_hand(&self.scratch, &["VACUUM (ANALYZE) graphile_worker._private_jobs", "CHECKPOINT"]).await?;
        self.counter.expect(self.rows.into());
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let worker = Arc::new(self.worker().await?);
        let running = Arc::clone(&worker);
        let task = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                eprintln!("graphile_worker: {error}");
            }
        });
        self.running = Some((worker, task));
        self.counter.reached().await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        let settled = settled(&self.scratch, "SELECT count(*) FROM graphile_worker._private_jobs").await;
        if let Some((worker, task)) = self.running.take() {
            worker.request_shutdown();
            task.await.context("stopping graphile_worker")?;
        }
        settled
    }
}
