//! The target: the table that a persist pipeline saves events in, by key.
//!
//! A save is idempotent. A row that is there already with the same key and payload is success: it is
//! ours, from a try whose answer was lost. One with another payload is a conflict, named row by row,
//! and the other rows are saved all the same. Both need a unique index on the key; without one a
//! repeated save stores a row twice.
//!
//! What it does not do: change rows that are there, or tell why a row of many was refused. For the
//! latter, whoever saves halves the batch (`redrive_core::bisect`).

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::event::{MAX_KEY, Refused, required, storable};
use redrive_core::failure::{Code, Failure};
use redrive_core::lease::Work;

use crate::database::Database;
use crate::dialect::{Dialect, check_name};
use crate::error::Error;
use crate::insert::{Kind, chunks, from_arrays, from_json};
use crate::schema;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// An event in the form that a persist pipeline keeps: a key and a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key, such as a short URL.
    pub key: String,
    /// The payload, such as the long one.
    pub payload: String,
    /// When it was accepted.
    pub created_at: Timestamp,
}

impl Record {
    /// Checks that it can be kept, in the target as well as among the failed events.
    ///
    /// # Errors
    /// [`Refused`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), Refused> {
        required("key", &self.key, MAX_KEY)?;
        storable("payload", &self.payload, usize::MAX)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.len() + self.payload.len()
    }
}

impl From<&Work> for Record {
    /// The record of a failed event. Its payload is text, as it was when it came in.
    fn from(work: &Work) -> Self {
        Self {
            key: work.event.key.clone(),
            payload: String::from_utf8_lossy(&work.event.payload).into_owned(),
            created_at: work.event.created_at,
        }
    }
}

/// Which table a pipeline saves in.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// The table.
    pub table: String,
    /// The column of the key.
    pub key_column: String,
    /// The column of the payload.
    pub payload_column: String,
}

impl TargetOptions {
    /// This table, with the founding columns `short_url` and `long_url`.
    #[must_use]
    pub fn new(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            key_column: "short_url".to_owned(),
            payload_column: "long_url".to_owned(),
        }
    }
}

/// The table that events are saved in.
#[derive(Debug)]
pub struct Target {
    database: Database,
    names: Names,
    /// All of it, or for MySQL what comes before the rows.
    insert: String,
    find: Statement,
}

const SCHEMA: Sql = sql!(each "target/schema.sql");
const COLUMNS: [(&str, Kind); 2] = [("{key}", Kind::Text), ("{payload}", Kind::Text)];
const INSERT: &str = "INSERT INTO {table} ({key}, {payload})";
const FOUND: &str = "SELECT {key}, {payload} FROM {table} WHERE {key}";

impl Target {
    /// The target in this table. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a name cannot be used.
    pub fn new(database: Database, options: &TargetOptions) -> Result<Self, Error> {
        check_name("target table", &options.table)?;
        check_name("key column", &options.key_column)?;
        check_name("payload column", &options.payload_column)?;
        let dialect = database.dialect();
        let names = Names::new(dialect)
            .with_table("table", "table_name", &options.table)
            .with("key", &options.key_column)
            .with("payload", &options.payload_column);
        let insert = match dialect {
            Dialect::Postgres => format!("{INSERT} {} ON CONFLICT DO NOTHING", from_arrays(&COLUMNS)),
            // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
            Dialect::Sqlite => format!("{INSERT} {} WHERE true ON CONFLICT DO NOTHING", from_json(&COLUMNS)),
            Dialect::MySql => format!("{INSERT} VALUES "),
        };
        let find = Statement::new(dialect, &names.fill(&format!("{FOUND} = $1")));
        Ok(Self { insert: names.fill(&insert), find, names, database })
    }

    /// Makes the table where there is none.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        schema::migrate(&self.database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    /// Saves the records and returns those that cannot be, because their key is taken by another
    /// payload: by index, in order.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached, or refuses one of the rows; some may be saved then,
    /// and saving them again changes nothing.
    pub async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Error> {
        let mut conflicts = Vec::new();
        let mut before = 0;
        for chunk in chunks(records, Record::size) {
            if !self.insert(chunk).await? {
                let taken = self.taken(chunk).await?;
                conflicts.extend(taken.into_iter().map(|(index, failure)| (before + index, failure)));
            }
            before += chunk.len();
        }
        Ok(conflicts)
    }

