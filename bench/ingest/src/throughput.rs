//! How many events a second: with a journal, from memory, and what HTTP alone would allow.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use async_trait::async_trait;
use bench_harness::{Contestant, Ratio, Table, Target, race, thousands};
use redrive_engine::ingest::{IngestOptions, WhenFull};
use redrive_server::Metrics;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::Args;
use crate::client::{self, Sent};
use crate::server::{self, Server};

pub(crate) async fn measure(args: &Args, dir: &Path, metrics: &Metrics) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## POST ingest\n\n{} events of 300 bytes in bodies of {}, {} connections, uploads to a folder, senders wait when the queue is full, {} rounds in turns; events/s: median (slowest–fastest)\n",
        thousands(args.events as f64),
        client::EVENTS,
        args.connections,
        args.rounds
    );
    let ours = |durability| Ours {
        durability,
        dir: dir.to_owned(),
        metrics: metrics.clone(),
        events: args.events,
        connections: args.connections,
        running: None,
        sent: Sent::default(),
    };
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(ours(Durability::Journal)),
        Box::new(ours(Durability::Memory)),
        Box::new(Bare { events: args.events, connections: args.connections, running: None }),
    ];
    let rates = race(&mut contestants, args.rounds).await?;
    let by_memory = Ratio::of(&rates[0], &rates[1]);
    let by_bare = Ratio::of(&rates[0], &rates[2]);
    let mut table = Table::new(&[
        "journal",
        "memory",
        "HTTP alone (the limit)",
        "journal ÷ memory",
        "journal ÷ HTTP",
        "µs: journal",
        "memory",
        "HTTP",
    ]);
    let mut cells: Vec<String> = rates.iter().map(ToString::to_string).collect();
    cells.extend([by_memory.to_string(), by_bare.to_string()]);
    cells.extend(rates.iter().map(|rates| format!("{:.2}", rates.processor())));
    table.row(cells);
    print!("{table}");
    Ok(vec![
        Target::at_least("POST ingest with a journal: events/s", 100_000.0, rates[0].median()),
        Target::at_least("POST ingest: journal ÷ memory", 0.5, by_memory.of_medians),
    ])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    Journal,
    Memory,
}

struct Ours {
    durability: Durability,
    dir: PathBuf,
    metrics: Metrics,
    events: u64,
    connections: usize,
    running: Option<(Server, TempDir)>,
    sent: Sent,
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> String {
        format!("{:?}", self.durability)
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir_in(&self.dir)?;
        let mut options = IngestOptions::new(folder.path());
        // Events may come faster than they are uploaded: the senders wait then, in both modes.
        options.on_full = WhenFull::Pause;
        if self.durability == Durability::Memory {
            options.journal = None;
        }
        let server = Server::start(folder.path(), options, &self.metrics).await?;
        self.running = Some((server, folder));
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let address = self.running.as_ref().map(|(server, _)| server.address);
        let address = address.ok_or_else(|| anyhow::anyhow!("not prepared"))?;
        self.sent = client::send(address, self.connections, self.events).await?;
        Ok(self.sent.accepted)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        ensure!(self.sent.refused == 0, "{} events were refused", self.sent.refused);
        if let Some((server, _folder)) = self.running.take() {
            server.stop().await?;
        }
        Ok(())
    }
}

struct Bare {
    events: u64,
    connections: usize,
    running: Option<(std::net::SocketAddr, JoinHandle<()>)>,
}

#[async_trait]
impl Contestant for Bare {
    fn name(&self) -> String {
        "HTTP alone".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.running = Some(server::bare().await?);
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let address = self.running.as_ref().map(|(address, _)| *address);
        let address = address.ok_or_else(|| anyhow::anyhow!("not prepared"))?;
        Ok(client::send(address, self.connections, self.events).await?.accepted)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        if let Some((_, task)) = self.running.take() {
            task.abort();
        }
        Ok(())
    }
}
