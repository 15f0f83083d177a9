//! `bench/run kafka`: our Kafka pipeline against raw loops; broker, Postgres and us on one machine.
//!
//! Three parts, each with its tables; the last table says which targets were met: memory whatever the lag,
//! a clean stream of 300-byte records, and poison rows in batches of 5,000.

mod decision;
mod isolation;
mod memory;
mod ours;
mod raw;
mod stream;
mod topic;

use std::process::ExitCode;

use bench_harness::{Scratch, Target, conclude, ended, load as load_average, machine, on_scratch};
use clap::{Parser, ValueEnum};

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "bench/run kafka", about)]
struct Args {
    /// The Postgres server; the bench makes a database of its own on it and drops it.
    #[arg(long, env = "REDRIVE_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// The Kafka brokers; the bench makes topics of its own.
    #[arg(long, env = "REDRIVE_TEST_KAFKA")]
    kafka: String,
    /// How many records each round of the stream consumes.
    #[arg(long, default_value_t = 200_000)]
    records: u32,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only this part.
    #[arg(long)]
    only: Option<Part>,
    /// Work off this topic and print the peak of memory: for the part that measures it.
    #[arg(long, hide = true)]
    backlog: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Memory,
    Stream,
    Isolation,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(topic) = &args.backlog {
        return ended("kafka", memory::work_off(&args, topic).await);
    }
    conclude("kafka", on_scratch(&args.postgres, async |scratch| measure(&args, scratch).await).await)
}

async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("# kafka\n\n{}; load average at the start: {}", machine(), load_average());
    println!("{}", scratch.describe().await?);
    decision::create_table(scratch).await?;
    let mut targets = Vec::new();
    if args.wants(Part::Memory) {
        targets.extend(memory::measure(args, scratch).await?);
    }
    if args.wants(Part::Stream) {
        targets.extend(stream::measure(args, scratch).await?);
    }
    if args.wants(Part::Isolation) {
        targets.extend(isolation::measure(args, scratch).await?);
    }
    Ok(targets)
}
