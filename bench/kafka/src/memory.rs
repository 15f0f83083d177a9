//! Memory while a backlog is worked off: four times the lag must not take more.
//!
//! Each backlog has a process of its own: what another one took, or the producers that filled the topics,
//! would stay with the process and count for it. A small backlog is shown as well; it fits into the
//! consumer's queue, so it says what there is before that queue is full.

use std::process::Stdio;

use anyhow::Context as _;
use bench_harness::{Memory, Scratch, Table, Target, thousands};
use tokio::process::Command;

use crate::{Args, decision, ours, topic};

const BATCH: usize = 5_000;
const WANTED: f64 = 1.25;

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Memory of a process while it works off a backlog\n");
    let mut table = Table::new(&["lag", "peak, MiB"]);
    let mut peaks = Vec::new();
    for (name, records) in
        [("small", args.records / 4), ("large", args.records), ("larger", args.records * 4)]
    {
        let topic = topic::filled(&args.kafka, name, records).await?;
        decision::empty_table(scratch).await?;
        let peak = in_its_own_process(args, &scratch.url()?, &topic, records).await?;
        peaks.push(peak);
        table.row([thousands(records.into()), format!("{peak:.0}")]);
    }
    println!("{table}");
    Ok(vec![Target::at_most("peak memory, 4 × the lag / the lag", WANTED, peaks[2] / peaks[1])])
}

async fn in_its_own_process(args: &Args, url: &str, topic: &str, records: u32) -> anyhow::Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--postgres", url, "--kafka", &args.kafka, "--records", &records.to_string()])
        .args(["--backlog", topic])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    anyhow::ensure!(output.status.success(), "the process that works off {topic}: {}", output.status);
    let peak = String::from_utf8(output.stdout)?;
    peak.trim().parse().with_context(|| format!("not a size: {peak:?}"))
}

/// Works off one backlog and prints the peak: what the other process is there for.
pub(crate) async fn work_off(args: &Args, topic: &str) -> anyhow::Result<()> {
    ours::consume(&args.kafka, topic, topic, args.records, BATCH, &args.postgres).await?;
    println!("{}", Memory::read()?.peak);
    Ok(())
}
