//! Rows into SQLite, one statement for a batch: the rows travel as one JSON text.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::{Class, Code, Failure};
use redrive_store::Dialect;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use tokio::sync::Mutex;

use super::Sink;
use super::statement::SinkTable;
use crate::row::{Cell, Row};

const SQLITE_ERROR: i32 = 1;
const SQLITE_AUTH: i32 = 23;

/// Stores rows in a table of SQLite.
#[derive(Debug)]
pub struct SqliteSink {
    options: SqliteConnectOptions,
    table: SinkTable,
    insert: String,
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
        let dialect = Dialect::Sqlite;
        let cells = (0..table.width()).map(|n| format!("value ->> {n}")).collect::<Vec<_>>().join(", ");
        // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
        let insert = format!(
            "INSERT INTO {} ({}) SELECT {cells} FROM json_each(?1) WHERE true ON CONFLICT ({}) DO NOTHING",
            table.quoted(dialect),
            table.list(dialect),
            table.key(dialect)
        );
        Ok(Self { options, table, insert, connection: Mutex::new(None) })
    }

    async fn with<T>(
        &self,
        run: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Failure> {
        let mut held = self.connection.lock().await;
        // Taken out meanwhile: a future that is dropped in the middle leaves no half-used connection.
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(|error| failure(&error))?,
        };
        let done = run(&mut connection).await;
        *held = Some(connection);
        done.map_err(|error| failure(&error))
    }
}

#[async_trait]
impl Sink for SqliteSink {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        let json = json(rows);
        self.with(async |connection: &mut SqliteConnection| {
            let query = sqlx::query(AssertSqlSafe(self.insert.clone())).bind(json);
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn probe(&self) -> Result<(), Failure> {
        // The insert itself, of no rows: it finds what a look at the table does not.
        self.write(&[]).await
    }

    async fn check(&self) -> Result<(), String> {
        let name = self.table.name().rsplit('.').next().unwrap_or_default().to_owned();
        let found = self
            .with(async |connection: &mut SqliteConnection| {
                let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info(?)")
                    .bind(&name)
                    .fetch_all(&mut *connection)
                    .await?;
                // A part of an index that is an expression has no name.
                let keys: Vec<String> = sqlx::query_scalar(
                    "SELECT group_concat(coalesce(i.name, '')) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i \
                     WHERE l.\"unique\" AND NOT l.partial GROUP BY l.name",
                )
                .bind(&name)
                .fetch_all(&mut *connection)
                .await?;
                Ok((columns, keys))
            })
            .await;
        let (columns, keys) = found.map_err(|failure| format!("the sink's database: {}", failure.message))?;
        let keys: Vec<Vec<String>> =
            keys.iter().map(|key| key.split(',').map(str::to_owned).collect()).collect();
        self.table.complaint(Dialect::Sqlite, &columns, &keys).map_or(Ok(()), Err)?;
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

/// Every value as text, or null: the column's affinity turns it into a number without rounding it first.
fn json(rows: &[Row<'_>]) -> String {
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
        for cell in &row.cells {
            json.push(',');
            match cell {
                Cell::Null => json.push_str("null"),
                Cell::Bool(bool) => json.push_str(if *bool { "1" } else { "0" }),
                Cell::Number(text) | Cell::Text(text) => push(&mut json, text),
                Cell::Json(text) => push(&mut json, text),
                Cell::Time(time) => push(&mut json, &time.to_string()),
            }
        }
        json.push(']');
    }
    json.push(']');
    json
}

fn push(json: &mut String, text: &str) {
    // A text is always JSON.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}
