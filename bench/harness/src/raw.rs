//! The yardstick: a loop with the best SQL for Postgres and nothing else.
//!
//! No policy, no history, no failure handling: a claim by lease with a fence, and a settlement.

use std::hint::black_box;

use anyhow::Context as _;
use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqlSafeStr as _, SqlStr};
use time::OffsetDateTime;

use crate::postgres::Scratch;
use crate::race::Contestant;
use crate::stage::{Hand, Stage};

/// In how many statements the raw loop settles and claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A claim and a settlement, each with its own commit.
    Two,
    /// The settlement of the last batch within the claim of the next.
    One,
}

/// Which table of ours the loop does without us: its own has the same columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An outbox.
    Outbox,
    /// A job queue.
    Jobs,
}

impl Kind {
    fn schema(self) -> &'static str {
        match self {
            Self::Outbox => include_str!("../sql/postgres/outbox/schema.sql"),
            Self::Jobs => include_str!("../sql/postgres/jobs/schema.sql"),
        }
    }

    fn claim(self) -> &'static str {
        match self {
            Self::Outbox => include_str!("../sql/postgres/outbox/claim.sql"),
            Self::Jobs => include_str!("../sql/postgres/jobs/claim.sql"),
        }
    }

    fn settle(self, settle: Settle) -> &'static str {
        match (self, settle) {
            (Self::Outbox, Settle::Update) => include_str!("../sql/postgres/outbox/keep.sql"),
            (Self::Outbox, Settle::Delete) => include_str!("../sql/postgres/outbox/delete.sql"),
            (Self::Jobs, Settle::Update) => include_str!("../sql/postgres/jobs/keep.sql"),
            (Self::Jobs, Settle::Delete) => include_str!("../sql/postgres/jobs/delete.sql"),
        }
    }

    async fn stage(self, scratch: &Scratch, rows: u32) -> anyhow::Result<Stage> {
        match self {
            Self::Outbox => Stage::postgres(scratch, "raw_event", rows).await,
            Self::Jobs => Stage::postgres_jobs(scratch, "raw_job", rows).await,
        }
    }
}

/// What becomes of a delivered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// It is marked, and stays.
    Update,
    /// It is deleted.
    Delete,
}

/// How a raw loop works.
#[derive(Debug, Clone, Copy)]
pub struct RawPace {
    /// How many work side by side.
    pub workers: usize,
    /// How many events a claim takes.
    pub batch: u32,
    /// What becomes of them.
    pub settle: Settle,
}

/// A raw loop with its stage: one connection held by each worker.
#[derive(Debug)]
pub struct Raw {
    stage: Stage,
    connections: Vec<PgConnection>,
    sql: RawSql,
    batch: u32,
    form: Form,
}

#[derive(Debug, Clone)]
struct RawSql {
    claim: SqlStr,
    settle: SqlStr,
    turn: SqlStr,
}

impl Raw {
    /// A loop over so many events.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn new(
        kind: Kind,
        rows: u32,
        scratch: &Scratch,
        pace: RawPace,
        form: Form,
    ) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..pace.workers {
            connections.push(scratch.connect().await?);
        }
        let mut hand = Hand::Postgres(scratch.connect().await?);
        hand.run(&[kind.schema().to_owned()]).await?;
        let stage = kind.stage(scratch, rows).await?;
        Ok(Self { stage, connections, sql: RawSql::new(kind, pace.settle), batch: pace.batch, form })
    }
}

impl RawSql {
    fn new(kind: Kind, settle: Settle) -> Self {
        let (claim, settle) = (kind.claim(), kind.settle(settle));
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
        let (sql, batch, form) = (&self.sql, i64::from(self.batch), self.form);
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

/// A claimed event, with everything that a handler needs.
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
