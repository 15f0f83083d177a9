//! `apalis` on Postgres: fetches of 500, tasks in parallel, no second lock per task. Without
//! `persist_results` it would not write down that a job is done.

use std::sync::Arc;

use anyhow::Context as _;
use apalis::prelude::{BoxDynError, Data, ParallelizeExt as _, TaskBuilder, TaskSink as _, WorkerBuilder};
use apalis_postgres::{Config, PgPool, PostgresStorage};
use async_trait::async_trait;
use bench_harness::{Contestant, Scratch};
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::counter::Counter;
use crate::jobs::{CHUNK, Order, by_hand, settled};

/// The peer with its tables.
pub struct Apalis {
    scratch: Scratch,
    rows: u32,
    counter: Counter,
    pool: Option<PgPool>,
    running: Option<JoinHandle<()>>,
    stop: Arc<Notify>,
    rounds: u32,
}

async fn noop(_order: Order, counter: Data<Counter>) -> Result<(), BoxDynError> {
    counter.add(1);
    Ok(())
}

impl Apalis {
    /// What it is set to.
    pub const SETTINGS: &'static str = "fetches of 500, tasks spawned in parallel, lock_tasks off, 20 connections; 20,000 jobs at most, because it \
         slows down with their number and did not end 200,000 within 300 s";
    /// The most jobs that it is given.
    const MOST: u32 = 20_000;

    /// It drains so many jobs.
    #[must_use]
    pub fn new(scratch: &Scratch, rows: u32) -> Self {
        Self {
            scratch: scratch.again(),
            rows: rows.min(Self::MOST),
            counter: Counter::default(),
            pool: None,
            running: None,
            stop: Arc::default(),
            rounds: 0,
        }
    }
}

fn config() -> Config {
    Config::default().queue("bench").batch_size(500).lock_tasks(false)
}

#[async_trait]
impl Contestant for Apalis {
    fn name(&self) -> String {
        "apalis".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let pool = PgPoolOptions::new().max_connections(20).connect(&self.scratch.url()?).await?;
        PostgresStorage::setup(&pool).await.context("migrating apalis")?;
        by_hand(&self.scratch, &["TRUNCATE apalis.jobs"]).await?;
        let mut storage = PostgresStorage::<Order>::new(&pool).with_config(config());
        let numbers: Vec<_> = (0..self.rows as usize).collect();
        for chunk in numbers.chunks(CHUNK) {
            let jobs: Vec<_> = chunk.iter().map(|&n| TaskBuilder::new(Order::number(n)).build()).collect();
            storage.push_all(&mut futures::stream::iter(jobs)).await.context("adding jobs")?;
        }
        by_hand(&self.scratch, &["VACUUM (ANALYZE) apalis.jobs", "CHECKPOINT"]).await?;
        self.counter.expect(self.rows.into());
        self.rounds += 1;
        self.pool = Some(pool);
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let pool = self.pool.clone().context("prepared first")?;
        let (name, counter, stop) =
            (format!("bench-{}", self.rounds), self.counter.clone(), self.stop.clone());
        // Its future cannot be spawned: a thread waits for it, its tasks run with all others.
        let runtime = tokio::runtime::Handle::current();
        self.running = Some(tokio::task::spawn_blocking(move || {
            let worker = WorkerBuilder::new(name)
                .backend(PostgresStorage::<Order>::new(&pool).with_config(config()))
                .data(counter)
                .parallelize(tokio::spawn)
                .build(noop);
            runtime.block_on(async {
                tokio::select! {
                    ended = worker.run() => if let Err(error) = ended {
                        eprintln!("apalis: {error}");
                    },
                    () = stop.notified() => {}
                }
            });
        }));
        self.counter.reached().await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        let settled = settled(&self.scratch, "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'").await;
        if let Some(running) = self.running.take() {
            self.stop.notify_one();
            running.await.context("stopping apalis")?;
        }
        if let Some(pool) = self.pool.take() {
            pool.close().await;
        }
        settled
    }
}
