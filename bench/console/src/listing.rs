//! A drain while somebody looks at a million letters, and while nobody does. They take turns.
//!
//! Letters are counted anew once in a long while, behind the pages. Rates are over all rounds together: a
//! median would leave out the rounds that paid for it. There are many, because single ones differ by a fifth.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use bench_harness::{Scratch, Table, Target, thousands};
use redrive_core::dead_letter::{Filter, PipelineKind};
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::fingerprint::Fingerprint;
use redrive_core::handler::Handler;
use redrive_engine::console::Console;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::WorkStore as _;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::house::{House, fill_postgres, policy};

/// What an operator with three open pages asks for, and a few more of them.
const EVERY: Duration = Duration::from_millis(100);
const PAGE: u32 = 100;
/// Times `--rounds`.
const MORE: usize = 4;
const WANTED: f64 = 0.95;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    let (rounds, events) = (args.rounds * MORE, args.rows);
    println!(
        "\n## A drain of {} events beside {} letters, Postgres, {rounds} rounds in turns: with somebody who lists \
         the first page, a filtered page, a group's page and the groups every {} ms, and without\n",
        thousands(events.into()),
        thousands(args.letters.into()),
        EVERY.as_millis()
    );
    let house = House::open(&scratch.url()?).await?;
    let mut connection = scratch.connect().await?;
    fill_postgres(&mut connection, args.letters).await?;
    let (mut alone, mut watched, mut pages) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        for turn in 0..2 {
            fill_events(&mut connection, events).await?;
            if (round + turn) % 2 == 0 {
                alone.push(drain(&house, events).await?);
                continue;
            }
            let stop = CancellationToken::new();
            let looking = tokio::spawn(look(Arc::clone(&house.console), stop.clone()));
            watched.push(drain(&house, events).await?);
            stop.cancel();
            pages += looking.await??;
        }
    }
    let ratio = overall(&watched) / overall(&alone);
    let mut table = Table::new(&["", "events/s", "rounds"]);
    for (name, rates) in [("nobody looks", &alone), ("somebody lists", &watched)] {
        let each = rates.iter().map(|rate| thousands(*rate)).collect::<Vec<_>>().join(" ");
        table.row([name.to_owned(), thousands(overall(rates)), each]);
    }
    println!("{table}\n{pages} answers were given meanwhile");
    Ok(vec![Target::at_least("a drain while letters are listed ÷ without", WANTED, ratio)])
}

/// The rate of all rounds, which are of equally many events, as one.
fn overall(rates: &[f64]) -> f64 {
    rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

async fn fill_events(connection: &mut PgConnection, events: u32) -> anyhow::Result<()> {
    let fill = format!(
        "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) SELECT 'OrderCreated', 'Order', \
         n::text, '{{\"order\":' || n || '}}' FROM generate_series(1, {events}) AS n"
    );
    for statement in ["TRUNCATE outbox_event", &fill, "VACUUM ANALYZE outbox_event", "CHECKPOINT"] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut *connection).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Noop(AtomicU64);

#[async_trait]
impl Handler for Noop {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        self.0.fetch_add(batch.len() as u64, Ordering::Relaxed);
        vec![Ok(()); batch.len()]
    }
}

/// Drains the outbox, and says how many events a second.
async fn drain(house: &House, events: u32) -> anyhow::Result<f64> {
    let handler = Arc::new(Noop::default());
    let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("bench", handler.clone()))]);
    let store = house.outbox.clone();
    let pipeline = Pipeline::new("orders", PipelineKind::Outbox, store.clone(), store, policy()?)
        .handled_by(Routes::ByType(routes))
        .at(Pace { batch_size: 500, concurrency: 500, workers: 2, ..Pace::default() });
    let engine = Engine::new();
    let begun = Instant::now();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    while handler.0.load(Ordering::Relaxed) < events.into() {
        ensure!(begun.elapsed() < PATIENCE, "the drain does not end");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begun.elapsed();
    engine.stop().await;
    let left = house.outbox.backlog().await?;
    ensure!(left == 0, "{left} events are left");
    Ok(f64::from(events) / took.as_secs_f64())
}

/// Looks at letters until it is told to stop, and says how many answers it got.
async fn look(console: Arc<Console>, stop: CancellationToken) -> anyhow::Result<u64> {
    let filters = [
        Filter::default(),
        Filter { event_type: Some("Type1".to_owned()), ..Filter::default() },
        Filter { group: Some(Fingerprint::from_bits(7)), ..Filter::default() },
    ];
    let mut answers = 0;
    let mut next = tokio::time::interval(EVERY);
    while stop.run_until_cancelled(next.tick()).await.is_some() {
        for filter in &filters {
            let page = console.list(filter, PAGE, None).await?;
            ensure!(page.letters.len() == PAGE as usize, "a page is short");
            answers += 1;
        }
        console.groups(None, PAGE).await.context("groups")?;
        answers += 1;
    }
    Ok(answers)
}
