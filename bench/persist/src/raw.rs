//! The limit: a loop of multi-row inserts on one connection, with everything at hand.

use async_trait::async_trait;
use bench_harness::Contestant;
use redrive_store::Record;

use crate::Args;
use crate::events::events;
use crate::place::{Hand, Place};

const POSTGRES: &str =
    "INSERT INTO raw_url (short_url, long_url) SELECT * FROM unnest($1::text[], $2::text[])";
const SQLITE: &str =
    "INSERT INTO raw_url (short_url, long_url) SELECT value ->> 0, value ->> 1 FROM json_each($1)";

/// The loop.
pub(crate) struct Raw {
    hand: Hand,
    events: Vec<Record>,
    batch: usize,
}

impl Raw {
    pub(crate) async fn new(args: &Args, place: Place) -> anyhow::Result<Self> {
        let mut hand = place.connect().await?;
        let created = match hand {
            Hand::Postgres(_) => "created_at TIMESTAMPTZ NOT NULL DEFAULT now()",
            Hand::Sqlite(_) => "created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))",
        };
        let columns =
            format!("short_url VARCHAR(255) NOT NULL PRIMARY KEY, long_url TEXT NOT NULL, {created}");
        hand.run(&format!("CREATE TABLE raw_url ({columns})")).await?;
        Ok(Self { hand, events: events(args.events), batch: args.batch })
    }
}

#[async_trait]
impl Contestant for Raw {
    fn name(&self) -> String {
        "raw inserts".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.hand.tidy("raw_url").await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        for batch in self.events.chunks(self.batch) {
            match &mut self.hand {
                Hand::Postgres(connection) => {
                    let keys: Vec<&str> = batch.iter().map(|event| event.key.as_str()).collect();
                    let payloads: Vec<&str> = batch.iter().map(|event| event.payload.as_str()).collect();
                    sqlx::query(POSTGRES).bind(keys).bind(payloads).execute(connection).await?;
                }
                Hand::Sqlite(connection) => {
                    sqlx::query(SQLITE).bind(json(batch)).execute(connection).await?;
                }
            }
        }
        Ok(self.events.len() as u64)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        let rows = self.hand.count("raw_url").await?;
        anyhow::ensure!(rows == i64::try_from(self.events.len())?, "{rows} rows are in the table");
        Ok(())
    }
}

/// `[["key","payload"],…]`; these events need no escapes.
fn json(batch: &[Record]) -> String {
    let rows = batch.iter().map(|event| format!("[\"{}\",\"{}\"]", event.key, event.payload));
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}
