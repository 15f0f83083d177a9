//! Memory while a backlog is worked off: four times the lag must not take more.
//!
//! A small backlog goes first: it fits into the consumer's queue, so it shows what there is before that
//! queue is full, and takes the allocator's first growth upon itself.

use bench_harness::{Memory, Scratch, Table, Target};

use crate::{Args, decision, ours, topic};

const BATCH: usize = 5_000;
const WANTED: f64 = 1.25;

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Memory of this process while it works off a backlog\n");
    let mut table = Table::new(&["lag", "peak, MiB", "above the start"]);
    let mut peaks = Vec::new();
    // Filled first: what the producers took stays with the process, and would count for one of the two only.
    let mut backlogs = Vec::new();
    for (name, records) in
        [("small", args.records / 4), ("large", args.records), ("larger", args.records * 4)]
    {
        backlogs.push((topic::filled(&args.kafka, name, records).await?, records));
    }
    for (topic, records) in backlogs {
        decision::empty_table(scratch).await?;
        Memory::forget_peak()?;
        let before = Memory::read()?.now;
        ours::consume(&args.kafka, &topic, &topic, records, BATCH, &scratch.url()?).await?;
        let peak = Memory::read()?.peak;
        peaks.push(peak);
        table.row([
            bench_harness::thousands(records.into()),
            format!("{peak:.0}"),
            format!("{:.0}", peak - before),
        ]);
    }
    println!("{table}");
    Ok(vec![Target::at_most("peak memory, 4 × the lag / the lag", WANTED, peaks[2] / peaks[1])])
}
