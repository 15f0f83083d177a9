//! The stage of a round: the statements that empty the tables, fill them and put them in order.

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqliteConnection};

/// A connection beside the contestants'.
#[derive(Debug)]
pub(crate) enum Hand {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Hand {
    /// Runs statements one after the other.
    pub(crate) async fn run(&mut self, statements: &[String]) -> anyhow::Result<()> {
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
    pub(crate) async fn count(&mut self, statement: &str) -> anyhow::Result<i64> {
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
pub(crate) struct Stage {
    pub(crate) hand: Hand,
    pub(crate) before: Vec<String>,
    pub(crate) waiting: String,
}

impl Stage {
    pub(crate) async fn set(&mut self) -> anyhow::Result<()> {
        self.hand.run(&self.before).await
    }

    /// Fails when something was left undone.
    pub(crate) async fn check(&mut self) -> anyhow::Result<()> {
        let waiting = self.hand.count(&self.waiting).await?;
        anyhow::ensure!(waiting == 0, "{waiting} events are still waiting after the drain");
        Ok(())
    }
}

/// The same state for everybody: no garbage, fresh statistics, no checkpoint soon.
pub(crate) fn tidy_postgres(table: &str) -> [String; 2] {
    [format!("VACUUM (ANALYZE) {table}"), "CHECKPOINT".to_owned()]
}

/// See [`tidy_postgres`].
pub(crate) fn tidy_sqlite() -> [String; 3] {
    ["VACUUM", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"].map(str::to_owned)
}
