//! Rows into MySQL or MariaDB, by multi-row inserts in one transaction.
//!
//! `INSERT IGNORE` and `ON DUPLICATE KEY` would swallow every broken unique key, also one of the user's
//! own: the record would be lost in silence. So rows go in plainly; when a key is broken, those whose
//! place in the topic is there already are taken out, and what still breaks is poison.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::{Class, Code, Failure};
use redrive_store::{Dialect, Table};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::Sink;
use super::statement::{SinkColumns, SinkTable};
use crate::row::Row;

/// A statement has at most 65,535 parameters.
const MAX_PARAMETERS: usize = 60_000;

/// Stores rows in a table of MySQL or MariaDB.
#[derive(Debug)]
pub struct MySqlSink {
    options: MySqlConnectOptions,
    table: SinkTable,
    timeout: Duration,
    /// Read again after a failure that speaks of the table, and before a value is held against a record.
    columns: Mutex<Option<Arc<SinkColumns>>>,
    idle: Mutex<Vec<MySqlConnection>>,
}

impl MySqlSink {
    /// A sink at this address. Nothing is asked of the server yet; one batch may take so long.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(url: &str, table: SinkTable, timeout: Duration) -> Result<Self, sqlx::Error> {
        let (columns, idle) = (Mutex::default(), Mutex::default());
        let options: MySqlConnectOptions = url.parse()?;
        // A batch is one statement: logged whole, a slow one fills pages.
        let options = options.disable_statement_logging();
        Ok(Self { options, table, timeout, columns, idle })
    }

    async fn with<T>(
        &self,
        run: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = tokio::time::timeout(self.timeout, async {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = match idle {
                Some(connection) => connection,
                None => {
                    MySqlConnection::connect_with(&self.options).await.map_err(|error| failure(&error))?
                }
            };
            let done = run(&mut connection).await;
            // A transaction that failed is undone by closing its connection.
            if done.is_ok() {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            done
        });
        match done.await {
            Ok(Err(failure)) => {
                if is_setup(&failure) {
                    self.forget_columns();
                }
                Err(failure)
            }
            Ok(done) => done,
            Err(_) => {
                // The others are as silent: to try each would cost a time-out each.
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let said = format!("the sink's database did not answer within {:?}", self.timeout);
                Err(Failure::transient("Timeout", said))
            }
        }
    }

    /// The columns, and the texts of the rows in them. The table may have changed since it was looked at: it is looked
    /// at again before a value is refused.
    async fn texts(
        &self,
        rows: &[&Row<'_>],
    ) -> Result<(Arc<SinkColumns>, Vec<Vec<Option<String>>>), Failure> {
        let columns = self.columns().await?;
        if let Ok(texts) = texts(&columns, rows) {
            return Ok((columns, texts));
        }
        self.forget_columns();
        let columns = self.columns().await?;
        let texts = texts(&columns, rows)?;
        Ok((columns, texts))
    }

    async fn columns(&self) -> Result<Arc<SinkColumns>, Failure> {
        let known = self.columns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(columns) = known {
            return Ok(columns);
        }
        let found = self.look().await?;
        let columns = Arc::new(SinkColumns::new(&self.table, &found)?);
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&columns));
        Ok(columns)
    }

    fn forget_columns(&self) {
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn look(&self) -> Result<Table, Failure> {
        self.with(async |connection: &mut MySqlConnection| {
            Table::of(connection.into(), self.table.name()).await.map_err(|error| error.failure())
        })
        .await
    }

    async fn insert(&self, rows: &[&Row<'_>]) -> Result<(), Failure> {
        let (columns, texts) = self.texts(rows).await?;
        self.with(async |connection: &mut MySqlConnection| {
            let inserted = async {
                let mut transaction = connection.begin().await?;
                for chunk in texts.chunks((MAX_PARAMETERS / self.table.width()).max(1)) {
                    let mut query = sqlx::query(AssertSqlSafe(self.insert_text(&columns, chunk.len())));
                    for text in chunk.iter().flatten() {
                        query = query.bind(text);
                    }
                    query.persistent(false).execute(&mut *transaction).await?;
                }
                transaction.commit().await
            };
            inserted.await.map_err(|error| failure(&error))
        })
        .await
    }

    fn insert_text(&self, columns: &SinkColumns, rows: usize) -> String {
        let dialect = Dialect::MySql;
        let cells: Vec<String> = columns.all().iter().map(|column| column.store_text("?")).collect();
        let rows = vec![format!("({})", cells.join(", ")); rows].join(", ");
        format!("INSERT INTO {} ({}) VALUES {rows}", self.table.quoted(dialect), self.table.list(dialect))
    }

    /// Which of the rows are there already.
    async fn known(&self, rows: &[Row<'_>]) -> Result<HashSet<(String, String, String)>, Failure> {
        let [topic, partition, offset] = self.table.position();
        // As texts: the columns may be of any type.
        let text = format!(
            "SELECT CAST(`{topic}` AS CHAR), CAST(`{partition}` AS CHAR), CAST(`{offset}` AS CHAR) FROM {} \
             WHERE `{topic}` = ? AND `{partition}` = ? AND `{offset}` BETWEEN ? AND ?",
            self.table.quoted(Dialect::MySql)
        );
        let mut spans: Vec<(String, i32, i64, i64)> = Vec::new();
        for row in rows {
            let id = &row.identity;
            match spans.iter_mut().find(|span| *span.0 == *id.topic && span.1 == id.partition) {
                Some(span) => (span.2, span.3) = (span.2.min(id.offset), span.3.max(id.offset)),
                None => spans.push((id.topic.to_string(), id.partition, id.offset, id.offset)),
            }
        }
        self.with(async |connection: &mut MySqlConnection| {
            let mut known = HashSet::new();
            for (topic, partition, first, last) in &spans {
                let query = sqlx::query(AssertSqlSafe(text.clone()));
                let query = query.bind(topic).bind(partition).bind(first).bind(last);
                for row in query.fetch_all(&mut *connection).await.map_err(|error| failure(&error))? {
                    let text = |at: usize| row.try_get(at).map_err(|error| failure(&error));
                    known.insert((text(0)?, text(1)?, text(2)?));
                }
            }
            Ok(known)
        })
        .await
    }
}

#[async_trait]
impl Sink for MySqlSink {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        let all: Vec<&Row<'_>> = rows.iter().collect();
        let failure = match self.insert(&all).await {
            Err(failure) if failure.code == Some(Code::MySql(1062)) => failure,
            done => return done,
        };
        let known = self.known(rows).await?;
        let is_new = |row: &&Row<'_>| {
            let id = &row.identity;
            !known.contains(&(id.topic.to_string(), id.partition.to_string(), id.offset.to_string()))
        };
        let fresh: Vec<&Row<'_>> = rows.iter().filter(is_new).collect();
        match fresh.len() {
            0 => Ok(()),
            many if many == rows.len() => Err(failure),
            _ => self.insert(&fresh).await,
        }
    }

    async fn probe(&self) -> Result<(), Failure> {
        // An insert of no rows: it finds a lost right, which a look at the table does not.
        let (table, list) = (self.table.quoted(Dialect::MySql), self.table.list(Dialect::MySql));
        let nothing = vec!["NULL"; self.table.width()].join(", ");
        let text = format!("INSERT INTO {table} ({list}) SELECT {nothing} FROM {table} WHERE FALSE");
        self.with(async |connection: &mut MySqlConnection| {
            sqlx::query(AssertSqlSafe(text))
                .execute(connection)
                .await
                .map(drop)
                .map_err(|error| failure(&error))
        })
        .await
    }

    async fn check(&self) -> Result<(), String> {
        let (schema, name) = match self.table.name().split_once('.') {
            Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
            None => (None, self.table.name().to_owned()),
        };
        let keys = self
            .with(async |connection: &mut MySqlConnection| {
                // A part of an index that is an expression has no name.
                let keys = sqlx::query_scalar::<_, String>(
                    "SELECT CAST(GROUP_CONCAT(COALESCE(column_name, '')) AS CHAR) FROM information_schema.statistics \
                     WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND non_unique = 0 \
                     GROUP BY index_name",
                )
                .bind(&schema)
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
        self.table.complaint(Dialect::MySql, &found, &keys).map_or(Ok(()), Err)?;
        self.probe().await.map_err(|failure| self.table.unwritable(&failure))
    }
}

/// Each row as texts, one after the other.
fn texts(columns: &SinkColumns, rows: &[&Row<'_>]) -> Result<Vec<Vec<Option<String>>>, Failure> {
    let owned = |row: &&Row<'_>| {
        let texts = columns.texts(row)?;
        Ok(texts.into_iter().map(|text| text.map(std::borrow::Cow::into_owned)).collect())
    };
    rows.iter().map(owned).collect()
}

fn failure(error: &sqlx::Error) -> Failure {
    let failure = redrive_store::failure(Dialect::MySql, error);
    if is_setup(&failure) { Failure { class: Class::Transient, ..failure } } else { failure }
}

fn is_setup(failure: &Failure) -> bool {
    matches!(failure.code, Some(Code::MySql(number)) if speaks_of_setup(number))
}

/// Whether an error is about the statement, the table or the user, and so about every record alike.
const fn speaks_of_setup(number: u16) -> bool {
    matches!(
        number,
        // No such database, column, table.
        1049 | 1054 | 1146
        // Not allowed: the database, the table, a column, a routine, what needs SUPER.
        | 1044 | 1142 | 1143 | 1227 | 1370
        // Statements that no longer fit the table; a routine that is gone.
        | 1064 | 1136 | 1305
        // Views: not insertable, broken, of a user who is gone.
        | 1288 | 1347 | 1356 | 1449 | 1471
    )
}
