//! Rows into SQLite, one statement for a batch: the rows travel as one JSON text.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::{Class, Code, Failure};
use redrive_store::{ColumnInfo, Dialect, Table};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use tokio::sync::Mutex;

use super::Sink;
use super::statement::{SinkColumns, SinkTable};
use crate::row::Row;

const SQLITE_ERROR: i32 = 1;
const SQLITE_AUTH: i32 = 23;

/// Stores rows in a table of SQLite.
#[derive(Debug)]
pub struct SqliteSink {
    options: SqliteConnectOptions,
    table: SinkTable,
    /// Read again after a failure that speaks of the table, and before a value is held against a record.
    columns: Mutex<Option<Arc<SinkColumns>>>,
    connection: Mutex<Option<SqliteConnection>>,
}

impl SqliteSink {
    /// A sink in this file. It is not opened yet; a lock may be waited for so long.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(url: &str, table: SinkTable, timeout: Duration) -> Result<Self, sqlx::Error> {
        let options: SqliteConnectOptions = url.parse()?;
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(timeout);
        // A batch is one statement: logged whole, a slow one fills pages.
        let options = options.disable_statement_logging();
        Ok(Self { options, table, columns: Mutex::new(None), connection: Mutex::new(None) })
    }

    async fn with<T>(
        &self,
        run: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut held = self.connection.lock().await;
        // Taken out meanwhile: a future that is dropped in the middle leaves no half-used connection.
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(|error| failure(&error))?,
        };
        let done = run(&mut connection).await;
        *held = Some(connection);
        done
    }

    async fn look(&self) -> Result<Table, Failure> {
        self.with(async |connection: &mut SqliteConnection| {
            Table::of(connection.into(), self.table.name()).await.map_err(|error| error.failure())
        })
        .await
    }

    async fn columns(&self) -> Result<Arc<SinkColumns>, Failure> {
        let mut known = self.columns.lock().await;
        if let Some(columns) = &*known {
            return Ok(Arc::clone(columns));
        }
        let columns = Arc::new(SinkColumns::new(&self.table, &self.look().await?)?);
        *known = Some(Arc::clone(&columns));
        Ok(columns)
    }

    /// The statement, and the rows as JSON. The table may have changed since it was looked at: it is looked at again
    /// before a value is refused.
    async fn insert(&self, rows: &[Row<'_>]) -> Result<(String, String), Failure> {
        let columns = self.columns().await?;
        if let Ok(json) = json(&columns, rows) {
            return Ok((self.insert_text(&columns), json));
        }
        *self.columns.lock().await = None;
        let columns = self.columns().await?;
        Ok((self.insert_text(&columns), json(&columns, rows)?))
    }

    fn insert_text(&self, columns: &SinkColumns) -> String {
        let (table, dialect) = (&self.table, Dialect::Sqlite);
        let cell = |(n, column): (usize, &ColumnInfo)| column.store_text(&format!("value ->> {n}"));
        let cells = columns.all().iter().enumerate().map(cell).collect::<Vec<_>>().join(", ");
        // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
        format!(
            "INSERT INTO {} ({}) SELECT {cells} FROM json_each(?1) WHERE true ON CONFLICT ({}) DO NOTHING",
            table.quoted(dialect),
            table.list(dialect),
            table.key(dialect)
        )
    }
}

#[async_trait]
impl Sink for SqliteSink {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        let (insert, json) = self.insert(rows).await?;
        let written = self
            .with(async |connection: &mut SqliteConnection| {
                let query = sqlx::query(AssertSqlSafe(insert)).bind(json);
                query.execute(connection).await.map(drop).map_err(|error| failure(&error))
            })
            .await;
        if written.as_ref().is_err_and(|failure| failure.class == Class::Transient) {
            *self.columns.lock().await = None;
        }
        written
    }

    async fn probe(&self) -> Result<(), Failure> {
        // The insert itself, of no rows: it finds what a look at the table does not.
        self.write(&[]).await
    }

    async fn check(&self) -> Result<(), String> {
        let name = self.table.name().rsplit('.').next().unwrap_or_default().to_owned();
        let keys = self
            .with(async |connection: &mut SqliteConnection| {
                // A part of an index that is an expression has no name.
                let keys = sqlx::query_scalar::<_, String>(
                    "SELECT group_concat(coalesce(i.name, '')) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i \
                     WHERE l.\"unique\" AND NOT l.partial GROUP BY l.name",
                )
                .bind(&name)
                .fetch_all(&mut *connection)
                .await;
                keys.map_err(|error| failure(&error))
            })
            .await;
        let unreachable = |failure: Failure| format!("the sink's database: {}", failure.message);
        let (found, keys) = (self.look().await.map_err(unreachable)?, keys.map_err(unreachable)?);
        let keys: Vec<Vec<String>> =
            keys.iter().map(|key| key.split(',').map(str::to_owned).collect()).collect();
        self.table.complaint(Dialect::Sqlite, &found, &keys).map_or(Ok(()), Err)?;
        self.probe().await.map_err(|failure| self.table.unwritable(&failure))
    }
}

fn failure(error: &sqlx::Error) -> Failure {
    let failure = redrive_store::failure(Dialect::Sqlite, error);
    // A table or column that is missing or takes no rows is a plain error here, like a value that JSON
    // functions refuse.
    let of_setup = [
        "no such table",
        "no such column",
        "has no column",
        "no such function",
        "cannot modify",
        "may not be modified",
        "ON CONFLICT clause does not match",
    ];
    let is_setup = failure.code == Some(Code::Sqlite(SQLITE_AUTH))
        || failure.code == Some(Code::Sqlite(SQLITE_ERROR))
            && of_setup.iter().any(|text| failure.message.contains(text));
    if is_setup { Failure { class: Class::Transient, ..failure } } else { failure }
}

/// Every value as text, or null: the column's affinity turns it into a number without rounding it first. Partition and
/// offset are numbers, since a column without a type would keep the text.
fn json(columns: &SinkColumns, rows: &[Row<'_>]) -> Result<String, Failure> {
    let mut json = String::with_capacity(rows.iter().map(Row::size).sum::<usize>() * 5 / 4);
    json.push('[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        let id = &row.identity;
        json.push('[');
        push(&mut json, &id.topic);
        json.push_str(&format!(",{},{}", id.partition, id.offset));
        for text in columns.texts(row)?.into_iter().skip(3) {
            json.push(',');
            match text {
                Some(text) => push(&mut json, &text),
                None => json.push_str("null"),
            }
        }
        json.push(']');
    }
    json.push(']');
    Ok(json)
}

fn push(json: &mut String, text: &str) {
    // A text is always JSON.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}
