//! How long a store may take to answer.

use std::time::Duration;

use crate::statement::Effort;

/// How long a database may take, one step at a time. A step that takes longer fails as
/// [`Error::Unavailable`](crate::Error::Unavailable), and its connection is closed.
///
/// Every call has an end this way: one that meets a silent network waits for a connection (`connect`), asks an idle
/// one whether it is still there (`ping`), makes another (`connect`) and runs its first statement (`statement`). With
/// the defaults that is 53 seconds at most, within the minute that workers give a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For a connection: to be free, or to be made. 10 seconds. SQLite waits as long for its lock.
    pub connect: Duration,
    /// A connection that was idle for this long is asked whether it is still there before it is used. 10 seconds.
    pub idle: Duration,
    /// For that answer. 3 seconds. When none comes, all other connections that were idle as long are closed unasked.
    pub ping: Duration,
    /// For one statement. 30 seconds. Those that look at every row of a table have four times as long; a migration
    /// has an hour for each, since it may build an index.
    pub statement: Duration,
}

/// How much longer a statement has that looks at every row.
const COUNT: u32 = 4;
/// For one statement of a migration.
const MIGRATION: Duration = Duration::from_secs(3600);

impl Default for Deadlines {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), idle: seconds(10), ping: seconds(3), statement: seconds(30) }
    }
}

impl Deadlines {
    pub(crate) fn of(&self, effort: Effort) -> Duration {
        match effort {
            Effort::Ordinary => self.statement,
            Effort::Count => self.statement * COUNT,
            Effort::Migration => MIGRATION,
        }
    }
}

/// The outcome, or that there was none in time.
pub(crate) async fn within<T>(
    deadline: Duration,
    exchange: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let done = tokio::time::timeout(deadline, exchange).await;
    done.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
