//! `awa`: 500 workers, two claimers, claims of 512 (its default), no deadline, as in its own benchmark.

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use awa::{Client, InsertOpts, InsertParams, JobContext, JobError, JobResult, QueueConfig, Worker};
use bench_harness::{Contestant, Scratch};
use sqlx_of_awa::PgPool;
use sqlx_of_awa::postgres::PgPoolOptions;

use crate::counter::Counter;
use crate::jobs::{CHUNK, Order, by_hand, settled};

const QUEUE: &str = "bench";
const KIND: &str = "noop";

/// The peer with its tables.
pub struct Awa {
    scratch: Scratch,
    rows: u32,
    counter: Counter,
    pool: Option<PgPool>,
    client: Option<Client>,
}

struct Noop(Counter);

#[async_trait]
impl Worker for Noop {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn perform(&self, _: &JobContext) -> Result<JobResult, JobError> {
        self.0.add(1);
        Ok(JobResult::Completed)
    }
}

impl Awa {
    /// What it is set to.
    pub const SETTINGS: &'static str = "500 workers, 2 claimers, claims of 512, no deadline, 20 connections";

    /// It drains so many jobs.
    #[must_use]
    pub fn new(scratch: &Scratch, rows: u32) -> Self {
        Self { scratch: scratch.again(), rows, counter: Counter::default(), pool: None, client: None }
    }
}

/// Its futures do not fit into a trait's: a thread waits for them.
async fn fill(pool: &PgPool, rows: u32) -> anyhow::Result<()> {
    awa::migrations::run(pool).await.context("migrating awa")?;
    let numbers: Vec<_> = (0..rows as usize).collect();
    for chunk in numbers.chunks(CHUNK) {
        let job = |&n| InsertParams {
            kind: KIND.to_owned(),
            args: serde_json::json!(Order::number(n)),
            opts: InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() },
        };
        let jobs: Vec<_> = chunk.iter().map(job).collect();
        awa::insert_many_copy_from_pool(pool, &jobs).await.context("adding jobs")?;
    }
    Ok(())
}

#[async_trait]
impl Contestant for Awa {
    fn name(&self) -> String {
        "awa".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        by_hand(&self.scratch, &["DROP SCHEMA IF EXISTS awa CASCADE"]).await?;
        let pool = PgPoolOptions::new().max_connections(20).connect(&self.scratch.url()?).await?;
        let (filled, rows) = (pool.clone(), self.rows);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(fill(&filled, rows)))
            .await
            .context("filling awa")??;
        by_hand(&self.scratch, &["VACUUM (ANALYZE)", "CHECKPOINT"]).await?;
        self.counter.expect(self.rows.into());
        self.pool = Some(pool);
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let pool = self.pool.clone().context("prepared first")?;
        let config = QueueConfig {
            max_workers: 500,
            claimers: 2,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(pool)
            .queue(QUEUE, config)
            .register_worker(Noop(self.counter.clone()))
            .build()
            .context("building awa")?;
        client.start().await.context("starting awa")?;
        self.client = Some(client);
        self.counter.reached().await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        let waiting = "SELECT count(*) FROM awa.jobs WHERE state::text NOT IN ('completed')";
        let settled = settled(&self.scratch, waiting).await;
        if let Some(client) = self.client.take() {
            client.shutdown(Duration::from_secs(10)).await;
        }
        if let Some(pool) = self.pool.take() {
            pool.close().await;
        }
        settled
    }
}
