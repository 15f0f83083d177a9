//! Bulk redrive: an operation, from the request until every letter is claimable again, against one raw statement
//! that does the same to the same rows. They take turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bench_harness::{Scratch, Table, Target, median, thousands};
use redrive_core::dead_letter::{Filter, Operator};
use redrive_engine::console::{Action, Request, Runner};
use redrive_store::{OperationState, WorkStore as _};
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::house::{House, fill_postgres};

const RAW: &str = "WITH closed AS (UPDATE outbox_event_dlq AS t SET resolved = TRUE, redriven = TRUE, resolved_at = now(), \
     resolved_by = 'raw', resolution_note = 'raw', updated_at = now() WHERE t.resolved = FALSE RETURNING t.*) \
     INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history) \
     SELECT event_type, aggregate_type, aggregate_id, payload, COALESCE(origin_id, original_event_id), \
     redrive_count + 1, history FROM closed ORDER BY id";
const WANTED_RATE: f64 = 50_000.0;
const WANTED_RATIO: f64 = 0.5;

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Bulk redrive of {} letters, no limit, Postgres\n", thousands(args.rows.into()));
    let house = House::open(&scratch.url()?).await?;
    let mut connection = scratch.connect().await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(Runner::new(Arc::clone(&house.console)).run(stop.clone()));
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        fill_postgres(&mut connection, args.rows).await?;
        raw.push(rate(args.rows, raw_statement(&mut connection).await?));
        check(&house, args.rows).await?;
        fill_postgres(&mut connection, args.rows).await?;
        ours.push(rate(args.rows, operation(&house).await?));
        check(&house, args.rows).await?;
    }
    stop.cancel();
    running.await?;
    let ratios: Vec<f64> = ours.iter().zip(&raw).map(|(ours, raw)| ours / raw).collect();
    let mut table = Table::new(&["contestant", "letters/s (median)", "rounds"]);
    for (name, rates) in [("one raw statement", &raw), ("an operation", &ours)] {
        let rounds = rates.iter().map(|rate| thousands(*rate)).collect::<Vec<_>>().join(" ");
        table.row([name.to_owned(), thousands(median(rates.clone())), rounds]);
    }
    println!("{table}");
    Ok(vec![
        Target::at_least("bulk redrive, letters/s until claimable", WANTED_RATE, median(ours)),
        Target::at_least("bulk redrive, ratio to one raw statement", WANTED_RATIO, median(ratios)),
    ])
}

fn rate(rows: u32, took: Duration) -> f64 {
    f64::from(rows) / took.as_secs_f64()
}

async fn raw_statement(connection: &mut PgConnection) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    sqlx::raw_sql(RAW).execute(connection).await?;
    Ok(begun.elapsed())
}

async fn operation(house: &House) -> anyhow::Result<Duration> {
    let filter = Filter { pipeline: Some("orders".to_owned()), ..Filter::default() };
    let request = Request::new(Action::Redrive, filter);
    let begun = Instant::now();
    let id = house.console.start(&request, &Operator::new("bench"), None).await?.id;
    loop {
        let now = house.console.operation(id).await?;
        match now.state {
            OperationState::Finished => return Ok(begun.elapsed()),
            OperationState::Freezing | OperationState::Running => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => anyhow::bail!("the operation is {}: {}", other.name(), now.reason),
        }
    }
}

async fn check(house: &House, rows: u32) -> anyhow::Result<()> {
    let claimable = house.outbox.backlog().await?;
    ensure!(claimable == u64::from(rows), "{claimable} of {rows} letters are claimable");
    Ok(())
}
