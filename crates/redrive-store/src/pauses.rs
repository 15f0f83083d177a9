//! The pipelines that are paused, for every instance and the next start.

use std::collections::BTreeSet;

use redrive_core::dead_letter::Operator;

use crate::adoption::Plan;
use crate::database::Database;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// The pipelines that are paused, in `redrive_pause`.
#[derive(Debug)]
pub struct Pauses {
    database: Database,
    names: Names,
    insert: Insert,
}

const SCHEMA: Sql = sql!(each "console/pauses.sql");
const COLUMNS: [(&str, Kind); 2] = [("pipeline", Kind::Text), ("operator", Kind::Text)];

impl Pauses {
    /// Those of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let names = Names::new(database.dialect()).with("table", &database.own_table("redrive_pause"));
        let insert = Insert::new(&names, database.dialect(), "id", &COLUMNS, OnConflict::Skip);
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

    /// Writes down that a pipeline is paused, or no longer.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn set(&self, pipeline: &str, paused: bool, operator: &Operator) -> Result<(), Error> {
        if !paused {
            let text = self.names.fill("DELETE FROM {table} WHERE pipeline = $1");
            let statement = Statement::new(self.database.dialect(), &text);
            return self.database.change(&statement, vec![Value::Text(pipeline.to_owned())]).await.map(drop);
        }
        let text = |text: &str| Column::Texts(vec![text.to_owned()]);
        let mut session = self.database.begin().await?;
        self.insert.run(&mut session, vec![text(pipeline), text(operator.name())]).await?;
        session.commit().await
    }

    /// The pipelines that are paused.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn all(&self) -> Result<BTreeSet<String>, Error> {
        let text = self.names.fill("SELECT pipeline FROM {table}");
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), Vec::new()).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }
}
