//! What letters were before they were redriven with another payload.

use jiff::Timestamp;
use redrive_core::dead_letter::{LetterId, Operator};
use redrive_core::event::WorkId;

use crate::adoption::Plan;
use crate::database::Database;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::row::Row;
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// An edit of one letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedPayload {
    /// When it was made.
    pub at: Timestamp,
    /// Who made it.
    pub operator: String,
    /// What the letter was.
    pub original: Vec<u8>,
    /// What was sent instead.
    pub edited: Vec<u8>,
}

/// The record of edits, in `redrive_edit`.
#[derive(Debug)]
pub struct Edits {
    database: Database,
    names: Names,
    insert: Insert,
}

const SCHEMA: Sql = sql!(each "console/edits.sql");
const COLUMNS: [(&str, Kind); 4] =
    [("letter_id", Kind::Text), ("operator", Kind::Text), ("original", Kind::Bytes), ("edited", Kind::Bytes)];
/// The most edits of one letter that are shown.
const MOST: i64 = 20;

impl Edits {
    /// The record of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let names = Names::new(database.dialect()).with("table", &database.own_table("redrive_edit"));
        let insert = Insert::new(&names, database.dialect(), "id", &COLUMNS, OnConflict::Fail);
        Self { database, names, insert }
    }

    /// Makes the table if it is missing.
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

    /// Writes an edit down, before it is made; returns its number.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn record(
        &self,
        letter: &LetterId,
        operator: &Operator,
        original: &[u8],
        edited: &[u8],
    ) -> Result<WorkId, Error> {
        let row = vec![
            Column::Texts(vec![letter.to_string()]),
            Column::Texts(vec![operator.name().to_owned()]),
            Column::Bytes(vec![original.to_vec()]),
            Column::Bytes(vec![edited.to_vec()]),
        ];
        let mut session = self.database.begin().await?;
        let ids = self.insert.run(&mut session, row).await?;
        session.commit().await?;
        Ok(ids.first().copied().unwrap_or(WorkId(0)))
    }

    /// Forgets an edit that was not made after all.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn withdraw(&self, edit: WorkId) -> Result<(), Error> {
        let text = self.names.fill("DELETE FROM {table} WHERE id = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        self.database.change(&statement, vec![Value::Int(edit.0)]).await.map(drop)
    }

    /// The edits of a letter, newest first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn of(&self, letter: &LetterId) -> Result<Vec<EditedPayload>, Error> {
        let text = self.names.fill(
            "SELECT at, operator, original, edited FROM {table} WHERE letter_id = $1 ORDER BY id DESC LIMIT $2",
        );
        let values = vec![Value::Text(letter.to_string()), Value::Int(MOST)];
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), values).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<EditedPayload, Error> {
    Ok(EditedPayload {
        at: row.time(0)?,
        operator: row.text(1)?,
        original: row.bytes(2)?,
        edited: row.bytes(3)?,
    })
}
