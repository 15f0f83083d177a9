//! Work in a SQL table: claim, settle and extend, the same for every table that holds work.
//!
//! A table holds work when it has the columns `due_at`, `lease`, `leased_by` and `interrupted`.
//! `due_at` says when it may be claimed next: for waiting work when it is due, for leased work when
//! the lease runs out. So one index answers "what may I take", and nobody has to move rows about.
//! Every settlement repeats the fence: `… WHERE id = ? AND lease = ?`, and the work must still be held.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::clean;
use redrive_core::history::History;
use redrive_core::lease::{Failed, Lease, Settlement, Work};

use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::row::Row;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};
use crate::work::{Claim, TakeOver, Turn};

/// How one table says it; see the files in `sql/`.
pub(crate) struct Shape {
    /// The number of a row.
    pub(crate) id: &'static str,
    /// Which rows `e` are waiting or leased.
    pub(crate) live: &'static str,
    /// Which live rows `e` are leased.
    pub(crate) leased: &'static str,
    /// Which rows `t` can be settled.
    pub(crate) held: &'static str,
    /// What a claim sets besides the lease; reads the row `t` as it was.
    pub(crate) take: &'static str,
    /// In which order rows `e` are claimed.
    pub(crate) order: &'static str,
    /// Which further rows `e` must wait.
    pub(crate) in_order: String,
    /// The columns of the work, as [`work`] reads them.
    pub(crate) work: &'static str,
    /// What settling sets.
    pub(crate) done: Done,
    pub(crate) retry: &'static str,
    pub(crate) release: &'static str,
    pub(crate) dead: Dead,
}

/// What becomes of delivered work.
pub(crate) enum Done {
    Set(&'static str),
    Delete,
}

/// What becomes of dead work.
pub(crate) enum Dead {
    /// It stays in place, changed.
    Set(&'static str),
    /// It moves to another table by this statement (and, but for Postgres, a delete after it).
    Move(Sql),
}

/// The statements of one table that holds work.
#[derive(Debug)]
pub(crate) struct Queue {
    database: Database,
    claim: Statement,
    /// Postgres only: settle and claim in one.
    turn: Option<Statement>,
    /// MySQL only: the second half of a claim, and the look at what is still held.
    take: Option<Statement>,
    held: Option<Statement>,
    done: Statement,
    retry: Statement,
    dead: Vec<Statement>,
    release: Statement,
    extend: Statement,
}

const CLAIM: Sql = sql!(each "work/claim.sql");
const SETTLE: Sql = sql!(each "work/settle.sql");
const SETTLE_BY_DELETE: Sql = sql!(each "work/settle_by_delete.sql");
const EXTEND: Sql = sql!(each "work/extend.sql");
const LEASES: Sql = sql!(each "work/batch_leases.sql");
const FAILURES: Sql = sql!(each "work/batch_failures.sql");

impl Queue {
    /// The queue in `{table}` of the names.
    pub(crate) fn new(database: Database, names: &Names, shape: &Shape) -> Self {
        let dialect = database.dialect();
        let names = names
            .clone()
            .with("id", shape.id)
            .with_sql("live", shape.live)
            .with_sql("leased", shape.leased)
            .with_sql("held", shape.held)
            .with_sql("take", shape.take)
            .with_sql("order", shape.order)
            .with_sql("in_order", &shape.in_order)
            .with_sql("interrupted", if dialect == Dialect::MySql { shape.leased } else { "interrupted" })
            .with_sql("after", after(dialect));
        let names = names.clone().with_sql("work", shape.work);
        let leases = names.clone().with_sql("batch", names.text(LEASES));
        let failures = names.clone().with_sql("batch", names.text(FAILURES));
        let settle = |set: &str| failures.clone().with_sql("set", set).statement(SETTLE);

        let done = match shape.done {
            Done::Set(set) => leases.clone().with_sql("set", set).statement(SETTLE),
            Done::Delete => leases.statement(SETTLE_BY_DELETE),
        };
        let dead = match shape.dead {
            Dead::Set(set) => vec![settle(set)],
            Dead::Move(sql) if dialect == Dialect::Postgres => vec![failures.statement(sql)],
            Dead::Move(sql) => vec![failures.statement(sql), failures.statement(SETTLE_BY_DELETE)],
        };
        let turn = include_str!("../sql/postgres/work/turn.sql");
        let turn = names.clone().with_sql("done", done.as_str()).fill(turn);
        let mysql = |text: &str| {
            (dialect == Dialect::MySql).then(|| Statement::new(dialect, &leases.fill(text)))
        };
        Self {
            claim: names.statement(CLAIM),
            turn: (dialect == Dialect::Postgres).then(|| Statement::new(dialect, &turn)),
            take: mysql(include_str!("../sql/mysql/work/take.sql")),
            held: mysql(include_str!("../sql/mysql/work/held.sql")),
            done,
            retry: settle(shape.retry),
            dead,
            release: settle(shape.release),
            extend: names.statement(EXTEND),
            database,
        }
    }

