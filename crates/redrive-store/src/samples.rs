//! The points of charts, as each instance sampled them, for every instance and the next start.

use jiff::Timestamp;

use crate::adoption::Plan;
use crate::database::Database;
use crate::error::{Error, again};
use crate::insert::{Insert, Kind, OnConflict};
use crate::row::Row;
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// What one instance sampled of one pipeline within a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The pipeline.
    pub pipeline: String,
    /// The instance.
    pub instance: String,
    /// When the minute began.
    pub began_at: Timestamp,
    /// The points, as JSON.
    pub points: String,
}

/// The samples of every instance, in `redrive_sample`.
#[derive(Debug)]
pub struct Samples {
    database: Database,
    names: Names,
    insert: Insert,
}

const SCHEMA: Sql = sql!(each "console/samples.sql");
const COLUMNS: [(&str, Kind); 4] =
    [("pipeline", Kind::Text), ("instance", Kind::Text), ("began_at", Kind::Time), ("points", Kind::Text)];
/// The most rows that one statement inserts.
const CHUNK: usize = 500;

impl Samples {
    /// Those of this database. Nothing is asked of it yet.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let names = Names::new(database.dialect()).with("table", &database.own_table("redrive_sample"));
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

    /// Saves samples; one that was saved before is left as it is.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn save(&self, samples: &[Sample]) -> Result<(), Error> {
        for chunk in samples.chunks(CHUNK) {
            again(async || {
                let mut session = self.database.begin().await?;
                self.insert.run(&mut session, columns(chunk)).await?;
                session.commit().await
            })
            .await?;
        }
        Ok(())
    }

    /// The samples of minutes that began at or after this, of every instance.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn since(&self, since: Timestamp) -> Result<Vec<Sample>, Error> {
        let text = self.names.fill(
            "SELECT pipeline, instance, began_at, points FROM {table} WHERE began_at >= $1 ORDER BY began_at",
        );
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Time(since)]).await?;
        rows.iter().map(sample).collect()
    }

    /// Deletes the samples of minutes that began before this.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn purge(&self, before: Timestamp) -> Result<u64, Error> {
        let text = self.names.fill("DELETE FROM {table} WHERE began_at < $1");
        let statement = Statement::new(self.database.dialect(), &text);
        self.database.change(&statement, vec![Value::Time(before)]).await
    }
}

fn columns(samples: &[Sample]) -> Vec<Column> {
    let texts =
        |of: fn(&Sample) -> &String| Column::Texts(samples.iter().map(|sample| of(sample).clone()).collect());
    vec![
        texts(|sample| &sample.pipeline),
        texts(|sample| &sample.instance),
        Column::Times(samples.iter().map(|sample| sample.began_at).collect()),
        texts(|sample| &sample.points),
    ]
}

fn sample(row: &Row) -> Result<Sample, Error> {
    Ok(Sample {
        pipeline: row.text(0)?,
        instance: row.text(1)?,
        began_at: row.time(2)?,
        points: row.text(3)?,
    })
}
