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
use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::event::{MAX_KEY, Refused, required, storable};
use redrive_core::failure::{Code, Failure};
use redrive_core::lease::Work;

use crate::adoption::{self, Bound, Plan, Role};
use crate::catalog::{ColumnInfo, ColumnType, Table};
use crate::database::Database;
use crate::dialect::{Dialect, check_name};
use crate::error::Error;
use crate::insert::{Cell, Kind, chunks, from_arrays, from_json, mysql_row};
use crate::rights;
use crate::schema;
use crate::session::Session;
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
    options: TargetOptions,
    statements: Bound<Statements>,
}

/// What is made for the table as it is.
#[derive(Debug)]
struct Statements {
    /// All of it, or for MySQL what comes before the rows.
    insert: String,
    /// One row of MySQL's.
    row: String,
    found: String,
    find: Statement,
    key: Option<ColumnInfo>,
    payload: Option<ColumnInfo>,
}

const SCHEMA: Sql = sql!(each "target/schema.sql");
const INSERT: &str = "INSERT INTO {table} ({key}, {payload})";

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
        Ok(Self { statements: Bound::default(), options: options.clone(), names, database })
    }

    /// Makes the table where there is none.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when a table that is there cannot be used. Another [`Error`] when the store cannot be
    /// reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.statements.forget();
        schema::carry_out(&self.database, async |session| self.plan_in(session).await).await
    }

    /// What [`Target::migrate`] would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.plan_in(&mut self.database.session().await?).await
    }

    async fn plan_in(&self, session: &mut Session) -> Result<Plan, Error> {
        let dialect = self.database.dialect();
        let table = Table::read(session, dialect, &self.options.table).await?;
        let file = self.names.text(SCHEMA);
        let (key, payload) = (self.options.key_column.as_str(), self.options.payload_column.as_str());
        let roles = [(key, Role::Key), (payload, Role::Value)];
        let mut problems = adoption::problems(dialect, &table, &self.names.fill(file), &roles);
        problems.extend(adoption::unfilled(dialect, &table, &[key, payload]));
        let statements = schema::plan(session, dialect, &self.names, &[file]).await?;
        let plan = Plan { statements, problems, ..Plan::default() };
        plan.with_rights(session, dialect, &schema::tables(&self.names, &[file]), &rights::SAVE).await
    }

    /// The statements for the table as it is.
    async fn statements(&self) -> Result<Arc<Statements>, Error> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let dialect = self.database.dialect();
        let table = Table::read(&mut self.database.session().await?, dialect, &self.options.table).await?;
        let (key, payload) = (self.options.key_column.as_str(), self.options.payload_column.as_str());
        let cell = |name: &str, column: &str| Cell {
            stored: table.stored(column, "@"),
            ..Cell::plain(name, Kind::Text)
        };
        let cells = [cell("{key}", key), cell("{payload}", payload)];
        let insert = match dialect {
            Dialect::Postgres => format!("{INSERT} {} ON CONFLICT DO NOTHING", from_arrays(&cells)),
            // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
            Dialect::Sqlite => format!("{INSERT} {} WHERE true ON CONFLICT DO NOTHING", from_json(&cells)),
            Dialect::MySql => format!("{INSERT} VALUES "),
        };
        let found = format!(
            "SELECT {}, {} FROM {{table}} WHERE {{key}}",
            table.text_of("", key, "{key}"),
            table.text_of("", payload, "{payload}")
        );
        let find = format!("{found} = {}", table.stored(key, "$1"));
        let statements = Arc::new(Statements {
            insert: self.names.fill(&insert),
            row: mysql_row(&cells),
            found: self.names.fill(&found),
            find: Statement::new(dialect, &self.names.fill(&find)),
            key: table.column(key).cloned(),
            payload: table.column(payload).cloned(),
        });
        if table.exists() {
            self.statements.keep(Arc::clone(&statements));
        }
        Ok(statements)
    }

    /// Saves the records and returns those that cannot be, because their key is taken by another
    /// payload: by index, in order.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached, or refuses one of the rows; some may be saved then,
    /// and saving them again changes nothing.
    pub async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Error> {
        let statements = &*self.statements().await?;
        let mut conflicts = Vec::new();
        let mut before = 0;
        for chunk in chunks(records, Record::size) {
            let inserted = self.insert(statements, chunk).await;
            if matches!(inserted, Err(Error::Rejected { .. })) {
                // The table may not be what it was: it is looked at again.
                self.statements.forget();
            }
            if !inserted? {
                let taken = self.taken(statements, chunk).await?;
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
        let rows =
            self.database.rows(&self.statements().await?.find, vec![Value::Text(key.to_owned())]).await?;
        rows.first().map(|row| row.text(1)).transpose()
    }

    /// Inserts what is not there yet, and says whether that was all of it.
    async fn insert(&self, statements: &Statements, records: &[Record]) -> Result<bool, Error> {
        if self.database.dialect() == Dialect::MySql {
            return self.insert_mysql(statements, records).await;
        }
        let keys = records.iter().map(|record| record.key.clone()).collect();
        let payloads = records.iter().map(|record| record.payload.clone()).collect();
        let rows = Value::Rows(vec![Column::Texts(keys), Column::Texts(payloads)]);
        let statement = Statement::new(self.database.dialect(), &statements.insert);
        Ok(self.database.change(&statement, vec![rows]).await? == records.len() as u64)
    }

    /// MySQL cannot skip a row and say so, and its INSERT IGNORE would cut what is too long: all rows
    /// are tried first, and only when one is there already, again with an update that changes nothing.
    async fn insert_mysql(&self, statements: &Statements, records: &[Record]) -> Result<bool, Error> {
        let rows = vec![statements.row.as_str(); records.len()].join(", ");
        let insert = format!("{}{rows}", statements.insert);
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
    async fn taken(
        &self,
        statements: &Statements,
        records: &[Record],
    ) -> Result<Vec<(usize, Failure)>, Error> {
        let saved = self.saved(statements, records).await?;
        let is_same = |saved: &str, payload: &str| match &statements.payload {
            Some(column) => column.is_same(saved, payload),
            None => saved == payload,
        };
        let is_saved = |record: &Record| {
            saved.get(&statements.key(&record.key)).is_some_and(|payload| is_same(payload, &record.payload))
        };
        let taken = records.iter().enumerate().filter(|(_, record)| !is_saved(record));
        Ok(taken.map(|(index, record)| (index, self.conflict(&record.key))).collect())
    }

    async fn saved(
        &self,
        statements: &Statements,
        records: &[Record],
    ) -> Result<HashMap<String, String>, Error> {
        let keys: Vec<String> = records.iter().map(|record| record.key.clone()).collect();
        let (condition, values) = match self.database.dialect() {
            Dialect::Postgres => {
                let keys = vec![Value::Rows(vec![Column::Texts(keys)])];
                match &statements.key {
                    Some(key) if key.kind != ColumnType::Text => {
                        (format!("= ANY(($1::text[])::{}[])", key.declared), keys)
                    }
                    _ => ("= ANY($1)".to_owned(), keys),
                }
            }
            Dialect::Sqlite => (
                "IN (SELECT value ->> 0 FROM json_each($1))".to_owned(),
                vec![Value::Rows(vec![Column::Texts(keys)])],
            ),
            Dialect::MySql => {
                let place = statements.key.as_ref().map_or_else(|| "?".to_owned(), |key| key.store_text("?"));
                let places = vec![place; keys.len()].join(", ");
                (format!("IN ({places})"), keys.into_iter().map(Value::Text).collect())
            }
        };
        let text = format!("{} {condition}", statements.found);
        let rows = self.database.rows(&Statement::new(self.database.dialect(), &text), values).await?;
        rows.iter().map(|row| Ok((statements.key(&row.text(0)?), row.text(1)?))).collect()
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

impl Statements {
    /// A key in the one form that its column has for it: `007` is 7 in a column of numbers.
    fn key(&self, key: &str) -> String {
        self.key.as_ref().map_or_else(|| key.to_owned(), |column| column.canonical(key))
    }
}
