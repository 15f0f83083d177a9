//! Another program at the same database: plain SQL, no redrive.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, Database, Executor, MySqlConnection, PgConnection, Row,
    SqliteConnection, TypeInfo as _, ValueRef as _,
};

use crate::{Backend, TestDatabase};

/// A connection that sends what it is told.
#[derive(Debug)]
pub enum Client {
    /// To a SQLite file.
    Sqlite(SqliteConnection),
    /// To Postgres.
    Postgres(PgConnection),
    /// To MySQL or MariaDB.
    MySql(MySqlConnection),
}

impl Client {
    /// Another program's connection to the database.
    pub async fn connect(database: &TestDatabase) -> Self {
        Self::at(database, &database.direct).await
    }

    /// As [`Client::connect`], through the pooler that is before the database.
    pub async fn through_pooler(database: &TestDatabase) -> Self {
        Self::at(database, &database.url).await
    }

    async fn at(database: &TestDatabase, url: &str) -> Self {
        match database.backend {
            Backend::Sqlite => {
                let options: SqliteConnectOptions = url.parse().expect("an address of SQLite");
                let options = options.create_if_missing(true);
                Self::Sqlite(SqliteConnection::connect_with(&options).await.expect("SQLite opens"))
            }
            Backend::Postgres => Self::Postgres(PgConnection::connect(url).await.expect("Postgres answers")),
            Backend::MySql => Self::MySql(MySqlConnection::connect(url).await.expect("MariaDB answers")),
        }
    }

    /// Runs statements that must succeed.
    pub async fn run(&mut self, sql: &str) {
        if let Err(error) = self.attempt(sql).await {
            panic!("{error}\n{sql}");
        }
    }

    /// Runs statements that may fail.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn attempt(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Sqlite(connection) => connection.execute(text).await.map(drop),
            Self::Postgres(connection) => connection.execute(text).await.map(drop),
            Self::MySql(connection) => connection.execute(text).await.map(drop),
        }
    }

    /// The rows of a query, each cell as text; NULL is `None`.
    pub async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Sqlite(connection) => texts(connection, sql).await,
            Self::Postgres(connection) => texts(connection, sql).await,
            Self::MySql(connection) => texts(connection, sql).await,
        }
    }

    /// The first column of a query, NULL as the empty text.
    pub async fn column(&mut self, sql: &str) -> Vec<String> {
        let first = |row: Vec<Option<String>>| row.into_iter().next().flatten().unwrap_or_default();
        self.rows(sql).await.into_iter().map(first).collect()
    }

    /// The first cell of a query, as a number.
    pub async fn number(&mut self, sql: &str) -> i64 {
        let cell = self.column(sql).await.into_iter().next().expect("a row");
        cell.parse().unwrap_or_else(|_| panic!("{cell:?} is no number\n{sql}"))
    }
}

async fn texts<C, D>(connection: &mut C, sql: &str) -> Vec<Vec<Option<String>>>
where
    D: Database,
    for<'c> &'c mut C: Executor<'c, Database = D>,
    usize: sqlx::ColumnIndex<D::Row>,
    for<'r> String: sqlx::Decode<'r, D>,
    for<'r> f64: sqlx::Decode<'r, D>,
{
    let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    let rows = (&mut *connection).fetch_all(query).await;
    let rows = rows.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    rows.iter()
        .map(|row| row.columns().iter().map(|column| text::<D>(row, column.ordinal())).collect())
        .collect()
}

/// A cell as a person would see it: these statements are not prepared, so servers answer in text.
fn text<D: Database>(row: &D::Row, at: usize) -> Option<String>
where
    usize: sqlx::ColumnIndex<D::Row>,
    for<'r> String: sqlx::Decode<'r, D>,
    for<'r> f64: sqlx::Decode<'r, D>,
{
    let value = row.try_get_raw(at).expect("the column is there");
    if value.is_null() {
        return None;
    }
    match value.type_info().name() {
        "REAL" => Some(row.get_unchecked::<f64, _>(at).to_string()),
        _ => Some(row.get_unchecked(at)),
    }
}
