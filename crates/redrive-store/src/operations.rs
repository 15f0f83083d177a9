//! Operations on many letters, as a ledger: what was confirmed, what is done, what is left.
//!
//! An operation first freezes its set: the ids that it was confirmed for, in portions of one pipeline each.
//! From then on newcomers stay out, and each portion is marked when it is done, so a restart goes on where it
//! was. A portion that was done and not marked is done again: the letters know the order that they were sent
//! by, and are not sent by it twice. One instance at a time works on an operation, for as long as it says so.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::dead_letter::Operator;
use redrive_core::event::WorkId;
use redrive_core::failure::clean;

use crate::adoption::Plan;
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::row::Row;
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationState {
    /// Its set is still being written down.
    Freezing,
    /// At work.
    Running,
    /// Waiting for a person, or for a store to come back.
    Paused,
    /// Every letter is dealt with.
    Finished,
    /// A person ended it.
    Cancelled,
    /// It stopped itself: what it redrove failed again.
    Stopped,
}

impl OperationState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Freezing, Self::Running, Self::Paused, Self::Finished, Self::Cancelled, Self::Stopped];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freezing => "freezing",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
        }
    }

    /// Whether it can go from here to there.
    #[must_use]
    pub const fn can_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Freezing, Self::Running | Self::Cancelled)
                | (Self::Running, Self::Paused | Self::Finished | Self::Cancelled | Self::Stopped)
                | (Self::Paused | Self::Stopped, Self::Running | Self::Cancelled)
        )
    }
}

/// An operation that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct NewOperation<'a> {
    /// What it does, such as `redrive`.
    pub action: &'a str,
    /// Whose operation it is.
    pub operator: &'a Operator,
    /// Why.
    pub note: &'a str,
    /// What it is asked for, as JSON: the filter, the rate, the ramp.
    pub request: &'a str,
    /// What makes it one request, however often it is sent.
    pub key: Option<&'a str>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// A new operation, of this number.
    New(i64),
    /// The same request came before: it is the operation of this number.
    Known(i64),
}

/// An operation and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub id: i64,
    /// What it does, such as `redrive`.
    pub action: String,
    /// Whose operation it is.
    pub operator: String,
    /// Why.
    pub note: String,
    /// What it was asked for, as JSON: the filter, the rate, the ramp.
    pub request: String,
    /// How far it is.
    pub state: OperationState,
    /// Why it is in that state, if there is more to say.
    pub reason: String,
    /// How many letters it was confirmed for.
    pub total: u64,
    /// How many are done.
    pub done: u64,
    /// How many were refused, because somebody was faster.
    pub refused: u64,
    /// How many of those that were followed have failed again.
    pub failed: u64,
    /// When it was confirmed.
    pub created_at: Timestamp,
    /// When something about it last changed.
    pub updated_at: Timestamp,
}

/// Some letters of an operation, all of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    /// Its place in the operation, from 0.
    pub number: i64,
    /// The pipeline.
    pub pipeline: String,
    /// The letters' local ids; once it is sent and followed, of those that it was done to.
    pub ids: Vec<String>,
    /// Whether its letters are followed to their outcome before the next portion.
    pub followed: bool,
    /// Whether it was sent; then it is being followed.
    pub sent: bool,
}

/// What became of a portion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many letters it was done to.
    pub done: u64,
    /// Which: those of a portion that is followed. The others have no outcome to wait for.
    pub ids: Vec<String>,
    /// How many it was not done to.
    pub refused: u64,
    /// Why not, for some of them.
    pub refusals: Vec<String>,
}

/// The ledger of operations, in `redrive_operation` and `redrive_operation_portion`.
#[derive(Debug)]
pub struct Operations {
    database: Database,
    names: Names,
    insert: Insert,
    insert_portion: Insert,
    hold: Statement,
}

