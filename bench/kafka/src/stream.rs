//! A clean stream: our pipeline and the raw loop take turns at the same topic.
//!
//! Both are timed from their first record to their last row; joining the group is not counted.

use bench_harness::{Rates, Ratio, Scratch, Table, Target};

use crate::{Args, decision, ours, raw, topic};

const BATCH: usize = 5_000;
const WANTED: f64 = 0.85;

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## A clean stream: {} records of 300 bytes, batches of {BATCH}\n", args.records);
    let topic = topic::filled(&args.kafka, "stream", args.records).await?;
    let (mut mine, mut bare) = (Rates::default(), Rates::default());
    for round in 0..args.rounds {
        for turn in 0..2 {
            decision::empty_table(scratch).await?;
            let is_ours = (round + turn) % 2 == 0;
            let group = format!("{topic}-{round}-{is_ours}");
            let took = if is_ours {
                ours::consume(&args.kafka, &topic, &group, args.records, BATCH, &scratch.url()?).await?
            } else {
                let mut connection = scratch.connect().await?;
                raw::consume(&args.kafka, &topic, &group, args.records, BATCH, &mut connection).await?
            };
            let rows = decision::count_rows(scratch).await?;
            anyhow::ensure!(rows == i64::from(args.records), "{rows} rows of {}", args.records);
            let rates = if is_ours { &mut mine } else { &mut bare };
            rates.push(args.records.into(), took, std::time::Duration::ZERO);
        }
    }
    let ratio = Ratio::of(&mine, &bare);
    let mut table = Table::new(&["", "records/s: median (slowest–fastest)", "ours / raw"]);
    table.row(["poll, COPY, commit".to_owned(), bare.to_string(), String::new()]);
    table.row(["redrive".to_owned(), mine.to_string(), ratio.to_string()]);
    println!("{table}");
    Ok(vec![Target::at_least("a clean stream, ours / raw", WANTED, ratio.of_medians)])
}
