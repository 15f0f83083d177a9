//! Memory while the store is down, and events come in all the same.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bench_harness::{Memory, Table, Target, thousands};
use redrive_engine::ingest::{IngestOptions, WhenFull};
use redrive_server::Metrics;
use redrive_spool::spool::OnFull;

use crate::Args;
use crate::client;
use crate::server::Server;

pub(crate) async fn measure(args: &Args, dir: &Path, metrics: &Metrics) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## The store is down\n\n{} events are sent meanwhile; the spool may hold 256 MiB, then senders are refused\n",
        thousands(args.outage as f64)
    );
    let folder = tempfile::tempdir_in(dir)?;
    let mut options = IngestOptions::new(folder.path());
    options.on_full = WhenFull::Reject;
    options.spool_options.on_full = OnFull::Refuse;
    options.spool_options.max_size = 256 << 20;
    let server = Server::start(folder.path(), options, metrics).await?;
    // No folder any more: every upload fails.
    fs::remove_dir_all(folder.path().join("store"))?;
    fs::write(folder.path().join("store"), "")?;
    let idle = Memory::read()?.now;
    Memory::forget_peak()?;
    let begun = Instant::now();
    let sent = client::send(server.address, args.connections, args.outage).await?;
    let took = begun.elapsed();
    let peak = Memory::read()?.peak;
    let files = server.ingest.status().spool.files;
    fs::remove_file(folder.path().join("store"))?;
    let drained = drain(&server).await;
    let mut table =
        Table::new(&["accepted", "refused", "in", "files", "idle", "peak above idle", "drained after"]);
    table.row([
        thousands(sent.accepted as f64),
        thousands(sent.refused as f64),
        format!("{:.1} s", took.as_secs_f64()),
        files.to_string(),
        format!("{idle:.0} MiB"),
        format!("{:.0} MiB", peak - idle),
        drained.map_or("not in 20 s".to_owned(), |drained| format!("{:.1} s", drained.as_secs_f64())),
    ]);
    print!("{table}");
    server.stop().await?;
    Ok(vec![Target::at_most("the store is down: MiB above idle", 150.0, peak - idle)])
}

async fn drain(server: &Server) -> Option<Duration> {
    let begun = Instant::now();
    while server.ingest.status().spool.files > 0 {
        if begun.elapsed() > Duration::from_secs(20) {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Some(begun.elapsed())
}
