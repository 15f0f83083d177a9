//! Durable saves: our spool against a bare loop of gzip, write, sync, rename and sync of the folder.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bench_harness::{Contestant, Ratio, Table, Target, race, thousands};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use redrive_spool::{Batch, Spool, SpoolOptions};

use crate::Args;
use crate::events::{EVENTS, lines};

pub(crate) async fn measure(args: &Args, dir: &Path) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## Durable save\n\n{} batches of {} events of 300 bytes, gzip level 1, {} rounds in turns; events/s: median (slowest–fastest)\n",
        args.batches,
        thousands(EVENTS.into()),
        args.rounds
    );
    let folder = tempfile::tempdir_in(dir)?;
    let pieces: Vec<Bytes> = (0..8).map(lines).collect();
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(Ours { root: folder.path().join("ours"), pieces: pieces.clone(), batches: args.batches }),
        Box::new(Bare { root: folder.path().join("bare"), pieces, batches: args.batches }),
    ];
    let rates = race(&mut contestants, args.rounds).await?;
    let ratio = Ratio::of(&rates[0], &rates[1]);
    let mut table = Table::new(&["ours", "bare gzip + sync (the limit)", "ours ÷ limit", "µs: ours", "bare"]);
    let mut cells = vec![rates[0].to_string(), rates[1].to_string(), ratio.to_string()];
    cells.extend(rates.iter().map(|rates| format!("{:.2}", rates.processor())));
    table.row(cells);
    print!("{table}");
    Ok(vec![Target::at_least("durable save: ours ÷ gzip + sync", 0.8, ratio.of_medians)])
}

struct Ours {
    root: PathBuf,
    pieces: Vec<Bytes>,
    batches: u32,
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> String {
        "ours".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        fresh(&self.root)
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let now = Timestamp::now();
        let spool = Spool::open(&self.root, SpoolOptions::new("bench"), now)?;
        for piece in self.pieces.iter().cycle().take(self.batches as usize) {
            let batch = Batch::compress(std::slice::from_ref(piece))?;
            spool.save(&spool.name(now), &batch, now)?;
        }
        Ok(u64::from(self.batches) * u64::from(EVENTS))
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(fs::read_dir(&self.root)?.count() == 2 * self.batches as usize, "files are missing");
        Ok(())
    }
}

struct Bare {
    root: PathBuf,
    pieces: Vec<Bytes>,
    batches: u32,
}

#[async_trait]
impl Contestant for Bare {
    fn name(&self) -> String {
        "bare".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        fresh(&self.root)
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        for (number, piece) in self.pieces.iter().cycle().take(self.batches as usize).enumerate() {
            let unfinished = self.root.join(format!("{number}.tmp"));
            let mut encoder = GzEncoder::new(Vec::with_capacity(piece.len() / 3), Compression::new(1));
            encoder.write_all(piece)?;
            let mut file = File::create(&unfinished)?;
            file.write_all(&encoder.finish()?)?;
            file.sync_data()?;
            fs::rename(&unfinished, self.root.join(format!("{number}.jsonl.gz")))?;
            File::open(&self.root)?.sync_all()?;
        }
        Ok(u64::from(self.batches) * u64::from(EVENTS))
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(fs::read_dir(&self.root)?.count() == self.batches as usize, "files are missing");
        Ok(())
    }
}

fn fresh(root: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(root);
    Ok(fs::create_dir_all(root)?)
}
