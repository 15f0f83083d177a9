//! `bench/run ingest`: events over HTTP, with a journal, from memory, and against a bare HTTP server.
//!
//! Clients and server share this process and its processors: a figure is what both together can do.

mod client;
mod outage;
mod server;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use bench_harness::{Target, conclude, file_system, load, machine};
use clap::Parser;
use redrive_server::Metrics;

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
#[command(name = "bench/run ingest", about)]
struct Args {
    /// Where journal, spool and store are; the system's folder for temporary files unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many events each round sends.
    #[arg(long, default_value_t = 300_000)]
    events: u64,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many connections send.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// How many events are sent while the store is down.
    #[arg(long, default_value_t = 2_000_000)]
    outage: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude("ingest", measure(&Args::parse()).await)
}

async fn measure(args: &Args) -> anyhow::Result<Vec<Target>> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let metrics = Metrics::install()?;
    println!("# ingest\n\n{}; load average at the start: {}", machine(), load());
    println!("files on {}", file_system(&dir));
    // First, while the process is still small.
    let mut targets = outage::measure(args, &dir, &metrics).await?;
    targets.extend(throughput::measure(args, &dir, &metrics).await?);
    Ok(targets)
}
