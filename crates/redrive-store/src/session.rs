//! One connection in use, with or without a transaction.
//!
//! A session that ends in the middle of something (an error, a cancelled task) throws its connection
//! away: the server then rolls back. Only a connection with nothing under way is kept. Every exchange with the
//! server has a deadline, after which it ends in the same way.
//!
//! What talks to a driver is in a box: the code of an `async fn` is compiled again in every crate that awaits it,
//! and with it all of the drivers.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, SqliteConnection};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use crate::database::Database;
use crate::deadlines::within;
use crate::error::Error;
use crate::row::Row;
use crate::statement::{Effort, Statement};
use crate::value::Value;

/// A statement that takes longer is mentioned in the log; one that looks at every row has ten times as long.
const SLOW: Duration = Duration::from_secs(1);

/// A connection of one of the drivers.
#[derive(Debug)]
pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Connection {
    /// Whether the server still answers on it, and in time.
    pub(crate) fn ping(&mut self, deadline: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let answer = match self {
                Self::Sqlite(connection) => within(deadline, connection.ping()).await,
                Self::Postgres(connection) => within(deadline, connection.ping()).await,
                Self::MySql(connection) => within(deadline, connection.ping()).await,
            };
            answer.is_ok()
        })
    }

    /// Says good-bye; a server that does not hear it notices by itself.
    pub(crate) fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(async {
            drop(match self {
                Self::Sqlite(connection) => connection.close().await,
                Self::Postgres(connection) => connection.close().await,
                Self::MySql(connection) => connection.close().await,
            });
        })
    }
}

/// A connection in use.
pub(crate) struct Session {
    database: Database,
    connection: Option<(Connection, OwnedSemaphorePermit)>,
    /// Something was begun and has not ended well.
    under_way: bool,
    in_transaction: bool,
    writer: Option<OwnedMutexGuard<()>>,
}

/// Binds the values to the statement, for the driver of the connection at hand; `wrap` is the driver's
/// variant of [`Row`].
macro_rules! query {
    ($session:expr, $statement:expr, $values:expr => |$query:ident, $connection:ident, $wrap:ident| $run:expr) => {
        query!(@ $session, $statement, $values, $query, $connection, $wrap, $run,
            Sqlite bind_sqlite, Postgres bind_postgres, MySql bind_mysql)
    };
    (@ $session:expr, $statement:expr, $values:expr, $query:ident, $connection:ident, $wrap:ident, $run:expr,
        $($driver:ident $bind:ident),+) => {{
        // A statement without a name is prepared each time.
        let named = $session.database.names_statements();
        match $session.live() {
            $(Connection::$driver($connection) => {
                let query = sqlx::query($statement.text()).persistent(named);
                let $query = $values.into_iter().fold(query, |query, value| value.$bind(query));
                let $wrap = Row::$driver;
                $run
            })+
        }
    }};
}

