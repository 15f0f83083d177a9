//! Our store, drained as the engine does it: settle the last batch and claim the next in one turn.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bench_harness::Contestant;
use redrive_core::lease::Settlement;
use redrive_store::{Claim, TakeOver, WorkStore};

use crate::load::Load;
use bench_harness::Stage;

/// A store of ours with its stage.
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) stage: Stage,
    pub(crate) store: Arc<dyn WorkStore>,
    pub(crate) load: Load,
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.stage.set().await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        drain(&self.store, self.load).await
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        self.stage.check().await
    }
}

/// Handles everything that waits, with a handler that does nothing, and says how much it was.
pub(crate) async fn drain(store: &Arc<dyn WorkStore>, load: Load) -> anyhow::Result<u64> {
    let work = |number| work(Arc::clone(store), format!("worker-{number}"), load.batch);
    let workers: Vec<_> = (0..load.workers).map(|number| tokio::spawn(work(number))).collect();
    let mut events = 0;
    for worker in workers {
        events += worker.await.context("a worker panicked")??;
    }
    Ok(events)
}

async fn work(store: Arc<dyn WorkStore>, worker: String, batch: u32) -> anyhow::Result<u64> {
    let claim = Claim { worker, limit: batch, lease: Duration::from_secs(20), take_over: TakeOver::Expired };
    let mut settled = Vec::new();
    let mut events = 0;
    loop {
        let turn = store.turn(&mut settled, Some(&claim)).await?;
        anyhow::ensure!(turn.lost.is_empty(), "{} leases were lost", turn.lost.len());
        if turn.claimed.is_empty() {
            return Ok(events);
        }
        events += turn.claimed.len() as u64;
        settled.extend(turn.claimed.into_iter().map(|(lease, work)| {
            black_box(work);
            (lease, Settlement::Done)
        }));
    }
}
