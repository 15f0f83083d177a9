//! Ours: callers hand in events, and it is done when all of them are in the table.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bench_harness::Contestant;
use redrive_engine::persist::{Durability, NotAccepted};
use redrive_engine::{Engine, PersistOptions, Persister, WatchOptions};
use redrive_spool::{Journal, JournalOptions};
use redrive_store::{Database, FailedEvents, FailedEventsOptions, Record, Target, TargetOptions};

use crate::Args;
use crate::events::events;
use crate::place::Place;

/// How many events one call hands in.
const CALL: usize = 100;

/// A persister, made anew for each round.
pub(crate) struct Ours {
    place: Place,
    durability: Durability,
    count: usize,
    batch: usize,
    callers: usize,
    round: Option<Round>,
}

struct Round {
    persister: Persister<Record>,
    engine: Engine,
    /// What each caller hands in, call by call.
    calls: Vec<Vec<Vec<Record>>>,
    _folder: tempfile::TempDir,
}

impl Ours {
    pub(crate) fn new(args: &Args, place: Place, durability: Durability) -> Self {
        Self {
            place,
            durability,
            count: args.events,
            batch: args.batch,
            callers: args.callers.max(1),
            round: None,
        }
    }

    fn calls(&self) -> Vec<Vec<Vec<Record>>> {
        let events = events(self.count);
        let share = events.len().div_ceil(self.callers);
        let share = events.chunks(share).map(|share| share.chunks(CALL).map(<[Record]>::to_vec).collect());
        share.collect()
    }
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> String {
        format!("{:?}", self.durability)
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let database = Database::connect(&self.place.url).await?;
        let target = Arc::new(Target::new(database.clone(), &TargetOptions::new("urls"))?);
        let failed = Arc::new(FailedEvents::new(database, FailedEventsOptions::new("urls"))?);
        target.migrate().await?;
        failed.migrate().await?;
        self.place.connect().await?.tidy("urls").await?;
        let folder = tempfile::tempdir()?;
        let journal = Journal::open(folder.path(), JournalOptions::default())?;
        let options = PersistOptions { batch_size: self.batch, ..PersistOptions::default() };
        let persister =
            Persister::builder(target, failed).journaling(journal, self.durability).build(options);
        let engine = Engine::new();
        engine.persist(&persister, WatchOptions::default());
        self.round = Some(Round { persister, engine, calls: self.calls(), _folder: folder });
        Ok(())
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let round = self.round.as_mut().context("it was not prepared")?;
        let call = |calls| tokio::spawn(hand_in(round.persister.clone(), calls));
        let callers: Vec<_> = round.calls.drain(..).map(call).collect();
        for caller in callers {
            caller.await.context("a caller panicked")??;
        }
        round.persister.idle().await;
        Ok(self.count as u64)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        let round = self.round.take().context("it was not prepared")?;
        round.engine.stop().await;
        let rows = self.place.connect().await?.count("urls").await?;
        anyhow::ensure!(rows == i64::try_from(self.count)?, "{rows} rows are in the table");
        Ok(())
    }
}

/// Hands in call by call; one that finds no room comes back, as a client does after a 503.
async fn hand_in(persister: Persister<Record>, calls: Vec<Vec<Record>>) -> anyhow::Result<()> {
    for call in calls {
        while let Err(refusal) = persister.accept(call.clone()).await {
            anyhow::ensure!(matches!(refusal, NotAccepted::Full { .. }), "{refusal}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}
