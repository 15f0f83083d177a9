//! Work in a SQL table: claim, settle and extend, the same for every table that holds work.
//!
//! A table holds work when it has the columns `due_at`, `lease`, `leased_by` and `interrupted`.
//! `due_at` says when it may be claimed next: for waiting work when it is due, for leased work when
//! the lease runs out. So one index answers "what may I take", and nobody has to move rows about.
//! Every settlement repeats the fence: `… WHERE id = ? AND lease = ?`, and the work must still be held.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::event::{Event, WorkId};
use redrive_core::history::History;
use redrive_core::lease::{Lease, Settlement, Work};

use crate::adoption;
use crate::batch::{Batch, Open, cut, micros};
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::{Error, again};
use crate::floor::Floor;
use crate::row::{Row, Times};
use crate::session::Session;
use crate::shape::{Dead, Done, Shape};
use crate::statement::{Names, Sql, Statement, parameters_after, sql};
use crate::value::{Column, Leases, Value};
use crate::work::{Claim, TakeOver, Turn};

/// The statements of one table that holds work.
#[derive(Debug)]
pub(crate) struct Queue {
    database: Database,
    created: Times,
    /// Postgres only: where claims begin.
    floor: Option<Floor>,
    claim: Statement,
    /// Postgres only, where order does not matter: settle and claim in one.
    turn: Option<Statement>,
    /// SQLite only, which hands every row from thread to thread: settles without saying what.
    done_unsaid: Option<Statement>,
    /// MySQL only: the second half of a claim, and the look at what is still held.
    take: Option<Statement>,
    held: Option<Statement>,
    done: Statement,
    retry: Statement,
    dead: Vec<Statement>,
    release: Statement,
    extend: Statement,
    /// Extends what nobody has locked: on Postgres in one statement, on MySQL after this look at what that is. SQLite
    /// locks no rows.
    extend_unlocked: Option<Statement>,
    held_unlocked: Option<Statement>,
    recall: Statement,
    unexpired: Statement,
    backlog: Statement,
}

/// What was claimed, after how urgent it is: the lower, the more.
type Ranked = (i64, (Lease, Work));

/// A claim, and what its statement is told.
struct Taking<'a> {
    claim: &'a Claim,
    values: Vec<Value>,
}

/// `due_at` once more: where MySQL's claim says until when.
const RECALL: &str =
    "SELECT {work}, due_at FROM {table} AS e WHERE e.{id} = $1 AND e.lease = $2 AND {live} AND {leased}";
const CLAIM: Sql = sql!(each "work/claim.sql");
const SETTLE: Sql = sql!(each "work/settle.sql");
const SETTLE_BY_DELETE: Sql = sql!(each "work/settle_by_delete.sql");
const EXTEND: Sql = sql!(each "work/extend.sql");
const UNEXPIRED: Sql = sql!(each "work/unexpired.sql");
const LEASES: Sql = sql!(each "work/batch_leases.sql");
const FAILURES: Sql = sql!(each "work/batch_failures.sql");