    /// Settles and claims: see [`crate::WorkStore::turn`].
    pub(crate) async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error> {
        let batch = Batch::of(settled);
        let turn = match (claim, &self.turn) {
            (None, _) if settled.is_empty() => Turn::default(),
            (Some(claim), Some(turn)) if batch.is_all_done() && !settled.is_empty() => {
                self.turn_in_one(turn, batch, claim).await?
            }
            (Some(claim), _) if settled.is_empty() && self.take.is_none() => {
                Turn { claimed: self.claim_alone(claim).await?, lost: Vec::new() }
            }
            _ => self.turn_in_steps(batch, claim).await?,
        };
        settled.clear();
        Ok(turn)
    }

    /// Extends leases: see [`crate::WorkStore::extend`].
    pub(crate) async fn extend(&self, leases: &mut [&mut Lease], by: Duration) -> Result<Vec<WorkId>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let batch = lease_columns(leases.iter().map(|lease| &**lease));
        let values = vec![Value::Rows(batch.clone()), micros(by)];
        let mut session = self.database.begin().await?;
        let rows = match &self.held {
            None => session.rows(&self.extend, values).await?,
            Some(held) => {
                session.run(&self.extend, values).await?;
                session.rows(held, vec![Value::Rows(batch)]).await?
            }
        };
        session.commit().await?;
        let mut lost = Vec::new();
        let extended: std::collections::HashMap<i64, Timestamp> =
            rows.iter().map(|row| Ok((row.int(0)?, row.time(1)?))).collect::<Result<_, Error>>()?;
        for lease in leases {
            match extended.get(&lease.work().0) {
                Some(until) => lease.extend(*until),
                None => lost.push(lease.work()),
            }
        }
        Ok(lost)
    }

    /// The hot path of Postgres: one statement, one commit.
    async fn turn_in_one(&self, turn: &Statement, batch: Batch, claim: &Claim) -> Result<Turn, Error> {
        let mut values = vec![Value::Rows(batch.done)];
        values.extend(claim_values(claim));
        let rows = self.database.rows(turn, values).await?;
        let mut turn = Turn::default();
        if let Some(row) = rows.first() {
            turn.lost = row.ints(WORK_COLUMNS)?.into_iter().map(WorkId).collect();
        }
        for row in &rows {
            if !row.is_null(0)? {
                turn.claimed.push(work(row, Dialect::Postgres)?);
            }
        }
        in_order(&mut turn.claimed);
        Ok(turn)
    }

    async fn claim_alone(&self, claim: &Claim) -> Result<Vec<(Lease, Work)>, Error> {
        let _turn = self.database.writer().await;
        let rows = self.database.rows(&self.claim, claim_values(claim)).await?;
        self.claimed(&rows)
    }

    async fn turn_in_steps(&self, batch: Batch, claim: Option<&Claim>) -> Result<Turn, Error> {
        let mut session = self.database.begin().await?;
        let lost = self.settle(&mut session, batch).await?;
        let claimed = match claim {
            Some(claim) => self.claim_in(&mut session, claim).await?,
            None => Vec::new(),
        };
        session.commit().await?;
        Ok(Turn { claimed, lost })
    }

