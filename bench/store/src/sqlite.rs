//! Claim and settle on SQLite: our outbox against a raw loop, one worker each, as it has one writer.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bench_harness::{Contestant, Ratio, Table, Target, file_system, race, thousands};
use redrive_store::{Database, Outbox, OutboxOptions, Processed};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{Connection as _, Executor as _, Row as _, SqliteConnection};

use crate::Args;
use crate::load::Load;
use crate::ours::Ours;
use bench_harness::events::fill_sqlite;
use bench_harness::{Hand, Stage, tidy_sqlite};

/// Its version and settings, in one line.
pub(crate) async fn describe() -> anyhow::Result<String> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
    let version: String = connection.fetch_one("SELECT sqlite_version()").await?.try_get(0)?;
    let kind = file_system(&std::env::temp_dir());
    Ok(format!("SQLite {version}, journal_mode=WAL synchronous=FULL, files on {kind}"))
}

/// Compares at every batch size and prints the table.
pub(crate) async fn measure(args: &Args) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## Claim and settle, SQLite\n\n{} events, 1 worker, {} rounds in turns; the raw loop has a table of the same columns; events/s: median \
         (slowest–fastest)\n",
        thousands(args.rows.into()),
        args.rounds
    );
    let folder = tempfile::tempdir().context("making a folder for the SQLite files")?;
    let mut table = Table::new(&["load", "ours", "raw, one transaction", "ours ÷ raw", "µs: ours", "raw"]);
    let mut targets = Vec::new();
    let raw_file = folder.path().join("raw.db");
    Hand::Sqlite(connect(&raw_file).await?)
        .run(&[include_str!("../sql/sqlite/schema.sql").to_owned()])
        .await?;
    for load in Load::all(1, args.batch) {
        let mut contestants: Vec<Box<dyn Contestant>> = vec![
            Box::new(ours(args.rows, &folder.path().join("ours.db"), load).await?),
            Box::new(raw(args.rows, &raw_file, load).await?),
        ];
        let rates = race(&mut contestants, args.rounds).await?;
        let ratio = Ratio::of(&rates[0], &rates[1]);
        let mut cells = vec![load.name(), rates[0].to_string(), rates[1].to_string(), ratio.to_string()];
        cells.extend(rates.iter().map(|rates| format!("{:.1}", rates.processor())));
        table.row(cells);
        let name = format!("SQLite, {}, 1 worker: ours ÷ raw", load.name());
        targets.push(Target::at_least(name, 0.8, ratio.of_medians));
    }
    print!("{table}");
    Ok(targets)
}

/// An outbox of ours in this file, and its stage.
pub(crate) async fn ours(rows: u32, file: &Path, load: Load) -> anyhow::Result<Ours> {
    let database = Database::connect(&format!("sqlite:{}", file.display())).await?;
    let options = OutboxOptions { processed: load.processed, ..OutboxOptions::new("bench") };
    let outbox = Outbox::new(database, options)?;
    outbox.migrate().await?;
    let stage = stage(file, "outbox_event", rows).await?;
    Ok(Ours { name: "ours".to_owned(), stage, store: Arc::new(outbox), load })
}

async fn stage(file: &Path, table: &str, rows: u32) -> anyhow::Result<Stage> {
    let hand = Hand::Sqlite(connect(file).await?);
    let mut before = vec![format!("DELETE FROM {table}"), fill_sqlite(table, rows)];
    before.extend(tidy_sqlite());
    Ok(Stage { hand, before, waiting: format!("SELECT count(*) FROM {table} WHERE NOT processed") })
}

/// With the settings of our store.
async fn connect(file: &Path) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(10))
        .row_buffer_size(500);
    SqliteConnection::connect_with(&options).await.with_context(|| format!("opening {}", file.display()))
}

/// A raw loop with its stage: settle and claim in one transaction on a held connection.
struct Raw {
    stage: Stage,
    /// Away while its worker runs.
    connection: Option<SqliteConnection>,
    settle: &'static str,
    batch: u32,
}

async fn raw(rows: u32, file: &Path, load: Load) -> anyhow::Result<Raw> {
    let settle = match load.processed {
        Processed::Keep | Processed::KeepForAWhile => include_str!("../sql/sqlite/keep.sql"),
        Processed::Delete => include_str!("../sql/sqlite/delete.sql"),
    };
    let stage = stage(file, "raw_event", rows).await?;
    Ok(Raw { stage, connection: Some(connect(file).await?), settle, batch: load.batch })
}

#[async_trait]
impl Contestant for Raw {
    fn name(&self) -> String {
        "raw".to_owned()
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.stage.set().await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let connection = self.connection.take().context("an earlier round failed")?;
        let worker = tokio::spawn(work(connection, self.settle, self.batch));
        let (connection, handled) = worker.await.context("the worker panicked")??;
        self.connection = Some(connection);
        Ok(handled)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        self.stage.check().await
    }
}

async fn work(
    mut connection: SqliteConnection,
    settle: &'static str,
    batch: u32,
) -> anyhow::Result<(SqliteConnection, u64)> {
    let mut settled = String::new();
    let mut handled = 0;
    loop {
        connection.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await?;
        if !settled.is_empty() {
            sqlx::query(settle).bind(settled).execute(&mut connection).await?;
        }
        let claim = sqlx::query(include_str!("../sql/sqlite/claim.sql")).bind(batch);
        let events = claim.try_map(|row| Event::read(&row)).fetch_all(&mut connection).await?;
        connection.execute(sqlx::raw_sql("COMMIT")).await?;
        if events.is_empty() {
            return Ok((connection, handled));
        }
        handled += events.len() as u64;
        settled = json(&events);
        black_box(events);
    }
}

/// `{"id":lease,…}`
fn json(events: &[Event]) -> String {
    let members = events.iter().map(|event| format!("\"{}\":{}", event.id, event.lease));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A claimed event, with everything that a handler needs.
#[expect(dead_code, reason = "read from the row as a handler would need it; this one does nothing")]
struct Event {
    id: i64,
    lease: i64,
    until: String,
    event_type: String,
    aggregate_type: String,
    key: String,
    payload: Vec<u8>,
    created_at: String,
    retry_count: i32,
}

impl Event {
    fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get(0)?,
            lease: row.try_get(1)?,
            until: row.try_get(2)?,
            event_type: row.try_get(3)?,
            aggregate_type: row.try_get(4)?,
            key: row.try_get(5)?,
            payload: row.try_get::<String, _>(6)?.into_bytes(),
            created_at: row.try_get(7)?,
            retry_count: row.try_get(8)?,
        })
    }
}
