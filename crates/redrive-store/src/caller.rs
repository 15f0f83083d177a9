//! A transaction of the application's own: events and jobs become part of it, or of nothing.

use sqlx::{MySqlConnection, PgConnection, SqliteConnection};

use crate::dialect::Dialect;
use crate::error::Error;
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

impl Caller<'_> {
    /// Runs a statement of a store of this dialect in the caller's transaction.
    pub(crate) async fn run(
        &mut self,
        dialect: Dialect,
        statement: &Statement,
        values: Vec<Value>,
    ) -> Result<(), Error> {
        if self.dialect() != dialect {
            return Err(Error::Setting(format!(
                "the transaction is on {}, the store on {dialect}: they must be the same database",
                self.dialect()
            )));
        }
        let query = statement.text();
        let done = match self {
            Self::Sqlite(connection) => {
                let query =
                    values.into_iter().fold(sqlx::query(query), |query, value| value.bind_sqlite(query));
                query.execute(&mut **connection).await.map(drop)
            }
            Self::Postgres(connection) => {
                let query =
                    values.into_iter().fold(sqlx::query(query), |query, value| value.bind_postgres(query));
                query.execute(&mut **connection).await.map(drop)
            }
            Self::MySql(connection) => {
                let query =
                    values.into_iter().fold(sqlx::query(query), |query, value| value.bind_mysql(query));
                query.execute(&mut **connection).await.map(drop)
            }
        };
        done.map_err(|source| Error::from_driver(dialect, source))
    }

    const fn dialect(&self) -> Dialect {
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
