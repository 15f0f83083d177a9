//! `bench/run spool`: how fast a batch is safe on disk, and what a recovery step costs beside many files.

mod events;
mod save;
mod step;

use std::path::PathBuf;
use std::process::ExitCode;

use bench_harness::{Target, conclude, file_system, load, machine};
use clap::Parser;

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "bench/run spool", about)]
struct Args {
    /// Where the files are written; the system's folder for temporary files unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many batches each round saves.
    #[arg(long, default_value_t = 60)]
    batches: u32,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many files wait in the large folder.
    #[arg(long, default_value_t = 1_000_000)]
    files: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude("spool", measure(&Args::parse()).await)
}

async fn measure(args: &Args) -> anyhow::Result<Vec<Target>> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    println!("# spool\n\n{}; load average at the start: {}", machine(), load());
    println!("files on {}", file_system(&dir));
    let mut targets = save::measure(args, &dir).await?;
    targets.extend(step::measure(args, &dir).await?);
    Ok(targets)
}
