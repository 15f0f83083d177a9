//! The audit log: who did what, when, to how many, and why. Append-only.

use jiff::Timestamp;
use redrive_core::dead_letter::Operator;
use redrive_core::failure::clean;

use crate::adoption::Plan;
use crate::database::Database;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::row::Row;
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// One action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub id: i64,
    /// When it was done, by the store's clock.
    pub at: Timestamp,
    /// Who did it.
    pub operator: String,
    /// What was done, such as `redrive` or `resolve`.
    pub action: String,
    /// To what: a letter, a group, a pipeline.
    pub subject: String,
    /// To how many.
    pub count: u64,
    /// Why.
    pub note: String,
}

/// The audit log, in `redrive_audit`.
#[derive(Debug)]
pub struct Audit {
    database: Database,
    names: Names,
    insert: Insert,
}

const SCHEMA: Sql = sql!(each "console/audit.sql");
const COLUMNS: [(&str, Kind); 5] = [
    ("operator", Kind::Text),
    ("action", Kind::Text),
    ("subject", Kind::Text),
    ("letters", Kind::Int),
    ("note", Kind::Text),
];

impl Audit {
    /// The audit log of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let names = Names::new(database.dialect()).with("table", &database.own_table("redrive_audit"));
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

    /// Whether it can be written to, as far as one can know.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn ping(&self) -> Result<(), Error> {
        self.database.ping().await
    }

    /// Writes down what was done.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn record(
        &self,
        operator: &Operator,
        action: &str,
        subject: &str,
        count: u64,
        note: &str,
    ) -> Result<(), Error> {
        let text = |text: &str| Column::Texts(vec![clean(text)]);
        let count = Column::Ints(vec![i64::try_from(count).unwrap_or(i64::MAX)]);
        let row = vec![text(operator.name()), text(action), text(subject), count, text(note)];
        let mut session = self.database.begin().await?;
        self.insert.run(&mut session, row).await?;
        session.commit().await
    }

    /// The latest entries before this number, newest first.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Vec<Entry>, Error> {
        let text = self.names.fill(
            "SELECT id, at, operator, action, subject, letters, note FROM {table} \
             WHERE id < $1 ORDER BY id DESC LIMIT $2",
        );
        let values = vec![Value::Int(before.unwrap_or(i64::MAX)), Value::Int(i64::from(limit))];
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), values).await?;
        rows.iter().map(entry).collect()
    }
}

fn entry(row: &Row) -> Result<Entry, Error> {
    Ok(Entry {
        id: row.int(0)?,
        at: row.time(1)?,
        operator: row.text(2)?,
        action: row.text(3)?,
        subject: row.text(4)?,
        count: u64::try_from(row.int(5)?).unwrap_or(0),
        note: row.text(6)?,
    })
}
