//! A backlog drained by us, by a raw loop, and by other job queues.

use std::sync::Arc;

use bench_harness::{Contestant, Form, Ratio, Raw, RawPace, Scratch, Settle, Table, Target, race, thousands};
use bench_peers::{Apalis, Awa, Counter, Graphile};
use redrive_store::Processed;

use crate::Args;
use crate::ours::{Noop, Ours, SETTINGS};
use crate::subject::Subject;

const RAW_SETTINGS: &str = "2 workers, batches of 500, settle and claim in one statement, a table of the same columns \
                            with the primary key and the index of the claim";

/// Drains and prints the table.
pub(crate) async fn measure(args: &Args, subject: Subject, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    let rows = args.rows;
    println!(
        "\n## Drain\n\n{} waiting events, handlers that do nothing, {} rounds in turns; events/s: median \
         (slowest–fastest)\n",
        thousands(rows.into()),
        args.rounds
    );
    let mut settings = vec![("redrive", SETTINGS), ("raw", RAW_SETTINGS)];
    let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
    let pairs = [("update", Processed::Keep, Settle::Update), ("delete", Processed::Delete, Settle::Delete)];
    for (word, processed, settle) in &pairs {
        contestants.push(Box::new(ours(subject, scratch, rows, word, *processed).await?));
        let pace = RawPace { workers: 2, batch: 500, settle: *settle };
        contestants.push(Box::new(Raw::new(subject.raw(), rows, scratch, pace, Form::One).await?));
    }
    if !args.no_peers {
        contestants.push(Box::new(Graphile::new(scratch, rows)));
        contestants.push(Box::new(Awa::new(scratch, rows)));
        contestants.push(Box::new(Apalis::new(scratch, rows)));
        settings.extend([
            ("graphile_worker 0.14", Graphile::SETTINGS),
            ("awa 0.6", Awa::SETTINGS),
            ("apalis 1.0", Apalis::SETTINGS),
        ]);
    }
    for (name, settings) in settings {
        println!("- {name}: {settings}");
    }
    let names: Vec<_> = contestants.iter().map(|contestant| contestant.name()).collect();
    let rates = race(&mut contestants, args.rounds).await?;

    let mut table = Table::new(&["who", "events/s", "redrive ÷ who", "µs of the client"]);
    let mut targets = Vec::new();
    let (mut best, mut fastest_peer) = (0, None::<usize>);
    for (index, name) in names.iter().enumerate() {
        // Of each pair ours comes first; a peer is compared with the better of ours.
        let ours = match index {
            index if index < pairs.len() * 2 => index / 2 * 2,
            _ => best,
        };
        let ratio = Ratio::of(&rates[ours], &rates[index]);
        table.row([
            if index < pairs.len() * 2 { format!("{name}, {}", pairs[index / 2].0) } else { name.clone() },
            rates[index].to_string(),
            if ours == index { String::new() } else { ratio.to_string() },
            format!("{:.1}", rates[index].processor()),
        ]);
        if index < pairs.len() * 2 {
            if index % 2 == 1 {
                let name = format!("drain, {}: redrive ÷ raw", pairs[index / 2].0);
                targets.push(Target::at_least(name, 0.7, ratio.of_medians));
            } else if rates[index].median() > rates[best].median() {
                best = index;
            }
        } else if fastest_peer.is_none_or(|peer| rates[index].median() > rates[peer].median()) {
            fastest_peer = Some(index);
        }
    }
    print!("\n{table}");
    if let Some(peer) = fastest_peer {
        let ratio = Ratio::of(&rates[best], &rates[peer]);
        let name = format!("drain: redrive ÷ {}, the fastest peer", names[peer]);
        targets.push(Target::at_least(name, 2.0, ratio.of_medians));
    }
    Ok(targets)
}

async fn ours(
    subject: Subject,
    scratch: &Scratch,
    rows: u32,
    word: &str,
    processed: Processed,
) -> anyhow::Result<Ours> {
    let tables = Arc::new(subject.tables(scratch, &format!("drain_{word}"), processed).await?);
    let counter = Counter::default();
    Ok(Ours {
        name: "redrive".to_owned(),
        stage: tables.stage(scratch, rows, 0).await?,
        handler: Arc::new(Noop(counter.clone())),
        tables,
        counter,
        attempts: rows.into(),
        engine: None,
    })
}
