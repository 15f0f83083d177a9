//! What all peers are given, and how to see that they did it.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bench_harness::{Hand, Scratch};
use serde::{Deserialize, Serialize};

/// How many jobs go into one insert.
pub(crate) const CHUNK: usize = 5_000;

/// The same document that our events carry, but for the order of its keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    order_id: usize,
    customer: String,
    currency: String,
    total: String,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    sku: String,
    quantity: u32,
}

impl Order {
    pub(crate) fn number(n: usize) -> Self {
        let line = |sku: &str, quantity| Line { sku: sku.to_owned(), quantity };
        Self {
            order_id: n,
            customer: format!("customer-{}", n % 1000),
            currency: "EUR".to_owned(),
            total: "129.90".to_owned(),
            lines: vec![line("A-1000", 2), line("B-2000", 1)],
        }
    }
}

/// Runs statements on the scratch database.
pub(crate) async fn by_hand(scratch: &Scratch, statements: &[&str]) -> anyhow::Result<()> {
    let statements: Vec<_> = statements.iter().map(|&statement| statement.to_owned()).collect();
    Hand::Postgres(scratch.connect().await?).run(&statements).await
}

/// Waits until this count is zero: completions are written behind the handler.
pub(crate) async fn settled(scratch: &Scratch, waiting: &str) -> anyhow::Result<()> {
    let mut hand = Hand::Postgres(scratch.connect().await?);
    let begun = Instant::now();
    loop {
        let left = hand.count(waiting).await.context("counting what is left")?;
        if left == 0 {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(30), "{left} jobs are not settled");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