    async fn claim_in(&self, session: &mut Session, claim: &Claim) -> Result<Vec<(Lease, Work)>, Error> {
        let Some(take) = &self.take else {
            let rows = session.rows(&self.claim, claim_values(claim)).await?;
            return self.claimed(&rows);
        };
        let values = vec![micros(claim.lease), may_take_over(claim), Value::Int(i64::from(claim.limit))];
        let rows = session.rows(&self.claim, values).await?;
        let claimed = self.claimed(&rows)?;
        if !claimed.is_empty() {
            let ids = claimed.iter().map(|(lease, _)| lease.work().0).collect();
            let ids = Value::Rows(vec![Column::Ints(ids)]);
            session.run(take, vec![ids, Value::Text(claim.worker.clone()), micros(claim.lease)]).await?;
        }
        Ok(claimed)
    }

    fn claimed(&self, rows: &[Row]) -> Result<Vec<(Lease, Work)>, Error> {
        let dialect = self.database.dialect();
        let mut claimed = rows.iter().map(|row| work(row, dialect)).collect::<Result<Vec<_>, _>>()?;
        in_order(&mut claimed);
        Ok(claimed)
    }

    /// Settles every kind, and returns what was not ours any more.
    async fn settle(&self, session: &mut Session, mut batch: Batch) -> Result<Vec<WorkId>, Error> {
        let mut open = std::mem::take(&mut batch.all);
        if let (Some(held), false) = (&self.held, open.is_empty()) {
            let rows = session.rows(held, vec![Value::Rows(open.columns())]).await?;
            open.settled(&rows)?;
        }
        for (statements, rows) in [
            (std::slice::from_ref(&self.done), batch.done),
            (std::slice::from_ref(&self.retry), batch.retry),
            (&self.dead, batch.dead),
            (std::slice::from_ref(&self.release), batch.release),
        ] {
            if is_empty(&rows) {
                continue;
            }
            for (index, statement) in statements.iter().enumerate() {
                let values = vec![Value::Rows(rows.clone())];
                if self.held.is_some() {
                    session.run(statement, values).await?;
                } else {
                    let settled = session.rows(statement, values).await?;
                    if index == 0 {
                        open.settled(&settled)?;
                    }
                }
            }
        }
        Ok(open.0.into_iter().map(|(work, _)| WorkId(work)).collect())
    }
}

/// The time after the delay `s.after`, by the store's clock.
const fn after(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "now() + s.after * interval '1 microsecond'",
        Dialect::MySql => "UTC_TIMESTAMP(6) + INTERVAL s.after MICROSECOND",
        Dialect::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now', (s.after / 1000000.0) || ' seconds')",
    }
}

fn micros(duration: Duration) -> Value {
    Value::Int(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

const fn may_take_over(claim: &Claim) -> Value {
    Value::Bool(matches!(claim.take_over, TakeOver::Expired))
}

fn claim_values(claim: &Claim) -> Vec<Value> {
    let worker = Value::Text(claim.worker.clone());
    vec![worker, micros(claim.lease), may_take_over(claim), Value::Int(i64::from(claim.limit))]
}

fn in_order(claimed: &mut [(Lease, Work)]) {
    claimed.sort_unstable_by_key(|(lease, _)| lease.work());
}

/// How many columns [`work`] reads.
const WORK_COLUMNS: usize = 13;

/// Reads a claimed row: id, lease, until, origin, event type, aggregate type, key, payload, created
/// at, retry count, limit, interrupted, history.
fn work(row: &Row, dialect: Dialect) -> Result<(Lease, Work), Error> {
    let id = WorkId(row.int(0)?);
    // MySQL reads the row before it takes it: the fence is one ahead, the time is computed.
    let lease = match dialect {
        Dialect::MySql => Lease::new(id, row.int(1)? + 1, row.time(WORK_COLUMNS)?),
        Dialect::Postgres | Dialect::Sqlite => Lease::new(id, row.int(1)?, row.time(2)?),
    };
    let event = Event {
        id,
        origin: WorkId(row.int(3)?),
        event_type: row.opt_text(4)?.unwrap_or_default(),
        aggregate_type: row.opt_text(5)?.unwrap_or_default(),
        key: row.opt_text(6)?.unwrap_or_default(),
        payload: row.opt_bytes(7)?.unwrap_or_default(),
        created_at: row.time(8)?,
    };
    let work = Work {
        event,
        retry_count: row.count(9)?,
        max_retries: row.opt_int(10)?.map(|limit| u32::try_from(limit.max(0)).unwrap_or(u32::MAX)),
        interrupted: row.flag(11)?,
        history: history(row.opt_text(12)?.as_deref()),
    };
    Ok((lease, work))
}

/// A history that a person has edited into something else is worth less than the event.
pub(crate) fn history(text: Option<&str>) -> History {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn lease_columns<'a>(leases: impl Iterator<Item = &'a Lease>) -> Vec<Column> {
    let (ids, fences) = leases.map(|lease| (lease.work().0, lease.fence())).unzip();
    vec![Column::Ints(ids), Column::Ints(fences)]
}

/// The first column of a batch is its ids.
fn is_empty(columns: &[Column]) -> bool {
    match columns.first() {
        Some(Column::Ints(ids)) => ids.is_empty(),
        _ => true,
    }
}

/// The work of a batch that is not settled yet, with its fences.
#[derive(Debug, Default)]
struct Open(std::collections::BTreeMap<i64, i64>);

impl Open {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::Ints(self.0.keys().copied().collect()), Column::Ints(self.0.values().copied().collect())]
    }

    fn settled(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            self.0.remove(&row.int(0)?);
        }
        Ok(())
    }
}

