//! `bench/run persist`: write-behind persistence against a raw loop of multi-row inserts.
//!
//! The raw loop has everything at hand and one connection; it is the limit of a table that is filled in
//! batches of this size. Ours is handed events by callers, a hundred at a time, as a server is, and is
//! done when all of them are in the table: in memory, and with each call answered by the journal first.
//! Contestants take turns, because absolute figures move by a third from run to run.

mod events;
mod ours;
mod place;
mod raw;

use std::process::ExitCode;

use bench_harness::{
    Contestant, Ratio, Scratch, Table, Target, conclude, load as load_average, machine, on_scratch, race,
    thousands,
};
use clap::Parser;
use redrive_engine::persist::Durability;

use ours::Ours;
use place::Place;
use raw::Raw;

/// How much to measure.
#[derive(Debug, Parser)]
#[command(name = "bench/run persist", about)]
struct Args {
    /// The Postgres server; the bench makes a database of its own on it and drops it.
    #[arg(long, env = "REDRIVE_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// How many events each round saves.
    #[arg(long, default_value_t = 100_000)]
    events: usize,
    /// How many rounds each contestant runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many events one statement saves.
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// How many callers hand in events side by side.
    #[arg(long, default_value_t = 16)]
    callers: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    conclude("persist", on_scratch(&args.postgres, async |scratch| measure(&args, scratch).await).await)
}

async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("# persist\n\n{}; load average at the start: {}", machine(), load_average());
    println!("{}", scratch.describe().await?);
    println!(
        "{} events of {} bytes, batches of {}, {} callers with 100 events a call, {} rounds in turns; events/s: \
         median (slowest–fastest)\n",
        thousands(args.events as f64),
        events::SIZE,
        args.batch,
        args.callers,
        args.rounds
    );
    let folder = tempfile::tempdir()?;
    let places = [
        ("Postgres", Place::postgres(&scratch.url()?)),
        ("SQLite", Place::sqlite(&folder.path().join("urls.db"))),
    ];
    let headings = [
        "table in",
        "raw inserts",
        "memory",
        "journal",
        "memory ÷ raw",
        "journal ÷ raw",
        "µs: raw",
        "memory",
        "journal",
    ];
    let (mut table, mut targets) = (Table::new(&headings), Vec::new());
    for (name, place) in places {
        let mut contestants: Vec<Box<dyn Contestant>> = vec![
            Box::new(Raw::new(args, place.clone()).await?),
            Box::new(Ours::new(args, place.clone(), Durability::Memory)),
            Box::new(Ours::new(args, place, Durability::Journal)),
        ];
        let rates = race(&mut contestants, args.rounds).await?;
        let ratios = [Ratio::of(&rates[1], &rates[0]), Ratio::of(&rates[2], &rates[0])];
        let mut cells = vec![name.to_owned()];
        cells.extend(rates.iter().map(ToString::to_string));
        cells.extend(ratios.iter().map(ToString::to_string));
        cells.extend(rates.iter().map(|rates| format!("{:.1}", rates.processor())));
        table.row(cells);
        targets.push(Target::at_least(format!("{name}: memory ÷ raw"), 0.8, ratios[0].of_medians));
        targets.push(Target::at_least(format!("{name}: journal ÷ raw"), 0.5, ratios[1].of_medians));
    }
    print!("{table}");
    Ok(targets)
}