impl Session {
    pub(crate) const fn new(database: Database, connection: Connection, room: OwnedSemaphorePermit) -> Self {
        Self {
            database,
            connection: Some((connection, room)),
            under_way: false,
            in_transaction: false,
            writer: None,
        }
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(
        &mut self,
        statement: &Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        self.read(statement, values, Ok).await
    }

    /// Runs a statement and reads each row as it arrives, while the database makes the next ones.
    pub(crate) async fn read<T: Send>(
        &mut self,
        statement: &Statement,
        values: Vec<Value>,
        read: impl Fn(Row) -> Result<T, Error> + Send + Sync,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        self.each(statement, values, &mut |row| all.push(read(row))).await?;
        all.into_iter().collect()
    }

    /// Runs a statement and hands over each row as it arrives.
    fn each<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
        take: &'a mut (dyn FnMut(Row) + Send),
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let alone = self.begin_alone().await?;
            self.under_way = true;
            let (begun, deadline) = (Instant::now(), self.database.deadlines().of(statement.effort()));
            let done = query!(self, statement, values => |query, connection, wrap| {
                within(deadline, async {
                    let mut rows = query.fetch(&mut *connection);
                    while let Some(row) = rows.try_next().await? {
                        take(wrap(row));
                    }
                    Ok(())
                })
                .await
            });
            note_slow(statement, begun.elapsed());
            self.finished(done)?;
            self.end_alone(alone).await
        })
    }

    /// Runs a statement that changes rows, and returns how many.
    pub(crate) fn run<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let alone = self.begin_alone().await?;
            self.under_way = true;
            let (begun, deadline) = (Instant::now(), self.database.deadlines().of(statement.effort()));
            let changed = query!(self, statement, values => |query, connection, _wrap| {
                within(deadline, query.execute(&mut *connection)).await.map(|done| done.rows_affected())
            });
            note_slow(statement, begun.elapsed());
            let changed = self.finished(changed)?;
            self.end_alone(alone).await?;
            Ok(changed)
        })
    }

    /// Runs a statement without parameters as plain text: what the drivers will not prepare (BEGIN,
    /// DDL).
    pub(crate) fn plain<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.under_way = true;
            let deadline = self.database.deadlines().of(statement.effort());
            let text = sqlx::raw_sql(statement.text());
            let done = match self.live() {
                Connection::Sqlite(connection) => within(deadline, connection.execute(text)).await.map(drop),
                Connection::Postgres(connection) => {
                    within(deadline, connection.execute(text)).await.map(drop)
                }
                Connection::MySql(connection) => within(deadline, connection.execute(text)).await.map(drop),
            };
            self.finished(done)
        })
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&mut self, writer: Option<OwnedMutexGuard<()>>) -> Result<(), Error> {
        self.plain(&Statement::new(self.database.dialect(), &self.database.begin_text())).await?;
        self.in_transaction = true;
        self.writer = writer;
        Ok(())
    }

    /// Makes everything since [`Session::begin`] happen.
    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        self.plain(&Statement::new(self.database.dialect(), "COMMIT")).await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Makes everything since [`Session::begin`] not have happened.
    pub(crate) async fn roll_back(mut self) -> Result<(), Error> {
        self.plain(&Statement::new(self.database.dialect(), "ROLLBACK")).await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Behind a pooler, begins a transaction for a statement that would have none: it is prepared in one exchange and
    /// run in the next, and without a transaction they may come to different connections of the server's.
    async fn begin_alone(&mut self) -> Result<bool, Error> {
        let alone = !self.in_transaction && self.database.is_pooled();
        if alone {
            self.begin(None).await?;
        }
        Ok(alone)
    }

    async fn end_alone(&mut self, alone: bool) -> Result<(), Error> {
        if alone {
            self.plain(&Statement::new(self.database.dialect(), "COMMIT")).await?;
            self.in_transaction = false;
        }
        Ok(())
    }

    fn live(&mut self) -> &mut Connection {
        let (connection, _) =
            self.connection.as_mut().expect("invariant: a session has its connection until it ends");
        connection
    }

    fn finished<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, Error> {
        let result = result.map_err(|source| Error::from_driver(self.database.dialect(), source));
        self.under_way = result.is_err();
        if matches!(&result, Err(error) if error.is_unavailable()) {
            self.database.forget_kept();
        }
        result
    }
}

/// Says which statement took long, by its beginning: the driver would log it whole, with every column of a batch.
fn note_slow(statement: &Statement, took: Duration) {
    let usual = match statement.effort() {
        Effort::Ordinary => SLOW,
        Effort::Count => SLOW * 10,
        // They take as long as they take.
        Effort::Migration => return,
    };
    if took > usual {
        tracing::warn!(statement = statement.beginning(), ?took, "the database was slow");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((connection, room)) = self.connection.take() else { return };
        if !self.under_way && !self.in_transaction {
            self.database.keep(connection, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::dialect::Dialect;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Log {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// The driver logged the text whole, which for a batch fills pages.
    #[tokio::test]
    async fn a_slow_statement_is_named_by_its_beginning() {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let database = Database::connect("sqlite::memory:").await.unwrap();
        // Counts further until that takes long enough, whatever the machine.
        let text = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT max(i) FROM n";
        let slow = Statement::new(Dialect::Sqlite, text);
        let mut rows = 1_000_000;
        loop {
            let begun = Instant::now();
            database.rows(&slow, vec![Value::Int(rows)]).await.unwrap();
            if begun.elapsed() > SLOW {
                break;
            }
            rows *= 4;
        }
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(logged.contains("WITH RECURSIVE n (i) AS (SELECT …"), "{logged}");
        assert!(!logged.contains("max(i)"), "{logged}");
    }
}