const SCHEMA: Sql = sql!(each "console/operations.sql");
/// How many refusals of a portion are kept.
const REFUSALS: usize = 20;
const SELECT: &str = "SELECT o.id, o.action, o.operator, o.note, o.request, o.state, o.reason, o.created_at, o.updated_at, \
    (SELECT CAST(COALESCE(SUM(p.letters), 0) AS {whole}) FROM {portions} AS p WHERE p.operation_id = o.id), \
    (SELECT CAST(COALESCE(SUM(p.done), 0) AS {whole}) FROM {portions} AS p WHERE p.operation_id = o.id), \
    (SELECT CAST(COALESCE(SUM(p.refused), 0) AS {whole}) FROM {portions} AS p WHERE p.operation_id = o.id), \
    (SELECT CAST(COALESCE(SUM(p.failed), 0) AS {whole}) FROM {portions} AS p WHERE p.operation_id = o.id) FROM {table} AS o";
/// The states in which there is something to do.
const ACTIVE: &str = "('freezing', 'running')";

impl Operations {
    /// The ledger of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let dialect = database.dialect();
        let names = Names::new(dialect)
            .with("table", &database.own_table("redrive_operation"))
            .with("portions", &database.own_table("redrive_operation_portion"))
            .with_sql("until", dialect.after_now())
            .with_sql("whole", if dialect == Dialect::MySql { "SIGNED" } else { "BIGINT" });
        let columns = [
            ("action", Kind::Text),
            ("operator", Kind::Text),
            ("note", Kind::Text),
            ("request", Kind::Text),
            ("request_key", Kind::Text),
        ];
        let portion = [
            ("operation_id", Kind::Int),
            ("number", Kind::Int),
            ("pipeline", Kind::Text),
            ("followed", Kind::Int),
            ("letters", Kind::Int),
            ("ids", Kind::Text),
        ];
        let portion_names =
            Names::new(dialect).with("table", &database.own_table("redrive_operation_portion"));
        let hold = format!(
            "UPDATE {{table}} SET runner_until = {{until}}, runner = $2 WHERE id = $3 AND state IN {ACTIVE} \
             AND (runner IS NULL OR runner = $4 OR runner_until < {{now}})"
        );
        Self {
            insert: Insert::new(&names, dialect, "id", &columns, OnConflict::Skip),
            insert_portion: Insert::new(&portion_names, dialect, "id", &portion, OnConflict::Skip),
            hold: Statement::new(dialect, &names.fill(&hold)),
            names,
            database,
        }
    }

    /// Makes the tables if they are missing.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        schema::migrate(&self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// What a migration would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        schema::plan_of(&self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// Opens an operation, in [`OperationState::Freezing`].
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn open(&self, new: &NewOperation<'_>) -> Result<Opened, Error> {
        let text = |text: &str| Column::Texts(vec![clean(text)]);
        let row = vec![
            text(new.action),
            text(new.operator.name()),
            text(new.note),
            Column::Texts(vec![new.request.to_owned()]),
            Column::OptTexts(vec![new.key.map(clean)]),
        ];
        let mut session = self.database.begin().await?;
        let ids = self.insert.run(&mut session, row).await?;
        session.commit().await?;
        if let Some(WorkId(id)) = ids.first() {
            return Ok(Opened::New(*id));
        }
        let key = Value::Text(clean(new.key.unwrap_or_default()));
        let rows = self.rows("SELECT id FROM {table} WHERE request_key = $1", vec![key]).await?;
        rows.first().map_or(Ok(Opened::Known(0)), |row| row.int(0).map(Opened::Known))
    }

    /// Adds portions to the set of an operation; one of that number that is there already stays as it is.
    /// Says whether it did: an operation that has left [`OperationState::Freezing`] takes no newcomers.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn freeze(&self, operation: i64, portions: &[Portion]) -> Result<bool, Error> {
        let mut session = self.database.begin().await?;
        // Holds the operation's row until the commit: it cannot start to run meanwhile.
        let freezing = "UPDATE {table} SET updated_at = {now} WHERE id = $1 AND state = 'freezing'";
        if session.run(&self.statement(freezing), vec![Value::Int(operation)]).await? == 0 {
            session.commit().await?;
            return Ok(false);
        }
        let ints = |of: &dyn Fn(&Portion) -> i64| Column::Ints(portions.iter().map(of).collect());
        let texts = |of: &dyn Fn(&Portion) -> String| Column::Texts(portions.iter().map(of).collect());
        let rows = vec![
            ints(&|_| operation),
            ints(&|portion| portion.number),
            texts(&|portion| portion.pipeline.clone()),
            ints(&|portion| portion.followed.into()),
            ints(&|portion| i64::try_from(portion.ids.len()).unwrap_or(i64::MAX)),
            texts(&|portion| serde_json::to_string(&portion.ids).unwrap_or_default()),
        ];
        self.insert_portion.run(&mut session, rows).await?;
        session.commit().await?;
        Ok(true)
    }

    /// Forgets what was frozen: a freezing that was interrupted begins anew. Nothing has been sent then.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn thaw(&self, operation: i64) -> Result<(), Error> {
        let text = "DELETE FROM {portions} WHERE operation_id = $1 \
             AND EXISTS (SELECT 1 FROM {table} AS o WHERE o.id = $2 AND o.state = 'freezing')";
        self.change(text, vec![Value::Int(operation), Value::Int(operation)]).await.map(drop)
    }

    /// Moves an operation to another state, and says whether it did: a state that it cannot go to
    /// from where it is, or that it was moved from by somebody else, changes nothing.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn become_state(
        &self,
        operation: i64,
        next: OperationState,
        reason: &str,
    ) -> Result<bool, Error> {
        let from: Vec<String> = OperationState::ALL
            .into_iter()
            .filter(|state| state.can_become(next))
            .map(|state| format!("'{}'", state.name()))
            .collect();
        if from.is_empty() {
            return Ok(false);
        }
        let text = format!(
            "UPDATE {{table}} SET state = $1, reason = $2, updated_at = {{now}} WHERE id = $3 AND state IN ({})",
            from.join(", ")
        );
        let values =
            vec![Value::Text(next.name().to_owned()), Value::Text(clean(reason)), Value::Int(operation)];
        Ok(self.change(&text, values).await? > 0)
    }

    /// Says what an operation waits for, or that it goes on.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn explain(&self, operation: i64, reason: &str) -> Result<(), Error> {
        let text = format!(
            "UPDATE {{table}} SET reason = $1, updated_at = {{now}} WHERE id = $2 AND state IN {ACTIVE}"
        );
        self.change(&text, vec![Value::Text(clean(reason)), Value::Int(operation)]).await.map(drop)
    }

    /// As [`Operations::explain`], if nobody has it in hand.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn explain_unheld(&self, operation: i64, reason: &str) -> Result<(), Error> {
        let text = format!(
            "UPDATE {{table}} SET reason = $1 WHERE id = $2 AND state IN {ACTIVE} \
             AND (runner IS NULL OR runner_until < {{now}})"
        );
        self.change(&text, vec![Value::Text(clean(reason)), Value::Int(operation)]).await.map(drop)
    }

    /// Holds an operation for a while, so that nobody else works on it, and says whether that is so.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn hold(&self, operation: i64, runner: &str, duration: Duration) -> Result<bool, Error> {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let runner = Value::Text(runner.to_owned());
        let values = vec![Value::Int(micros), runner.clone(), Value::Int(operation), runner];
        Ok(self.database.change(&self.hold, values).await? > 0)
    }

    /// Lets go of every operation that this runner holds.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn let_go(&self, runner: &str) -> Result<(), Error> {
        let text = "UPDATE {table} SET runner = NULL, runner_until = NULL WHERE runner = $1";
        self.change(text, vec![Value::Text(runner.to_owned())]).await.map(drop)
    }

    /// The first portions of an operation that are not settled, so many at most.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn next(&self, operation: i64, most: usize) -> Result<Vec<Portion>, Error> {
        let text = format!(
            "SELECT number, pipeline, ids, followed, state FROM {{portions}} \
             WHERE operation_id = $1 AND state IN ('waiting', 'sent') ORDER BY number LIMIT {most}"
        );
        self.rows(&text, vec![Value::Int(operation)]).await?.iter().map(portion).collect()
    }

    /// Writes down what became of a portion; one that is followed is not settled by that, and keeps the ids of
    /// the letters that it was done to.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn sent(&self, operation: i64, portion: &Portion, sent: &Sent) -> Result<(), Error> {
        let text = "UPDATE {portions} SET done = $1, refused = $2, refusals = $3, sent_at = {now}, state = $4, \
             ids = COALESCE($5, ids) WHERE operation_id = $6 AND number = $7 AND state = 'waiting'";
        let refusals: Vec<String> = sent.refusals.iter().take(REFUSALS).map(|text| clean(text)).collect();
        let refusals = (!refusals.is_empty()).then(|| serde_json::to_string(&refusals).unwrap_or_default());
        let followed = portion.followed.then(|| serde_json::to_string(&sent.ids).unwrap_or_default());
        let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let values = vec![
            int(sent.done),
            int(sent.refused),
            Value::OptText(refusals),
            Value::Text(if portion.followed { "sent" } else { "settled" }.to_owned()),
            Value::OptText(followed),
            Value::Int(operation),
            Value::Int(portion.number),
        ];
        self.change(text, values).await?;
        self.touch(operation).await
    }

    /// Settles a portion that was followed: so many of its letters have failed again.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn settled(&self, operation: i64, number: i64, failed: u64) -> Result<(), Error> {
        let text = "UPDATE {portions} SET state = 'settled', failed = $1 \
             WHERE operation_id = $2 AND number = $3 AND state IN ('sent', 'settled')";
        let failed = Value::Int(i64::try_from(failed).unwrap_or(i64::MAX));
        self.change(text, vec![failed, Value::Int(operation), Value::Int(number)]).await?;
        self.touch(operation).await
    }

    /// Some of the letters that an operation was not done to, with the reasons.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn refusals(&self, operation: i64) -> Result<Vec<String>, Error> {
        let text =
            "SELECT refusals FROM {portions} WHERE operation_id = $1 AND refused > 0 ORDER BY number LIMIT 5";
        let rows = self.rows(text, vec![Value::Int(operation)]).await?;
        let mut refusals = Vec::new();
        for row in &rows {
            let text = row.opt_text(0)?.unwrap_or_default();
            refusals.extend(serde_json::from_str::<Vec<String>>(&text).unwrap_or_default());
        }
        refusals.truncate(REFUSALS);
        Ok(refusals)
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn get(&self, operation: i64) -> Result<Option<Operation>, Error> {
        let rows = self.rows(&format!("{SELECT} WHERE o.id = $1"), vec![Value::Int(operation)]).await?;
        rows.first().map(read).transpose()
    }

    /// The latest operations before this number, newest first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Vec<Operation>, Error> {
        let text = format!("{SELECT} WHERE o.id < $1 ORDER BY o.id DESC LIMIT $2");
        let values = vec![Value::Int(before.unwrap_or(i64::MAX)), Value::Int(i64::from(limit))];
        self.rows(&text, values).await?.iter().map(read).collect()
    }

    /// The operations in which there is something to do, oldest first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn active(&self) -> Result<Vec<Operation>, Error> {
        let text = format!("{SELECT} WHERE o.state IN {ACTIVE} ORDER BY o.id");
        self.rows(&text, Vec::new()).await?.iter().map(read).collect()
    }

    async fn touch(&self, operation: i64) -> Result<(), Error> {
        let text = "UPDATE {table} SET updated_at = {now} WHERE id = $1";
        self.change(text, vec![Value::Int(operation)]).await.map(drop)
    }

    fn statement(&self, text: &str) -> Statement {
        Statement::new(self.database.dialect(), &self.names.fill(text))
    }

    async fn rows(&self, text: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.database.rows(&self.statement(text), values).await
    }

    async fn change(&self, text: &str, values: Vec<Value>) -> Result<u64, Error> {
        self.database.change(&self.statement(text), values).await
    }
}

fn portion(row: &Row) -> Result<Portion, Error> {
    Ok(Portion {
        number: row.int(0)?,
        pipeline: row.text(1)?,
        ids: row.json(2)?,
        followed: row.int(3)? != 0,
        sent: row.text(4)? == "sent",
    })
}

fn read(row: &Row) -> Result<Operation, Error> {
    let state = row.text(5)?;
    Ok(Operation {
        id: row.int(0)?,
        action: row.text(1)?,
        operator: row.text(2)?,
        note: row.text(3)?,
        request: row.text(4)?,
        state: OperationState::ALL
            .into_iter()
            .find(|known| known.name() == state)
            .unwrap_or(OperationState::Paused),
        reason: row.opt_text(6)?.unwrap_or_default(),
        created_at: row.time(7)?,
        updated_at: row.time(8)?,
        total: row.total(9)?,
        done: row.total(10)?,
        refused: row.total(11)?,
        failed: row.total(12)?,
    })
}
