//! Claim and settle on Postgres: our outbox against a raw loop.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use bench_harness::{Contestant, Ratio, Scratch, Table, Target, race, thousands};
use redrive_store::{Database, Outbox, OutboxOptions, Processed};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqlSafeStr as _, SqlStr};
use time::OffsetDateTime;

use crate::Args;
use crate::events::fill_postgres;
use crate::load::Load;
use crate::ours::Ours;
use crate::stage::{Hand, Stage, tidy_postgres};

const WORKERS: usize = 2;
const HEADINGS: [&str; 8] = [
    "load",
    "ours",
    "raw, two statements",
    "raw, one statement",
    "ours ÷ better raw",
    "µs: ours",
    "two",
    "one",
];

/// Compares at every batch size and prints the table.
pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!(
        "\n## Claim and settle, Postgres\n\n{} events, {WORKERS} workers, {} rounds in turns; events/s: median (slowest–fastest)\n",
        thousands(args.rows.into()),
        args.rounds
    );
    Hand::Postgres(scratch.connect().await?)
        .run(&[include_str!("../sql/postgres/schema.sql").to_owned()])
        .await?;
    let mut table = Table::new(&HEADINGS);
    let mut targets = Vec::new();
    for load in Load::all(WORKERS, args.batch) {
        let mut contestants: Vec<Box<dyn Contestant>> = vec![
            Box::new(ours(args.rows, scratch, load).await?),
            Box::new(raw(args.rows, scratch, load, Form::Two).await?),
            Box::new(raw(args.rows, scratch, load, Form::One).await?),
        ];
        let rates = race(&mut contestants, args.rounds).await?;
        let better = if rates[1].median() > rates[2].median() { &rates[1] } else { &rates[2] };
        let ratio = Ratio::of(&rates[0], better);
        let mut cells = vec![load.name()];
        cells.extend(rates.iter().map(ToString::to_string));
        cells.push(ratio.to_string());
        cells.extend(rates.iter().map(|rates| format!("{:.1}", rates.processor())));
        table.row(cells);
        if load.batch == 500 {
            let name = format!("Postgres, {}, {WORKERS} workers: ours ÷ raw", load.name());
            targets.push(Target::at_least(name, 0.8, ratio.of_medians));
        }
    }
    print!("{table}");
    Ok(targets)
}

/// An outbox of ours with tables of its own, and its stage.
pub(crate) async fn ours(rows: u32, scratch: &Scratch, load: Load) -> anyhow::Result<Ours> {
    let database = Database::connect(&scratch.url()?).await?;
    let options = OutboxOptions { processed: load.processed, ..OutboxOptions::new("bench") };
    let outbox = Outbox::new(database, options)?;
    outbox.migrate().await?;
    let stage = stage(scratch, "outbox_event", rows).await?;
    Ok(Ours { name: "ours".to_owned(), stage, store: Arc::new(outbox), load })
}

/// A table full of waiting events and nothing else.
pub(crate) async fn stage(scratch: &Scratch, table: &str, rows: u32) -> anyhow::Result<Stage> {
    let mut hand = Hand::Postgres(scratch.connect().await?);
    // Autovacuum comes once a minute: it would hit one contestant and spare the other.
    hand.run(&[format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")]).await?;
    let mut before = vec![format!("TRUNCATE {table}"), fill_postgres(table, rows)];
    before.extend(tidy_postgres(table));
    Ok(Stage { hand, before, waiting: format!("SELECT count(*) FROM {table} WHERE NOT processed") })
}

/// In how many statements the raw loop settles and claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A claim and a settlement, each with its own commit.
    Two,
    /// The settlement of the last batch within the claim of the next.
    One,
}

/// A raw loop with its stage: one connection held by each worker.
struct Raw {
    stage: Stage,
    connections: Vec<PgConnection>,
    sql: RawSql,
    load: Load,
    form: Form,
}

#[derive(Clone)]
struct RawSql {
    claim: SqlStr,
    settle: SqlStr,
    turn: SqlStr,
}

async fn raw(rows: u32, scratch: &Scratch, load: Load, form: Form) -> anyhow::Result<Raw> {
    let mut connections = Vec::new();
    for _ in 0..load.workers {
        connections.push(scratch.connect().await?);
    }
    let stage = stage(scratch, "raw_event", rows).await?;
    Ok(Raw { stage, connections, sql: RawSql::new(load.processed), load, form })
}

impl RawSql {
    fn new(processed: Processed) -> Self {
        let claim = include_str!("../sql/postgres/claim.sql");
        let settle = match processed {
            Processed::Keep => include_str!("../sql/postgres/keep.sql"),
            Processed::Delete => include_str!("../sql/postgres/delete.sql"),
        };
        let turn = format!("WITH done AS ({settle}) {}", claim.replace("$1", "$3"));
        Self {
            claim: claim.into_sql_str(),
            settle: settle.into_sql_str(),
            turn: AssertSqlSafe(turn).into_sql_str(),
        }
    }
}

#[async_trait]
impl Contestant for Raw {
    fn name(&self) -> String {
        format!("raw, {:?}", self.form)
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.stage.set().await
    }

    async fn run(&mut self) -> anyhow::Result<u64> {
        let (sql, batch, form) = (&self.sql, i64::from(self.load.batch), self.form);
        let work = |connection| tokio::spawn(work(connection, sql.clone(), batch, form));
        let workers: Vec<_> = self.connections.drain(..).map(work).collect();
        let mut events = 0;
        for worker in workers {
            let (connection, handled) = worker.await.context("a worker panicked")??;
            self.connections.push(connection);
            events += handled;
        }
        Ok(events)
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        self.stage.check().await
    }
}

async fn work(
    mut connection: PgConnection,
    sql: RawSql,
    batch: i64,
    form: Form,
) -> Result<(PgConnection, u64), sqlx::Error> {
    let (mut ids, mut leases) = (Vec::new(), Vec::new());
    let mut handled = 0;
    loop {
        let query = if ids.is_empty() || form == Form::Two {
            sqlx::query(sql.claim.clone()).bind(batch)
        } else {
            sqlx::query(sql.turn.clone()).bind(ids).bind(leases).bind(batch)
        };
        let events = query.try_map(|row| Event::read(&row)).fetch_all(&mut connection).await?;
        if events.is_empty() {
            return Ok((connection, handled));
        }
        handled += events.len() as u64;
        (ids, leases) = events.iter().map(|event| (event.id, event.lease)).unzip();
        black_box(events);
        if form == Form::Two {
            sqlx::query(sql.settle.clone()).bind(&ids).bind(&leases).execute(&mut connection).await?;
        }
    }
}

/// A claimed event, with everything that our store hands to a handler and the raw table has.
#[expect(dead_code, reason = "read from the row as a handler would need it; this one does nothing")]
struct Event {
    id: i64,
    lease: i64,
    until: OffsetDateTime,
    event_type: String,
    aggregate_type: String,
    key: String,
    payload: Vec<u8>,
    created_at: OffsetDateTime,
    retry_count: i32,
}

impl Event {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
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
