//! What the process occupies while it drains more and more rows: it should not depend on them.

use std::path::Path;

use anyhow::Context as _;
use bench_harness::{Contestant as _, Memory, Scratch, Table, Target, thousands};
use redrive_store::Processed;

use crate::Args;
use crate::load::Load;
use crate::ours::Ours;
use crate::{postgres, sqlite};

/// How much larger the second drain is.
const FACTOR: u32 = 5;
/// What may be added to the peak by so many rows more; allocators keep some change.
const FLAT: f64 = 1.1;

/// Drains so many rows and `FACTOR` times as many, and prints what the process occupied.
pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Memory\n\nresident memory of this process while our store drains, batch 500, update\n");
    let folder = tempfile::tempdir().context("making a folder for the SQLite file")?;
    let mut table = Table::new(&["drained", "before, MiB", "peak, MiB", "after, MiB"]);
    let on_postgres = on_postgres(args, scratch, &mut table).await?;
    let on_sqlite = on_sqlite(args, &folder.path().join("memory.db"), &mut table).await?;
    print!("{table}");
    Ok(vec![target("Postgres", args, on_postgres), target("SQLite", args, on_sqlite)])
}

async fn on_postgres(args: &Args, scratch: &Scratch, table: &mut Table) -> anyhow::Result<[f64; 2]> {
    let mut peaks = [0.0; 2];
    for (peak, rows) in peaks.iter_mut().zip(drains(args)) {
        *peak = drain(&mut postgres::ours(rows, scratch, load(2)).await?, "Postgres", rows, table).await?;
    }
    Ok(peaks)
}

async fn on_sqlite(args: &Args, file: &Path, table: &mut Table) -> anyhow::Result<[f64; 2]> {
    let mut peaks = [0.0; 2];
    for (peak, rows) in peaks.iter_mut().zip(drains(args)) {
        *peak = drain(&mut sqlite::ours(rows, file, load(1)).await?, "SQLite", rows, table).await?;
    }
    Ok(peaks)
}

fn drains(args: &Args) -> [u32; 2] {
    [args.rows, args.rows * FACTOR]
}

const fn load(workers: usize) -> Load {
    Load { workers, batch: 500, processed: Processed::Keep }
}

/// Returns the peak.
async fn drain(ours: &mut Ours, store: &str, rows: u32, table: &mut Table) -> anyhow::Result<f64> {
    ours.prepare().await?;
    Memory::forget_peak()?;
    let before = Memory::read()?;
    ours.run().await?;
    let after = Memory::read()?;
    ours.check().await?;
    let drained = format!("{} on {store}", thousands(rows.into()));
    table.row([drained, mebibytes(before.now), mebibytes(after.peak), mebibytes(after.now)]);
    Ok(after.peak)
}

fn mebibytes(amount: f64) -> String {
    format!("{amount:.1}")
}

fn target(store: &str, args: &Args, [small, large]: [f64; 2]) -> Target {
    let [few, many] = drains(args).map(|rows| thousands(rows.into()));
    Target::at_most(format!("{store}, memory: peak of {many} rows ÷ peak of {few}"), FLAT, large / small)
}
