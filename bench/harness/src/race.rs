//! Contestants that take turns.
//!
//! On a machine that others use as well, two long measurements one after the other compare the
//! machine with itself. Short ones in turns, several rounds of them, compare the contestants.

use std::time::Instant;

use anyhow::Context as _;
use async_trait::async_trait;

use crate::processor;
use crate::rates::Rates;

/// One way to do the work.
#[async_trait]
pub trait Contestant: Send {
    /// What it is called in the tables.
    fn name(&self) -> String;

    /// Sets the stage for one round. Not timed.
    async fn prepare(&mut self) -> anyhow::Result<()>;

    /// Does the work and says how many events it was. Timed.
    async fn run(&mut self) -> anyhow::Result<u64>;

    /// Fails when the work was not done as it claims. Not timed.
    async fn check(&mut self) -> anyhow::Result<()>;
}

/// Lets the contestants take turns for so many rounds, the first of each round being another each
/// time, and returns their rates in the order they were given.
///
/// # Errors
/// The first error of a contestant.
pub async fn race(contestants: &mut [Box<dyn Contestant>], rounds: usize) -> anyhow::Result<Vec<Rates>> {
    let mut rates = vec![Rates::default(); contestants.len()];
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let index = (round + turn) % contestants.len();
            let contestant = contestants[index].as_mut();
            let name = contestant.name();
            one_round(contestant, &mut rates[index])
                .await
                .with_context(|| format!("{name}, round {}", round + 1))?;
        }
    }
    Ok(rates)
}

async fn one_round(contestant: &mut dyn Contestant, rates: &mut Rates) -> anyhow::Result<()> {
    contestant.prepare().await?;
    let (started, spent) = (Instant::now(), processor::spent()?);
    let events = contestant.run().await?;
    rates.push(events, started.elapsed(), processor::spent()? - spent);
    contestant.check().await
}
