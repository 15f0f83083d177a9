//! A drain beside a million dead letters, and without.

use std::sync::Arc;

use bench_harness::{Contestant, Hand, Ratio, Scratch, Table, Target, race, thousands};
use bench_peers::Counter;
use redrive_store::Processed;

use crate::Args;
use crate::ours::{Noop, Ours};
use crate::subject::Subject;

/// Drains with and without letters and prints the table.
pub(crate) async fn measure(args: &Args, subject: Subject, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    let rows = args.rows;
    let letters = thousands(args.letters.into());
    println!(
        "\n## Letters\n\n{} waiting events, with and without {letters} dead letters; {} rounds in turns; events/s: \
         median (slowest–fastest)\n",
        thousands(rows.into()),
        args.rounds * 2
    );
    let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
    for dead in [0, args.letters] {
        let name = if dead == 0 { "without" } else { "with" };
        let tables = Arc::new(subject.tables(scratch, &format!("letters_{name}"), Processed::Keep).await?);
        if dead > 0 {
            let mut hand = Hand::Postgres(scratch.connect().await?);
            hand.run(&[tables.fill_dead(dead), "VACUUM (ANALYZE)".to_owned()]).await?;
        }
        let counter = Counter::default();
        contestants.push(Box::new(Ours {
            name: name.to_owned(),
            stage: tables.stage(scratch, rows, dead).await?,
            handler: Arc::new(Noop(counter.clone())),
            tables,
            counter,
            attempts: rows.into(),
            engine: None,
        }));
    }
    let rates = race(&mut contestants, args.rounds * 2).await?;
    let ratio = Ratio::of(&rates[1], &rates[0]);
    let mut table = Table::new(&["letters", "events/s", "with ÷ without"]);
    table.row(["0".to_owned(), rates[0].to_string(), String::new()]);
    table.row([letters.clone(), rates[1].to_string(), ratio.to_string()]);
    print!("{table}");
    Ok(vec![Target::at_least(format!("beside {letters} letters ÷ without"), 0.9, ratio.of_medians)])
}
