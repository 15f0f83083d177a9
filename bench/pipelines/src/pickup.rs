//! How long a single event waits until its handler runs, when there is little to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bench_harness::{Hand, Scratch, Table, Target};
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_store::Processed;
use tokio::sync::mpsc;

use crate::ours::start;
use crate::subject::Subject;

const EVENTS: usize = 500;
/// Between two of them, a little more than nothing and never in step.
const PAUSE: Duration = Duration::from_millis(23);
const PATIENCE: Duration = Duration::from_secs(30);

/// Says when it was called.
struct Stopwatch(mpsc::UnboundedSender<Instant>);

#[async_trait]
impl Handler for Stopwatch {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let _ = self.0.send(Instant::now());
        batch.iter().map(|_| Ok(())).collect()
    }
}

/// Inserts events one by one and prints how long they waited.
pub(crate) async fn measure(subject: Subject, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## Pickup\n\n{EVENTS} single events, {PAUSE:?} apart, from the commit of the insert to the handler\n"
    );
    let tables = subject.tables(scratch, "pickup", Processed::Keep).await?;
    let (sender, mut called) = mpsc::unbounded_channel();
    let engine = start(&tables, Arc::new(Stopwatch(sender)))?;
    let mut hand = Hand::Postgres(scratch.connect().await?);
    let insert = [tables.fill(1)];
    // The first wakes everybody.
    hand.run(&insert).await?;
    tokio::time::timeout(PATIENCE, called.recv()).await?;
    let mut waits = Vec::with_capacity(EVENTS);
    for _ in 0..EVENTS {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        hand.run(&insert).await?;
        let inserted = Instant::now();
        let at = tokio::time::timeout(PATIENCE, called.recv()).await?;
        let at = at.ok_or_else(|| anyhow::anyhow!("the handler is gone"))?;
        // Handled before the client heard of its commit: the insert itself is counted then.
        waits.push(at.saturating_duration_since(inserted.min(at).max(begun)));
    }
    engine.stop().await;
    waits.sort();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let mut table = Table::new(&["p50, ms", "p90, ms", "p99, ms", "longest, ms"]);
    table.row([0.5, 0.9, 0.99, 1.0].map(|share| format!("{:.2}", at(share))));
    print!("{table}");
    Ok(vec![Target::at_most("pickup, p99 in ms".to_owned(), 50.0, at(0.99))])
}
