//! What `bench/run outbox` and `bench/run jobs` measure, on one Postgres in one run:
//!
//! | part | compares |
//! |---|---|
//! | `drain` | a backlog drained by us, by a raw loop, and by other job queues |
//! | `poison` | half of the events fail five times: attempts per second with and without them |
//! | `pickup` | how long a single event waits until its handler runs |
//! | `letters` | a drain beside a million dead letters, and without |

mod drain;
mod letters;
mod ours;
mod pickup;
mod poison;
mod subject;

use std::process::ExitCode;

use bench_harness::{Scratch, Target, conclude, load, machine, on_scratch};
use clap::{Parser, ValueEnum};

pub use subject::Subject;

/// What to measure, and how much of it.
#[derive(Debug, Parser)]
struct Args {
    /// The Postgres server; the bench makes a database of its own on it and drops it.
    #[arg(long, env = "REDRIVE_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// How many events each round drains.
    #[arg(long, default_value_t = 200_000)]
    rows: u32,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many letters lie beside the live events.
    #[arg(long, default_value_t = 1_000_000)]
    letters: u32,
    /// Only this part.
    #[arg(long)]
    only: Option<Part>,
    /// Without the other job queues.
    #[arg(long)]
    no_peers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Drain,
    Poison,
    Pickup,
    Letters,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Runs the bench of this subject.
pub async fn main(subject: Subject) -> ExitCode {
    let args = Args::parse();
    let measured = on_scratch(&args.postgres, async |scratch| measure(&args, subject, scratch).await);
    conclude(subject.name(), measured.await)
}

async fn measure(args: &Args, subject: Subject, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("# {}\n\n{}; load average at the start: {}", subject.name(), machine(), load());
    println!("{}", scratch.describe().await?);
    let mut targets = Vec::new();
    if args.wants(Part::Pickup) {
        targets.extend(pickup::measure(subject, scratch).await?);
    }
    if args.wants(Part::Drain) {
        targets.extend(drain::measure(args, subject, scratch).await?);
    }
    if args.wants(Part::Poison) {
        targets.extend(poison::measure(args, subject, scratch).await?);
    }
    if args.wants(Part::Letters) {
        targets.extend(letters::measure(args, subject, scratch).await?);
    }
    Ok(targets)
}