impl Queue {
    /// The queue in `{table}` of the names.
    pub(crate) fn new(database: Database, names: &Names, shape: &Shape) -> Self {
        let dialect = database.dialect();
        let names = shape.names(dialect, names);
        let floor = (dialect == Dialect::Postgres && shape.order.contains("due_at"))
            .then(|| Floor::new(&names, shape.order));
        let condition = |before| floor.as_ref().map(|floor| floor.condition(before)).unwrap_or_default();
        let names = names.with_sql("claim_floor", &condition(4)).with_sql("turn_floor", &condition(24));
        let names = names.with_sql("representable", "");
        let unsaid = names.clone().with_sql("returning", "");
        let names = names.with_sql("returning", "RETURNING {id}");
        let leases = names.clone().with_sql("batch", names.text(LEASES));
        let failures = names.clone().with_sql("batch", names.text(FAILURES));
        let settle = |set: &str| failures.clone().with_sql("set", set).statement(SETTLE);

        let settle_done = |leases: &Names| match shape.done {
            Done::Set(set) => leases.clone().with_sql("set", set).statement(SETTLE),
            Done::Delete => leases.statement(SETTLE_BY_DELETE),
        };
        let done = settle_done(&leases);
        let unsaid = unsaid.clone().with_sql("batch", unsaid.text(LEASES));
        let dead = match shape.dead {
            Dead::Set(set) => vec![settle(set)],
            Dead::Move(sql) if dialect == Dialect::Postgres => {
                vec![Statement::new(
                    dialect,
                    &format!("WITH {} SELECT done_id FROM dead", failures.fill(sql.postgres)),
                )]
            }
            Dead::Move(sql) => vec![failures.statement(sql), leases.statement(SETTLE_BY_DELETE)],
        };
        let retry = settle(shape.retry);
        let dead_parts = match shape.dead {
            Dead::Set(set) => format!("dead AS ({})", settle(set).as_str()),
            Dead::Move(sql) => failures.fill(names.text(sql)),
        };
        let turn = names
            .clone()
            .with_sql("done", done.as_str())
            .with_sql("retry", &parameters_after(2, retry.as_str()))
            .with_sql("dead", &parameters_after(11, &dead_parts))
            .fill(include_str!("../sql/postgres/work/turn.sql"));
        // In one statement the claim does not see what is settled beside it, and so would not find
        // what waits for that.
        let one_turn = dialect == Dialect::Postgres && shape.in_order.is_empty();
        let mysql =
            |text: &str| (dialect == Dialect::MySql).then(|| Statement::new(dialect, &leases.fill(text)));
        Self {
            created: shape.created,
            floor,
            claim: names.statement(CLAIM),
            turn: one_turn.then(|| Statement::new(dialect, &turn)),
            done_unsaid: (dialect == Dialect::Sqlite).then(|| settle_done(&unsaid)),
            take: mysql(include_str!("../sql/mysql/work/take.sql")),
            held: mysql(include_str!("../sql/mysql/work/held.sql")),
            done,
            retry,
            dead,
            release: settle(shape.release),
            extend: names.statement(EXTEND),
            extend_unlocked: (dialect == Dialect::Postgres).then(|| {
                Statement::new(dialect, &names.fill(include_str!("../sql/postgres/work/extend_unlocked.sql")))
            }),
            held_unlocked: mysql(include_str!("../sql/mysql/work/held_unlocked.sql")),
            recall: Statement::new(dialect, &names.fill(RECALL)),
            unexpired: names.statement(UNEXPIRED),
            backlog: Statement::new(dialect, &names.fill("SELECT count(*) FROM {table} AS e WHERE {live}")),
            database,
        }
    }