/// Settlements, sorted by what they are and turned into columns.
#[derive(Debug, Default)]
struct Batch {
    all: Open,
    done: Vec<Column>,
    retry: Vec<Column>,
    dead: Vec<Column>,
    release: Vec<Column>,
}

impl Batch {
    fn of(settled: &[(Lease, Settlement)]) -> Self {
        let mut batch = [Failures::default(), Failures::default(), Failures::default()];
        let mut done = Vec::new();
        for (lease, settlement) in settled {
            match settlement {
                Settlement::Done => done.push(lease),
                Settlement::Retry { after, failed } => batch[0].push(lease, *after, Some(failed)),
                Settlement::Dead { failed } => batch[1].push(lease, Duration::ZERO, Some(failed)),
                Settlement::Release { after } => batch[2].push(lease, *after, None),
            }
        }
        let all = settled.iter().map(|(lease, _)| (lease.work().0, lease.fence())).collect();
        let [retry, dead, release] = batch.map(Failures::columns);
        Self { all: Open(all), done: lease_columns(done.into_iter()), retry, dead, release }
    }

    fn is_all_done(&self) -> bool {
        is_empty(&self.retry) && is_empty(&self.dead) && is_empty(&self.release)
    }
}

/// The columns of `batch_failures.sql`.
#[derive(Debug, Default)]
struct Failures {
    ids: Vec<i64>,
    leases: Vec<i64>,
    after: Vec<i64>,
    message: Vec<Option<String>>,
    class: Vec<Option<String>>,
    code: Vec<Option<String>>,
    kind: Vec<Option<String>>,
    fingerprint: Vec<Option<String>>,
    history: Vec<Option<String>>,
}

impl Failures {
    fn push(&mut self, lease: &Lease, after: Duration, failed: Option<&Failed>) {
        let failure = failed.map(|failed| &failed.failure);
        let code = failure.and_then(|failure| failure.code.as_ref());
        let history = failed.and_then(|failed| serde_json::to_string(&failed.history).ok());
        self.ids.push(lease.work().0);
        self.leases.push(lease.fence());
        self.after.push(i64::try_from(after.as_micros()).unwrap_or(i64::MAX));
        self.message.push(failure.map(|failure| clean(&failure.message)));
        self.class.push(failure.map(|failure| failure.class.name().to_owned()));
        self.code.push(code.map(|code| cut(&code.to_string(), 100)));
        self.kind.push(failure.map(|failure| cut(&failure.kind, 255)));
        self.fingerprint.push(failed.map(|failed| failed.fingerprint.to_string()));
        self.history.push(history);
    }

    fn columns(self) -> Vec<Column> {
        vec![
            Column::Ints(self.ids),
            Column::Ints(self.leases),
            Column::Ints(self.after),
            Column::OptTexts(self.message),
            Column::OptTexts(self.class),
            Column::OptTexts(self.code),
            Column::OptTexts(self.kind),
            Column::OptTexts(self.fingerprint),
            Column::OptTexts(self.history),
        ]
    }
}

/// As much of the text as its column holds, without the NUL that Postgres refuses.
pub(crate) fn cut(text: &str, max: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(max).collect()
}
