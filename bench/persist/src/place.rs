//! Where the table is, with the settings of our store.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, SqliteConnection};

/// A database.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) url: String,
}

/// A connection to it.
#[derive(Debug)]
pub(crate) enum Hand {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Place {
    pub(crate) fn postgres(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    pub(crate) fn sqlite(file: &Path) -> Self {
        Self { url: format!("sqlite:{}", file.display()) }
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Hand> {
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            let options = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .busy_timeout(Duration::from_secs(10));
            return Ok(Hand::Sqlite(SqliteConnection::connect_with(&options).await?));
        }
        Ok(Hand::Postgres(PgConnection::connect(&self.url).await?))
    }
}

impl Hand {
    pub(crate) async fn run(&mut self, statement: &str) -> anyhow::Result<()> {
        let text = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
        let done = match self {
            Self::Postgres(connection) => connection.execute(text).await.map(drop),
            Self::Sqlite(connection) => connection.execute(text).await.map(drop),
        };
        done.with_context(|| statement.to_owned())
    }

    /// An empty table, and no checkpoint soon: the same for everybody.
    pub(crate) async fn tidy(&mut self, table: &str) -> anyhow::Result<()> {
        match self {
            Self::Postgres(_) => {
                self.run(&format!("TRUNCATE {table}")).await?;
                self.run("CHECKPOINT").await
            }
            Self::Sqlite(_) => {
                self.run(&format!("DELETE FROM {table}")).await?;
                self.run("VACUUM").await?;
                self.run("PRAGMA wal_checkpoint(TRUNCATE)").await
            }
        }
    }

    pub(crate) async fn count(&mut self, table: &str) -> anyhow::Result<i64> {
        let query = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count = match self {
            Self::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
            Self::Sqlite(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
        };
        Ok(count?)
    }
}