    /// The text of each statement by its name, so that a test can ask the database for its plan.
    pub(crate) fn statements(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("claim", Some(&self.claim)),
            ("turn", self.turn.as_ref()),
            ("take", self.take.as_ref()),
            ("held", self.held.as_ref()),
            ("done", Some(&self.done)),
            ("retry", Some(&self.retry)),
            ("dead", self.dead.last()),
            ("release", Some(&self.release)),
            ("extend", Some(&self.extend)),
            ("backlog", Some(&self.backlog)),
        ];
        all.into_iter().filter_map(|(name, statement)| Some((name, statement?.as_str().to_owned()))).collect()
    }

    /// Settles and claims: see [`crate::WorkStore::turn`].
    pub(crate) async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error> {
        let batch = &Batch::of(settled);
        let taking = self.taking(claim).await?;
        let taking = taking.as_ref();
        let one = self.turn.as_ref().zip(batch.for_one_statement());
        let turn = match (taking, &one) {
            (None, _) if settled.is_empty() => Turn::default(),
            (Some(taking), _) if settled.is_empty() && self.take.is_none() => {
                Turn { claimed: self.claim_alone(taking).await?, lost: Vec::new() }
            }
            (Some(taking), Some((turn, settled))) => {
                again(move || self.turn_in_one(turn, settled, taking)).await?
            }
            _ => match again(move || self.turn_of_holder(batch, taking)).await? {
                Some(turn) => turn,
                None => again(move || self.turn_in_steps(batch, taking)).await?,
            },
        };
        settled.clear();
        if let (Some(claim), Some(floor)) = (claim, &self.floor) {
            // A batch of nothing is not full: the rows that are left may all be leased, and due later than what comes back.
            floor.claimed(!turn.claimed.is_empty() && turn.claimed.len() >= claim.limit as usize);
        }
        Ok(turn)
    }

    /// What the claim's statement is told.
    async fn taking<'a>(&self, claim: Option<&'a Claim>) -> Result<Option<Taking<'a>>, Error> {
        let Some(claim) = claim else { return Ok(None) };
        let limit = Value::Int(i64::from(claim.limit));
        let mut values = vec![Value::Text(worker(claim)), micros(claim.lease), may_take_over(claim), limit];
        if let Some(floor) = &self.floor {
            values.extend(floor.values(&self.database).await?);
        }
        Ok(Some(Taking { claim, values }))
    }

    /// Extends leases: see [`crate::WorkStore::extend`].
    pub(crate) async fn extend(&self, leases: &mut [&mut Lease], by: Duration) -> Result<Vec<WorkId>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let batch = &Leases::of(leases.iter().map(|lease| &**lease));
        Ok(apply(leases, &again(move || self.extend_rows(batch, by)).await?))
    }

    /// Extends what nobody has locked: see [`crate::WorkStore::extend_unlocked`].
    pub(crate) async fn extend_unlocked(
        &self,
        leases: &mut [&mut Lease],
        by: Duration,
    ) -> Result<Vec<WorkId>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let batch = &Leases::of(leases.iter().map(|lease| &**lease));
        Ok(apply(leases, &again(move || self.extend_unlocked_rows(batch, by)).await?))
    }

    async fn extend_unlocked_rows(
        &self,
        batch: &Leases,
        by: Duration,
    ) -> Result<HashMap<(i64, i64), Timestamp>, Error> {
        let mut session = self.database.begin().await?;
        let values = vec![Value::Leases(batch.clone()), micros(by)];
        let extended = match (&self.extend_unlocked, &self.held_unlocked) {
            (Some(extend), _) => extended(&session.rows(extend, values).await?)?,
            (None, Some(held)) => {
                let rows = session.rows(held, vec![Value::Leases(batch.clone())]).await?;
                let ours = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?)));
                let mut ours = ours.collect::<Result<Vec<_>, Error>>()?;
                ours.sort_unstable();
                self.extend_in(&mut session, &ours.into_iter().collect(), by).await?
            }
            (None, None) => self.extend_in(&mut session, batch, by).await?,
        };
        session.commit().await?;
        Ok(extended)
    }

    /// How much waits or is being done: see [`crate::WorkStore::backlog`].
    pub(crate) async fn backlog(&self) -> Result<u64, Error> {
        let rows = self.database.rows(&self.backlog, Vec::new()).await?;
        rows.first().map_or(Ok(0), |row| row.total(0))
    }

    /// The work under a lease: see [`crate::WorkStore::recall`].
    pub(crate) async fn recall(&self, lease: &Lease) -> Result<Option<Work>, Error> {
        let values = vec![Value::Int(lease.work().0), Value::Int(lease.fence())];
        let rows = self.database.rows(&self.recall, values).await?;
        let found = rows.first().map(|row| self.work(row)).transpose()?;
        Ok(found.map(|(_, found)| Work { interrupted: false, ..found }))
    }

    /// Settles under a lease that has not run out: see [`crate::WorkStore::settle_unexpired`].
    pub(crate) async fn settle_unexpired(&self, lease: Lease, settlement: Settlement) -> Result<bool, Error> {
        let batch = &Batch::of(&[(lease, settlement)]);
        again(move || self.settle_if_unexpired(batch)).await
    }

    /// Extends a lease that has not run out: see [`crate::WorkStore::extend_unexpired`].
    pub(crate) async fn extend_unexpired(&self, lease: &mut Lease, by: Duration) -> Result<bool, Error> {
        let batch = &Leases::of(std::iter::once(&*lease));
        let Some(until) = again(move || self.extend_if_unexpired(batch, by)).await? else { return Ok(false) };
        lease.extend(until);
        Ok(true)
    }

    async fn settle_if_unexpired(&self, batch: &Batch) -> Result<bool, Error> {
        let mut session = self.database.begin().await?;
        if !self.lock_unexpired(&mut session, &batch.open.leases()).await? {
            return session.roll_back().await.map(|()| false);
        }
        let open = self.settle(&mut session, batch).await?;
        session.commit().await?;
        Ok(open.is_empty())
    }

    async fn extend_if_unexpired(&self, batch: &Leases, by: Duration) -> Result<Option<Timestamp>, Error> {
        let mut session = self.database.begin().await?;
        if !self.lock_unexpired(&mut session, batch).await? {
            return session.roll_back().await.map(|()| None);
        }
        let extended = self.extend_in(&mut session, batch, by).await?;
        session.commit().await?;
        Ok(extended.into_values().next())
    }

    /// Whether the only lease of this batch has not run out; then nobody takes the work over before the commit.
    async fn lock_unexpired(&self, session: &mut Session, batch: &Leases) -> Result<bool, Error> {
        let (Some(id), Some(fence)) = (batch.ids.first(), batch.fences.first()) else { return Ok(false) };
        let rows = session.rows(&self.unexpired, vec![Value::Int(*id), Value::Int(*fence)]).await?;
        Ok(!rows.is_empty())
    }

    /// The hot path of Postgres: one statement, one commit.
    async fn turn_in_one(
        &self,
        turn: &Statement,
        settled: &[Value; 3],
        taking: &Taking<'_>,
    ) -> Result<Turn, Error> {
        let values = settled.iter().chain(&taking.values).cloned().collect();
        let read = |row: Row| match row.opt_int(WORK_COLUMNS)? {
            Some(id) => Ok(Err(WorkId(id))),
            None => self.ranked(&row).map(Ok),
        };
        let rows = self.database.session().await?.read(turn, values, read).await?;
        let mut lost = Vec::new();
        let claimed = rows.into_iter().filter_map(|row| row.map_err(|id| lost.push(id)).ok()).collect();
        lost.sort_unstable();
        Ok(Turn { claimed: in_order(claimed), lost })
    }

    /// The hot path of SQLite: nobody is told row by row that everything was still held. Nothing
    /// happens, and nothing is returned, when something was not.
    async fn turn_of_holder(
        &self,
        batch: &Batch,
        taking: Option<&Taking<'_>>,
    ) -> Result<Option<Turn>, Error> {
        let Some(done) = self.done_unsaid.as_ref().filter(|_| batch.is_all_done()) else { return Ok(None) };
        let mut session = self.database.begin().await?;
        let settled = session.run(done, vec![Value::Leases(batch.done.clone())]).await?;
        if settled != batch.open.len() {
            return session.roll_back().await.map(|()| None);
        }
        let claimed = match taking {
            Some(taking) => self.claim_in(&mut session, taking).await?,
            None => Vec::new(),
        };
        session.commit().await?;
        Ok(Some(Turn { claimed, lost: Vec::new() }))
    }

    async fn claim_alone(&self, taking: &Taking<'_>) -> Result<Vec<(Lease, Work)>, Error> {
        let _turn = self.database.writer().await?;
        self.claimed(&mut self.database.session().await?, taking.values.clone()).await
    }

    async fn turn_in_steps(&self, batch: &Batch, taking: Option<&Taking<'_>>) -> Result<Turn, Error> {
        let mut session = self.database.begin().await?;
        let lost = self.settle(&mut session, batch).await?.into_lost();
        let claimed = match taking {
            Some(taking) => self.claim_in(&mut session, taking).await?,
            None => Vec::new(),
        };
        session.commit().await?;
        Ok(Turn { claimed, lost })
    }

    async fn claim_in(
        &self,
        session: &mut Session,
        taking: &Taking<'_>,
    ) -> Result<Vec<(Lease, Work)>, Error> {
        let Some(take) = &self.take else {
            return self.claimed(session, taking.values.clone()).await;
        };
        let claim = taking.claim;
        let values = vec![micros(claim.lease), may_take_over(claim), Value::Int(i64::from(claim.limit))];
        let claimed = self.claimed(session, values).await?;
        if !claimed.is_empty() {
            let ids = claimed.iter().map(|(lease, _)| lease.work().0).collect();
            let ids = Value::Rows(vec![Column::Ints(ids)]);
            session.run(take, vec![ids, Value::Text(worker(claim)), micros(claim.lease)]).await?;
        }
        Ok(claimed)
    }

    async fn claimed(&self, session: &mut Session, values: Vec<Value>) -> Result<Vec<(Lease, Work)>, Error> {
        Ok(in_order(session.read(&self.claim, values, |row| self.ranked(&row)).await?))
    }

    /// Settles every kind, and returns what was not ours any more.
    async fn settle(&self, session: &mut Session, batch: &Batch) -> Result<Open, Error> {
        let mut open = batch.open.clone();
        if let (Some(held), false) = (&self.held, open.is_empty()) {
            let rows = session.rows(held, vec![Value::Leases(open.leases())]).await?;
            open.settled(&rows)?;
        }
        if !batch.done.is_empty() {
            let done = Value::Leases(batch.done.clone());
            self.settle_rows(session, &self.done, done, &mut open).await?;
        }
        for (statements, kind) in [
            (std::slice::from_ref(&self.retry), &batch.retry),
            (&self.dead, &batch.dead),
            (std::slice::from_ref(&self.release), &batch.release),
        ] {
            for rows in kind {
                let [first, then @ ..] = statements else { continue };
                let moved =
                    self.settle_rows(session, first, Value::Kept(Arc::clone(rows)), &mut open).await?;
                // The second statement of a move deletes: numbers and fences are all that it needs.
                for statement in then {
                    let deleted =
                        session.run(statement, vec![Value::Leases(Leases::of_failures(rows))]).await?;
                    adoption::none_dropped("dead letters", moved, deleted)?;
                }
            }
        }
        Ok(open)
    }

    async fn settle_rows(
        &self,
        session: &mut Session,
        statement: &Statement,
        rows: Value,
        open: &mut Open,
    ) -> Result<u64, Error> {
        if self.held.is_some() {
            return session.run(statement, vec![rows]).await;
        }
        let settled = session.rows(statement, vec![rows]).await?;
        open.settled(&settled)?;
        Ok(settled.len() as u64)
    }

    async fn extend_rows(
        &self,
        batch: &Leases,
        by: Duration,
    ) -> Result<HashMap<(i64, i64), Timestamp>, Error> {
        let mut session = self.database.begin().await?;
        let extended = self.extend_in(&mut session, batch, by).await?;
        session.commit().await?;
        Ok(extended)
    }

    async fn extend_in(
        &self,
        session: &mut Session,
        batch: &Leases,
        by: Duration,
    ) -> Result<HashMap<(i64, i64), Timestamp>, Error> {
        let values = vec![Value::Leases(batch.clone()), micros(by)];
        let rows = match &self.held {
            None => session.rows(&self.extend, values).await?,
            Some(held) => {
                session.run(&self.extend, values).await?;
                session.rows(held, vec![Value::Leases(batch.clone())]).await?
            }
        };
        extended(&rows)
    }

    fn ranked(&self, row: &Row) -> Result<Ranked, Error> {
        Ok((row.int(WORK_COLUMNS - 1)?, self.work(row)?))
    }

    /// Reads a claimed row: id, lease, until, origin, event type, aggregate type, key, payload,
    /// created at, retry count, limit, interrupted, history, rank.
    fn work(&self, row: &Row) -> Result<(Lease, Work), Error> {
        let id = WorkId(row.int(0)?);
        // MySQL reads the row before it takes it: the fence is one ahead, the time is computed.
        let lease = match self.database.dialect() {
            Dialect::MySql => Lease::new(id, row.int(1)? + 1, row.time(WORK_COLUMNS)?),
            Dialect::Postgres | Dialect::Sqlite => Lease::new(id, row.int(1)?, row.time(2)?),
        };
        let event = Event {
            id,
            origin: WorkId(row.int(3)?),
            event_type: row.text(4)?,
            aggregate_type: row.text(5)?,
            key: row.text(6)?,
            payload: row.bytes(7)?,
            created_at: row.time_of(self.created, 8)?,
            attempt: row.count(9)?.saturating_add(1),
        };
        let work = Work {
            event,
            retry_count: row.count(9)?,
            max_retries: row.opt_int(10)?.map(|limit| u32::try_from(limit.max(0)).unwrap_or(u32::MAX)),
            interrupted: row.flag(11)?,
            history: row.opt_text(12)?.map_or_else(History::default, |text| history(&text)),
        };
        Ok((lease, work))
    }
}

