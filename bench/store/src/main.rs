//! `bench/run store`: our store of work against a raw SQL loop.
//!
//! Four parts, each with its tables; the last table says which targets were met:
//! memory while draining, claim and settle on Postgres, claims beside dead rows, claim and settle on
//! SQLite. Contestants take turns, because absolute figures move by a third from run to run.

mod dead_rows;
mod load;
mod memory;
mod ours;
mod postgres;
mod sqlite;

use std::process::ExitCode;

use bench_harness::{Scratch, Target, conclude, load as load_average, machine, on_scratch};
use clap::{Parser, ValueEnum};

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "bench/run store", about)]
struct Args {
    /// The Postgres server; the bench makes a database of its own on it and drops it.
    #[arg(long, env = "REDRIVE_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// How many events each round drains.
    #[arg(long, default_value_t = 200_000)]
    rows: u32,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many dead rows lie beside the live ones.
    #[arg(long, default_value_t = 1_000_000)]
    dead: u32,
    /// Only batches of this many: 50 or 500.
    #[arg(long)]
    batch: Option<u32>,
    /// Only this part.
    #[arg(long)]
    only: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Memory,
    Postgres,
    DeadRows,
    Sqlite,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    conclude("store", on_scratch(&args.postgres, async |scratch| measure(&args, scratch).await).await)
}

async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("# store\n\n{}; load average at the start: {}", machine(), load_average());
    println!("{}", scratch.describe().await?);
    println!("{}", sqlite::describe().await?);
    let mut targets = Vec::new();
    // First, while the process is still small.
    if args.wants(Part::Memory) {
        targets.extend(memory::measure(args, scratch).await?);
    }
    if args.wants(Part::Postgres) {
        targets.extend(postgres::measure(args, scratch).await?);
    }
    if args.wants(Part::DeadRows) {
        targets.extend(dead_rows::measure(args, scratch).await?);
    }
    if args.wants(Part::Sqlite) {
        targets.extend(sqlite::measure(args).await?);
    }
    Ok(targets)
}
