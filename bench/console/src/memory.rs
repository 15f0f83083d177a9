//! Memory while many letters are listed page by page and redriven by an operation: it must not grow with them.
//!
//! Each has a process of its own: what another one took would stay with the process and count for it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bench_harness::{Memory, Scratch, Table, Target, thousands};
use clap::ValueEnum;
use redrive_core::dead_letter::{Filter, Operator};
use redrive_engine::console::{Action, Request, Runner};
use redrive_store::OperationState;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::house::{House, fill_postgres};

/// A tenth of the letters is enough to be in full swing.
const FEW: u32 = 10;
const WANTED: f64 = 1.25;

/// What is done with all of the letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    List,
    Redrive,
}

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Memory: peak of a process while letters are listed to the end, or redriven\n");
    let url = scratch.url()?;
    drop(House::open(&url).await?);
    let mut table = Table::new(&["letters", "listing, peak MiB", "redrive, peak MiB"]);
    let mut peaks = Vec::new();
    for letters in [args.letters / FEW, args.letters] {
        fill_postgres(&mut scratch.connect().await?, letters).await?;
        let listing = in_its_own_process(&url, Work::List).await?;
        let redriving = in_its_own_process(&url, Work::Redrive).await?;
        table.row([thousands(letters.into()), format!("{listing:.1}"), format!("{redriving:.1}")]);
        peaks.push((listing, redriving));
    }
    println!("{table}");
    Ok(vec![
        Target::at_most("memory, listing: ten times the letters", WANTED, peaks[1].0 / peaks[0].0),
        Target::at_most("memory, redrive: ten times the letters", WANTED, peaks[1].1 / peaks[0].1),
    ])
}

async fn in_its_own_process(url: &str, work: Work) -> anyhow::Result<f64> {
    let work = if work == Work::List { "list" } else { "redrive" };
    let output = Command::new(std::env::current_exe()?)
        .args(["--postgres", url, "--peak-of", work])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    anyhow::ensure!(output.status.success(), "the process that is to {work}: {}", output.status);
    let peak = String::from_utf8(output.stdout)?;
    peak.trim().parse().with_context(|| format!("not a size: {peak:?}"))
}

/// Does it to the letters that are there and prints the peak: what the other process is there for.
pub(crate) async fn work(args: &Args, work: Work) -> anyhow::Result<()> {
    let house = House::open(&args.postgres).await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(Runner::new(Arc::clone(&house.console)).run(stop.clone()));
    match work {
        Work::List => list(&house).await?,
        Work::Redrive => redrive(&house).await?,
    }
    println!("{}", Memory::read()?.peak);
    stop.cancel();
    running.await?;
    Ok(())
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
