//! A transaction of the application's own: events and jobs become part of it, or of nothing.

use futures_util::future::BoxFuture;
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::insert::Executor;
use crate::row::Row;
use crate::statement::Statement;
use crate::value::Value;

/// A transaction of the application's own, in any of the drivers: `(&mut *transaction).into()`.
///
/// It must be on the database that the store is in. Nothing is committed here.
#[derive(Debug)]
pub enum Caller<'t> {
    /// On SQLite.
    Sqlite(&'t mut SqliteConnection),
    /// On Postgres.
    Postgres(&'t mut PgConnection),
    /// On MySQL or MariaDB.
    MySql(&'t mut MySqlConnection),
}

/// Binds the values and runs the statement with the driver at hand; `wrap` is the driver's variant of [`Row`].
macro_rules! query {
    ($caller:expr, $statement:expr, $values:expr => |$query:ident, $connection:ident, $wrap:ident| $run:expr) => {
        query!(@ $caller, $statement, $values, $query, $connection, $wrap, $run,
            Sqlite bind_sqlite, Postgres bind_postgres, MySql bind_mysql)
    };
    (@ $caller:expr, $statement:expr, $values:expr, $query:ident, $connection:ident, $wrap:ident, $run:expr,
        $($driver:ident $bind:ident),+) => {
        match $caller {
            $(Self::$driver($connection) => {
                // Without a name: there may be a pooler between the application and the server.
                let query = sqlx::query($statement.text()).persistent(false);
                let $query = $values.into_iter().fold(query, |query, value| value.$bind(query));
                let $wrap = Row::$driver;
                $run
            })+
        }
    };
}

impl Executor for Caller<'_> {
    fn rows<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        let dialect = self.dialect();
        Box::pin(async move {
            let rows = query!(self, statement, values => |query, connection, wrap| {
                query.fetch_all(&mut **connection).await.map(|rows| rows.into_iter().map(wrap).collect())
            });
            rows.map_err(|source| Error::from_driver(dialect, source))
        })
    }

    fn run<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        let dialect = self.dialect();
        Box::pin(async move {
            let changed = query!(self, statement, values => |query, connection, _wrap| {
                query.execute(&mut **connection).await.map(|done| done.rows_affected())
            });
            changed.map_err(|source| Error::from_driver(dialect, source))
        })
    }
}

impl Caller<'_> {
    /// # Errors
    /// [`Error::Setting`] when it is of another kind than the store.
    pub(crate) fn check(&self, dialect: Dialect) -> Result<(), Error> {
        if self.dialect() == dialect {
            return Ok(());
        }
        Err(Error::Setting(format!(
            "the transaction is on {}, the store on {dialect}: they must be the same database",
            self.dialect()
        )))
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::MySql,
        }
    }
}

impl<'t> From<&'t mut SqliteConnection> for Caller<'t> {
    fn from(connection: &'t mut SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}

impl<'t> From<&'t mut PgConnection> for Caller<'t> {
    fn from(connection: &'t mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

impl<'t> From<&'t mut MySqlConnection> for Caller<'t> {
    fn from(connection: &'t mut MySqlConnection) -> Self {
        Self::MySql(connection)
    }
}
