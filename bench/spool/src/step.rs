//! What one recovery step costs beside a thousand files, and beside a million.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use bench_harness::{Memory, Table, Target, thousands};
use jiff::Timestamp;
use object_store::memory::InMemory;
use redrive_spool::spool::Outcome;
use redrive_spool::{Batch, Spool, SpoolOptions, Target as Store};

use crate::Args;

const FEW: u32 = 1_000;
const STEPS: u32 = 500;
const FIRST: i64 = 1_700_000_000;

pub(crate) async fn measure(args: &Args, dir: &Path) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## A recovery step\n\nfiles of one small batch each, {STEPS} steps: the oldest is read, checked, uploaded to memory and deleted; µs: median (95 of 100)\n"
    );
    let mut table = Table::new(&["files", "index at the start", "memory", "a step", "oldest first"]);
    let few = steps(dir, FEW, &mut table).await?;
    let many = steps(dir, args.files, &mut table).await?;
    print!("{table}");
    let name =
        format!("a step beside {} files ÷ beside {}", thousands(args.files.into()), thousands(FEW.into()));
    Ok(vec![Target::at_most(name, 1.2, many / few)])
}

/// The median step in microseconds.
async fn steps(dir: &Path, files: u32, table: &mut Table) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(dir)?;
    fill(folder.path(), files)?;
    let now = Timestamp::from_second(FIRST + 1)?;
    let (before, begun) = (Memory::read()?.now, Instant::now());
    let spool = Arc::new(Spool::open(folder.path(), SpoolOptions::new("bench"), now)?);
    let (opened, memory) = (begun.elapsed(), Memory::read()?.now - before);
    let store = Store::over(Arc::new(InMemory::new()), "", "RAW", "RAW_DLQ")?;
    let mut took = Vec::new();
    for number in 0..STEPS {
        let begun = Instant::now();
        let step = spool.process_one(&store, now).await;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
        let Outcome::Uploaded { file, .. } = step.outcome else { anyhow::bail!("{:?}", step.outcome) };
        ensure!(file == name(number), "{file} is not the oldest: {} is", name(number));
    }
    took.sort_by(f64::total_cmp);
    let (median, most) = (took[took.len() / 2], took[took.len() * 95 / 100]);
    table.row([
        thousands(files.into()),
        format!("{:.2} s", opened.as_secs_f64()),
        format!("{memory:.0} MiB"),
        format!("{median:.0} ({most:.0})"),
        "yes".to_owned(),
    ]);
    Ok(median)
}

/// In an order that has nothing to do with their age. Hard links to a few files: the same work for the
/// folder, and quicker to make.
fn fill(dir: &Path, files: u32) -> anyhow::Result<()> {
    let data = Batch::compress(&["{\"event\":1}\n".into()])?.data;
    let template = dir.join(".template");
    for number in 0..files {
        let number = (u64::from(number) * 7_919) % u64::from(files);
        if number.is_multiple_of(10_000) || !template.exists() {
            let _ = fs::remove_file(&template);
            fs::write(&template, &data)?;
        }
        fs::hard_link(&template, dir.join(name(u32::try_from(number)?)))?;
    }
    Ok(fs::remove_file(template)?)
}

fn name(number: u32) -> String {
    format!("{FIRST}_bench_{number:06}.jsonl.gz")
}
