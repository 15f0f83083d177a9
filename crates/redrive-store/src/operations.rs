//! Operations on many letters, as a ledger: what was confirmed, what is done, what is left.
//!
//! An operation first freezes its set: the ids that it was confirmed for. From then on newcomers stay
//! out, and each id is marked when it is done, so a restart goes on where it was.

use jiff::Timestamp;
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_core::event::WorkId;
use redrive_core::failure::clean;

use crate::database::Database;
use crate::error::{Error, again};
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
    /// When it was confirmed.
    pub created_at: Timestamp,
}

/// The ledger of operations, in `redrive_operation` and `redrive_operation_item`.
#[derive(Debug)]
pub struct Operations {
    database: Database,
    names: Names,
    insert: Insert,
    insert_items: Insert,
    mark: Statement,
}

const SCHEMA: Sql = sql!(each "console/operations.sql");
const MARK: Sql = sql!(each "console/mark.sql");
/// The most letters that one statement freezes or marks; refusals may be long.
const CHUNK: usize = 500;
const SELECT: &str = "SELECT o.id, o.action, o.operator, o.note, o.request, o.state, o.reason, o.created_at, \
    (SELECT count(*) FROM {items} AS i WHERE i.operation_id = o.id), \
    (SELECT count(*) FROM {items} AS i WHERE i.operation_id = o.id AND i.outcome = 'done'), \
    (SELECT count(*) FROM {items} AS i WHERE i.operation_id = o.id AND i.outcome = 'refused') FROM {table} AS o";

impl Operations {
    /// The ledger of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let dialect = database.dialect();
        let names =
            Names::new(dialect).with("table", "redrive_operation").with("items", "redrive_operation_item");
        let columns =
            [("action", Kind::Text), ("operator", Kind::Text), ("note", Kind::Text), ("request", Kind::Text)];
        let items = [("operation_id", Kind::Int), ("letter_id", Kind::Text)];
        let item_names = Names::new(dialect).with("table", "redrive_operation_item");
        Self {
            insert: Insert::new(&names, dialect, "id", &columns, OnConflict::Fail),
            insert_items: Insert::new(&item_names, dialect, "id", &items, OnConflict::Skip),
            mark: names.statement(MARK),
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

    /// Opens an operation, in [`OperationState::Freezing`].
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn open(
        &self,
        action: &str,
        operator: &Operator,
        note: &str,
        request: &str,
    ) -> Result<i64, Error> {
        let text = |text: &str| Column::Texts(vec![clean(text)]);
        let row =
            vec![text(action), text(operator.name()), text(note), Column::Texts(vec![request.to_owned()])];
        let mut session = self.database.begin().await?;
        let ids = self.insert.run(&mut session, row).await?;
        session.commit().await?;
        Ok(ids.first().map_or(0, |WorkId(id)| *id))
    }

    /// Adds letters to the set of an operation; one that is in it already stays in it once. Says
    /// whether it did: an operation that has left [`OperationState::Freezing`] takes no newcomers.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn freeze(&self, operation: i64, letters: &[LetterId]) -> Result<bool, Error> {
        again(move || self.freeze_all(operation, letters)).await
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
        let text = self.names.fill(&format!(
            "UPDATE {{table}} SET state = $1, reason = $2, updated_at = {{now}} WHERE id = $3 AND state IN ({})",
            from.join(", ")
        ));
        let values =
            vec![Value::Text(next.name().to_owned()), Value::Text(clean(reason)), Value::Int(operation)];
        Ok(self.database.change(&Statement::new(self.database.dialect(), &text), values).await? > 0)
    }

    /// The next letters of an operation that nothing has been done about, oldest entry first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn next(&self, operation: i64, limit: u32) -> Result<Vec<LetterId>, Error> {
        let text = self.names.fill(
            "SELECT letter_id FROM {items} WHERE operation_id = $1 AND outcome = 'waiting' ORDER BY id LIMIT $2",
        );
        let values = vec![Value::Int(operation), Value::Int(i64::from(limit))];
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), values).await?;
        let ids = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Marks letters as done, or as refused with the reason.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn mark(&self, operation: i64, letters: &[(LetterId, Option<String>)]) -> Result<(), Error> {
        again(move || self.mark_all(operation, letters)).await
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn get(&self, operation: i64) -> Result<Option<Operation>, Error> {
        let text = self.names.fill(&format!("{SELECT} WHERE o.id = $1"));
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(operation)]).await?;
        rows.first().map(read).transpose()
    }

    /// The latest operations, newest first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn list(&self, limit: u32) -> Result<Vec<Operation>, Error> {
        let text = self.names.fill(&format!("{SELECT} ORDER BY o.id DESC LIMIT $1"));
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(i64::from(limit))]).await?;
        rows.iter().map(read).collect()
    }
}

impl Operations {
    async fn freeze_all(&self, operation: i64, letters: &[LetterId]) -> Result<bool, Error> {
        let mut session = self.database.begin().await?;
        // Holds the operation's row until the commit: it cannot start to run meanwhile.
        let freezing = "UPDATE {table} SET updated_at = {now} WHERE id = $1 AND state = 'freezing'";
        let freezing = Statement::new(self.database.dialect(), &self.names.fill(freezing));
        if session.run(&freezing, vec![Value::Int(operation)]).await? == 0 {
            session.commit().await?;
            return Ok(false);
        }
        for chunk in letters.chunks(CHUNK) {
            let ids = chunk.iter().map(ToString::to_string).collect();
            let rows = vec![Column::Ints(vec![operation; chunk.len()]), Column::Texts(ids)];
            self.insert_items.run(&mut session, rows).await?;
        }
        session.commit().await?;
        Ok(true)
    }

    async fn mark_all(&self, operation: i64, letters: &[(LetterId, Option<String>)]) -> Result<(), Error> {
        let outcome = |refusal: &Option<String>| if refusal.is_none() { "done" } else { "refused" };
        let mut session = self.database.begin().await?;
        for chunk in letters.chunks(CHUNK) {
            let rows = vec![
                Column::Texts(chunk.iter().map(|(letter, _)| letter.to_string()).collect()),
                Column::Texts(chunk.iter().map(|(_, refusal)| outcome(refusal).to_owned()).collect()),
                Column::OptTexts(chunk.iter().map(|(_, refusal)| refusal.as_deref().map(clean)).collect()),
            ];
            session.run(&self.mark, vec![Value::Rows(rows), Value::Int(operation)]).await?;
        }
        session.commit().await
    }
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
        reason: row.text(6)?,
        created_at: row.time(7)?,
        total: row.total(8)?,
        done: row.total(9)?,
        refused: row.total(10)?,
    })
}