/// [`crate::WorkStore`] for a store with a `queue()`, and with `refused()`, which is called when a statement was refused;
/// `announced` where a trigger announces inserts on the channel that the store names.
macro_rules! work_store {
    ($store:ty, announced) => {
        $crate::queue::work_store!($store, {
            fn announcements(&self) -> Option<$crate::work::Announcements> {
                $crate::work::Announcements::of(&self.database, self.channel())
            }
        });
    };
    ($store:ty) => {
        $crate::queue::work_store!($store, {});
    };
    ($store:ty, { $($announcements:item)* }) => {
        #[async_trait::async_trait]
        impl $crate::work::WorkStore for $store {
            async fn turn(
                &self,
                settled: &mut Vec<(redrive_core::lease::Lease, redrive_core::lease::Settlement)>,
                claim: Option<&$crate::work::Claim>,
            ) -> Result<$crate::work::Turn, $crate::error::Error> {
                let turn = self.queue().await?.turn(settled, claim).await;
                if matches!(turn, Err($crate::error::Error::Rejected { .. })) {
                    self.refused();
                }
                turn
            }

            async fn extend(
                &self,
                leases: &mut [&mut redrive_core::lease::Lease],
                lease: std::time::Duration,
            ) -> Result<Vec<redrive_core::event::WorkId>, $crate::error::Error> {
                self.queue().await?.extend(leases, lease).await
            }

            async fn extend_unlocked(
                &self,
                leases: &mut [&mut redrive_core::lease::Lease],
                lease: std::time::Duration,
            ) -> Result<Vec<redrive_core::event::WorkId>, $crate::error::Error> {
                self.queue().await?.extend_unlocked(leases, lease).await
            }

            async fn recall(
                &self,
                lease: &redrive_core::lease::Lease,
            ) -> Result<Option<redrive_core::lease::Work>, $crate::error::Error> {
                self.queue().await?.recall(lease).await
            }

            async fn settle_unexpired(
                &self,
                lease: redrive_core::lease::Lease,
                settlement: redrive_core::lease::Settlement,
            ) -> Result<bool, $crate::error::Error> {
                self.queue().await?.settle_unexpired(lease, settlement).await
            }

            async fn extend_unexpired(
                &self,
                lease: &mut redrive_core::lease::Lease,
                by: std::time::Duration,
            ) -> Result<bool, $crate::error::Error> {
                self.queue().await?.extend_unexpired(lease, by).await
            }

            async fn backlog(&self) -> Result<u64, $crate::error::Error> {
                self.queue().await?.backlog().await
            }

            $($announcements)*
        }

        impl $store {
            /// The text of each statement that works on the queue, by name; for tests of their plans.
            #[doc(hidden)]
            ///
            /// # Errors
            /// [`crate::Error`] when the store cannot be reached.
            pub async fn statement_texts(&self) -> Result<Vec<(&'static str, String)>, $crate::error::Error> {
                Ok(self.queue().await?.statements())
            }
        }
    };
}
pub(crate) use work_store;