    /// The payload that is saved under this key.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn find(&self, key: &str) -> Result<Option<String>, Error> {
        let rows = self.database.rows(&self.find, vec![Value::Text(key.to_owned())]).await?;
        rows.first().map(|row| row.text(1)).transpose()
    }

    /// Inserts what is not there yet, and says whether that was all of it.
    async fn insert(&self, records: &[Record]) -> Result<bool, Error> {
        if self.database.dialect() == Dialect::MySql {
            return self.insert_mysql(records).await;
        }
        let keys = records.iter().map(|record| record.key.clone()).collect();
        let payloads = records.iter().map(|record| record.payload.clone()).collect();
        let rows = Value::Rows(vec![Column::Texts(keys), Column::Texts(payloads)]);
        let statement = Statement::new(self.database.dialect(), &self.insert);
        Ok(self.database.change(&statement, vec![rows]).await? == records.len() as u64)
    }

    /// MySQL cannot skip a row and say so, and its INSERT IGNORE would cut what is too long: all rows
    /// are tried first, and only when one is there already, again with an update that changes nothing.
    async fn insert_mysql(&self, records: &[Record]) -> Result<bool, Error> {
        let rows = vec!["(?, ?)"; records.len()].join(", ");
        let insert = format!("{}{rows}", self.insert);
        let values = || {
            let cells = records.iter().flat_map(|record| [record.key.clone(), record.payload.clone()]);
            cells.map(Value::Text).collect::<Vec<_>>()
        };
        match self.database.change(&self.mysql(&insert), values()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_duplicate_in_mysql() => {
                let keep = self.names.fill(" ON DUPLICATE KEY UPDATE {key} = {table}.{key}");
                self.database.change(&self.mysql(&format!("{insert}{keep}")), values()).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The records that are not saved although nothing refused them: their key has another payload.
    async fn taken(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Error> {
        let saved = self.saved(records).await?;
        let is_saved =
            |record: &Record| saved.get(&record.key).is_some_and(|payload| *payload == record.payload);
        let taken = records.iter().enumerate().filter(|(_, record)| !is_saved(record));
        Ok(taken.map(|(index, record)| (index, self.conflict(&record.key))).collect())
    }

    async fn saved(&self, records: &[Record]) -> Result<HashMap<String, String>, Error> {
        let keys: Vec<String> = records.iter().map(|record| record.key.clone()).collect();
        let (condition, values) = match self.database.dialect() {
            Dialect::Postgres => ("= ANY($1)".to_owned(), vec![Value::Rows(vec![Column::Texts(keys)])]),
            Dialect::Sqlite => (
                "IN (SELECT value ->> 0 FROM json_each($1))".to_owned(),
                vec![Value::Rows(vec![Column::Texts(keys)])],
            ),
            Dialect::MySql => {
                let places = vec!["?"; keys.len()].join(", ");
                (format!("IN ({places})"), keys.into_iter().map(Value::Text).collect())
            }
        };
        let text = self.names.fill(&format!("{FOUND} {condition}"));
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), values).await?;
        rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
    }

    fn mysql(&self, text: &str) -> Statement {
        Statement::new(Dialect::MySql, text)
    }

    /// With the code that the database itself has for it.
    fn conflict(&self, key: &str) -> Failure {
        let code = match self.database.dialect() {
            Dialect::Postgres => Code::SqlState("23505".to_owned()),
            Dialect::MySql => Code::MySql(1062),
            Dialect::Sqlite => Code::Sqlite(1555),
        };
        let message = format!(
            "the key {key:?} is taken: another event with another payload is saved under it, \
             or a unique index of the table refuses this one"
        );
        Failure::permanent("DuplicateKey", message).with_code(code)
    }
}
