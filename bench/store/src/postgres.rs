//! Claim and settle on Postgres: our outbox against a raw loop.

use std::sync::Arc;

use bench_harness::{Contestant, Form, Kind, Ratio, Raw, Scratch, Stage, Table, Target, race, thousands};
use redrive_store::{Database, Outbox, OutboxOptions};

use crate::Args;
use crate::load::Load;
use crate::ours::Ours;

const WORKERS: usize = 2;
const HEADINGS: [&str; 8] = [
    "load",
    "ours",
    "raw, two statements",
    "raw, one statement",
    "ours ÷ better raw",
    "µs: ours",
    "two",
    "one",
];

/// Compares at every batch size and prints the table.
pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## Claim and settle, Postgres\n\n{} events, {WORKERS} workers, {} rounds in turns; the raw loops have a table of the same columns; \
         events/s: median (slowest–fastest)\n",
        thousands(args.rows.into()),
        args.rounds
    );
    let mut table = Table::new(&HEADINGS);
    let mut targets = Vec::new();
    for load in Load::all(WORKERS, args.batch) {
        let mut contestants: Vec<Box<dyn Contestant>> = vec![
            Box::new(ours(args.rows, scratch, load).await?),
            Box::new(Raw::new(Kind::Outbox, args.rows, scratch, load.raw(), Form::Two).await?),
            Box::new(Raw::new(Kind::Outbox, args.rows, scratch, load.raw(), Form::One).await?),
        ];
        let rates = race(&mut contestants, args.rounds).await?;
        let better = if rates[1].median() > rates[2].median() { &rates[1] } else { &rates[2] };
        let ratio = Ratio::of(&rates[0], better);
        let mut cells = vec![load.name()];
        cells.extend(rates.iter().map(ToString::to_string));
        cells.push(ratio.to_string());
        cells.extend(rates.iter().map(|rates| format!("{:.1}", rates.processor())));
        table.row(cells);
        if load.batch == 500 {
            let name = format!("Postgres, {}, {WORKERS} workers: ours ÷ raw", load.name());
            targets.push(Target::at_least(name, 0.8, ratio.of_medians));
        }
    }
    print!("{table}");
    Ok(targets)
}

/// An outbox of ours with tables of its own, and its stage.
pub(crate) async fn ours(rows: u32, scratch: &Scratch, load: Load) -> anyhow::Result<Ours> {
    let database = Database::connect(&scratch.url()?).await?;
    let options = OutboxOptions { processed: load.processed, ..OutboxOptions::new("bench") };
    let outbox = Outbox::new(database, options)?;
    outbox.migrate().await?;
    let stage = Stage::postgres(scratch, "outbox_event", rows).await?;
    Ok(Ours { name: "ours".to_owned(), stage, store: Arc::new(outbox), load })
}
