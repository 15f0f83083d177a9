//! The stage of a round: the statements that empty the tables, fill them and put them in order.

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqliteConnection};

use crate::events::{fill_jobs, fill_postgres};
use crate::postgres::Scratch;

/// A connection beside the contestants'.
#[derive(Debug)]
pub enum Hand {
    /// To Postgres.
    Postgres(PgConnection),
    /// To SQLite.
    Sqlite(SqliteConnection),
}

impl Hand {
    /// Runs statements one after the other.
    ///
    /// # Errors
    /// The statement that failed.
    pub async fn run(&mut self, statements: &[String]) -> anyhow::Result<()> {
        for statement in statements {
            self.run_one(statement).await.with_context(|| statement.clone())?;
        }
        Ok(())
    }

    async fn run_one(&mut self, statement: &str) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::Postgres(connection) => connection.execute(statement).await.map(drop),
            Self::Sqlite(connection) => connection.execute(statement).await.map(drop),
        }
    }

    /// The number that a statement returns.
    ///
    /// # Errors
    /// The statement that failed.
    pub async fn count(&mut self, statement: &str) -> anyhow::Result<i64> {
        let query = sqlx::AssertSqlSafe(statement.to_owned());
        let count = match self {
            Self::Postgres(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
            Self::Sqlite(connection) => sqlx::query_scalar(query).fetch_one(connection).await,
        };
        count.with_context(|| statement.to_owned())
    }
}

/// What is done before every round, and how to see afterwards that nothing waits any more.
#[derive(Debug)]
pub struct Stage {
    /// Who sets it.
    pub hand: Hand,
    /// What is run before every round.
    pub before: Vec<String>,
    /// How many events wait.
    pub waiting: String,
}

impl Stage {
    /// A table of Postgres full of waiting events and nothing else.
    ///
    /// # Errors
    /// When the server does not answer or does not know the table.
    pub async fn postgres(scratch: &Scratch, table: &str, rows: u32) -> anyhow::Result<Self> {
        let waiting = format!("SELECT count(*) FROM {table} WHERE NOT processed");
        Self::filled(scratch, table, fill_postgres(table, rows), waiting).await
    }

    /// A table of Postgres full of waiting jobs and nothing else.
    ///
    /// # Errors
    /// When the server does not answer or does not know the table.
    pub async fn postgres_jobs(scratch: &Scratch, table: &str, rows: u32) -> anyhow::Result<Self> {
        let waiting = format!("SELECT count(*) FROM {table} WHERE status IN ('pending', 'running')");
        Self::filled(scratch, table, fill_jobs(table, rows), waiting).await
    }

    async fn filled(scratch: &Scratch, table: &str, fill: String, waiting: String) -> anyhow::Result<Self> {
        let mut hand = Hand::Postgres(scratch.connect().await?);
        // Autovacuum comes once a minute: it would hit one contestant and spare the other.
        hand.run(&[format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")]).await?;
        let mut before = vec![format!("TRUNCATE {table}"), fill];
        before.extend(tidy_postgres(table));
        Ok(Self { hand, before, waiting })
    }

    /// Sets it.
    ///
    /// # Errors
    /// The statement that failed.
    pub async fn set(&mut self) -> anyhow::Result<()> {
        self.hand.run(&self.before).await
    }

    /// Fails when something was left undone.
    ///
    /// # Errors
    /// So many events that still wait.
    pub async fn check(&mut self) -> anyhow::Result<()> {
        let waiting = self.hand.count(&self.waiting).await?;
        anyhow::ensure!(waiting == 0, "{waiting} events are still waiting after the drain");
        Ok(())
    }
}

/// The same state for everybody: no garbage, fresh statistics, no checkpoint soon.
#[must_use]
pub fn tidy_postgres(table: &str) -> [String; 2] {
    [format!("VACUUM (ANALYZE) {table}"), "CHECKPOINT".to_owned()]
}

/// See [`tidy_postgres`].
#[must_use]
pub fn tidy_sqlite() -> [String; 3] {
    ["VACUUM", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"].map(str::to_owned)
}
