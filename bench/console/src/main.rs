//! `bench/run console`: what operators do, beside many letters.
//!
//! Four parts, each with its table; the last table says which targets were met: bulk redrive against one raw
//! statement that does the same, pages and API answers beside a million letters, a drain while somebody looks at
//! them, and memory while a million letters are listed and redriven.

mod house;
mod listing;
mod memory;
mod pages;
mod redrive;

use std::process::ExitCode;

use bench_harness::{Scratch, Target, conclude, ended, load, machine, on_scratch};
use clap::{Parser, ValueEnum};

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "bench/run console", about)]
struct Args {
    /// The Postgres server; the bench makes a database of its own on it and drops it.
    #[arg(long, env = "REDRIVE_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// How many letters a round redrives.
    #[arg(long, default_value_t = 200_000)]
    rows: u32,
    /// How many rounds there are.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many letters there are beside the pages.
    #[arg(long, default_value_t = 1_000_000)]
    letters: u32,
    /// How often each page is asked for.
    #[arg(long, default_value_t = 300)]
    asks: usize,
    /// Only this part.
    #[arg(long)]
    only: Option<Part>,
    /// Only do this to the letters that are there, and print the peak of memory.
    #[arg(long, hide = true)]
    peak_of: Option<memory::Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Redrive,
    Pages,
    Listing,
    Memory,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(work) = args.peak_of {
        return ended("console", memory::work(&args, work).await);
    }
    conclude("console", on_scratch(&args.postgres, async |scratch| measure(&args, scratch).await).await)
}

async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("# console\n\n{}; load average at the start: {}", machine(), load());
    println!("{}", scratch.describe().await?);
    let mut targets = Vec::new();
    if args.wants(Part::Memory) {
        targets.extend(memory::measure(args, scratch).await?);
    }
    if args.wants(Part::Redrive) {
        targets.extend(redrive::measure(args, scratch).await?);
    }
    if args.wants(Part::Pages) {
        targets.extend(pages::measure(args, scratch).await?);
    }
    if args.wants(Part::Listing) {
        targets.extend(listing::measure(args, scratch).await?);
    }
    Ok(targets)
}