/// Until when each lease is extended, by number and fence.
fn extended(rows: &[Row]) -> Result<HashMap<(i64, i64), Timestamp>, Error> {
    rows.iter().map(|row| Ok(((row.int(0)?, row.int(1)?), row.time(2)?))).collect()
}

/// Extends these leases as the store did, and returns the work of the others.
fn apply(leases: &mut [&mut Lease], extended: &HashMap<(i64, i64), Timestamp>) -> Vec<WorkId> {
    let mut others = Vec::new();
    for lease in leases {
        match extended.get(&(lease.work().0, lease.fence())) {
            Some(until) => lease.extend(*until),
            None => others.push(lease.work()),
        }
    }
    others
}

const fn may_take_over(claim: &Claim) -> Value {
    Value::Bool(matches!(claim.take_over, TakeOver::Expired))
}

/// The worker's name, as far as `leased_by` holds it.
fn worker(claim: &Claim) -> String {
    cut(&claim.worker, 100)
}

/// The most urgent first, then by number: a database returns what it changed in any order.
fn in_order(mut claimed: Vec<Ranked>) -> Vec<(Lease, Work)> {
    claimed.sort_unstable_by_key(|(rank, (lease, _))| (*rank, lease.work()));
    claimed.into_iter().map(|(_, work)| work).collect()
}

/// How many columns [`Queue::work`] reads.
const WORK_COLUMNS: usize = 14;

/// A history that a person has edited into something else is worth less than the event.
pub(crate) fn history(text: &str) -> History {
    serde_json::from_str(text).unwrap_or_default()
}
