//! Memory while many letters are listed page by page and redriven by an operation: it must not grow with them.

use std::sync::Arc;
use std::time::Duration;

use bench_harness::{Memory, Scratch, Table, Target, thousands};
use redrive_core::dead_letter::{Filter, Operator};
use redrive_engine::console::{Action, Request, Runner};
use redrive_store::OperationState;
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::house::{House, fill_postgres};

/// A tenth of the letters is enough to be in full swing.
const FEW: u32 = 10;
const WANTED: f64 = 1.25;

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Memory: peak while letters are listed to the end, and redriven\n");
    let house = House::open(&scratch.url()?).await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(Runner::new(Arc::clone(&house.console)).run(stop.clone()));
    let mut table = Table::new(&["letters", "listing, peak MiB", "redrive, peak MiB"]);
    let mut peaks = Vec::new();
    for letters in [args.letters / FEW, args.letters] {
        fill_postgres(&mut scratch.connect().await?, letters).await?;
        Memory::forget_peak()?;
        list(&house).await?;
        let listing = Memory::read()?.peak;
        Memory::forget_peak()?;
        redrive(&house).await?;
        let redriving = Memory::read()?.peak;
        table.row([thousands(letters.into()), format!("{listing:.1}"), format!("{redriving:.1}")]);
        peaks.push((listing, redriving));
    }
    stop.cancel();
    running.await?;
    println!("{table}");
    Ok(vec![
        Target::at_most("memory, listing: ten times the letters", WANTED, peaks[1].0 / peaks[0].0),
        Target::at_most("memory, redrive: ten times the letters", WANTED, peaks[1].1 / peaks[0].1),
    ])
}

async fn list(house: &House) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let page = house.console.list(&Filter::default(), 500, after.as_ref()).await?;
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn redrive(house: &House) -> anyhow::Result<()> {
    let request = Request { all: true, ..Request::new(Action::Redrive, Filter::default()) };
    let id = house.console.start(&request, &Operator::new("bench"), None).await?.id;
    while house.console.operation(id).await?.state != OperationState::Finished {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
