//! What the tests of several crates share.
//!
//! `./test` starts real servers and exports their addresses. A test that needs one asks here for a
//! fresh database on it, and gets nothing where there is no such server: the skip is then written to
//! the file that `./test` shows at the end, so that none is silent.

mod cable;
mod client;
pub mod hostile;
mod patience;
pub mod types;

use std::io::Write as _;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

pub use cable::Cable;
pub use client::Client;
pub use patience::{PATIENCE, eventually};

/// Which kind of database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// SQLite, in process.
    Sqlite,
    /// Postgres.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

/// A database that nobody else uses. Keep it as long as the test runs.
#[derive(Debug)]
pub struct TestDatabase {
    /// Its address.
    pub url: String,
    /// Its address without a pooler in between.
    pub direct: String,
    /// Its kind.
    pub backend: Backend,
    _folder: Option<tempfile::TempDir>,
}

impl TestDatabase {
    /// The same database, with these parameters in its address. Keep the first one, too.
    #[must_use]
    pub fn with(&self, parameters: &str) -> Self {
        let (url, direct) = (format!("{}?{parameters}", self.url), self.direct.clone());
        Self { url, direct, backend: self.backend, _folder: None }
    }
}

/// A fresh SQLite file.
#[must_use]
pub fn sqlite() -> TestDatabase {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    TestDatabase { direct: url.clone(), url, backend: Backend::Sqlite, _folder: Some(folder) }
}

/// A fresh database on every backend that there is: SQLite always, a server where `./test` started it.
///
/// `test` is `file!()`, to name the suite where a server has to be skipped.
pub async fn backends(test: &str) -> Vec<TestDatabase> {
    let mut all = vec![sqlite()];
    all.extend(servers(test).await);
    all
}

/// As [`backends`], with Postgres a second time, through a pooler that shares its connections by transaction.
pub async fn backends_and_pooled(test: &str) -> Vec<TestDatabase> {
    let mut all = backends(test).await;
    all.extend(pooled(test, Pooler::Transaction).await);
    all
}

/// As [`backends`], without SQLite.
pub async fn servers(test: &str) -> Vec<TestDatabase> {
    [postgres(test).await, mysql(test).await].into_iter().flatten().collect()
}

/// A fresh database on this backend, where there is one.
pub async fn fresh(backend: Backend, test: &str) -> Option<TestDatabase> {
    match backend {
        Backend::Sqlite => Some(sqlite()),
        Backend::Postgres => postgres(test).await,
        Backend::MySql => mysql(test).await,
    }
}

/// A fresh database on the Postgres that `./test` started.
///
/// `test` is `file!()`, to name the suite where it has to be skipped.
pub async fn postgres(test: &str) -> Option<TestDatabase> {
    let server = server("REDRIVE_TEST_POSTGRES", test)?;
    let name = fresh_name();
    let mut connection = sqlx::PgConnection::connect(&server).await.expect("the test Postgres answers");
    let create = format!("CREATE DATABASE {name}");
    connection.execute(AssertSqlSafe(create)).await.expect("CREATE DATABASE");
    let url = with_database(&server, &name);
    Some(TestDatabase { direct: url.clone(), url, backend: Backend::Postgres, _folder: None })
}

/// How a pooler before Postgres shares its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooler {
    /// For one transaction; it ignores what clients set when they connect.
    Transaction,
    /// For as long as a client stays; it refuses what clients set when they connect.
    Session,
}

/// A fresh database on the same Postgres, through the PgBouncer that `./test` started.
///
/// `test` is `file!()`, to name the suite where it has to be skipped.
pub async fn pooled(test: &str, pooler: Pooler) -> Option<TestDatabase> {
    let variable = match pooler {
        Pooler::Transaction => "REDRIVE_TEST_PGBOUNCER",
        Pooler::Session => "REDRIVE_TEST_PGBOUNCER_SESSION",
    };
    let server = server(variable, test)?;
    let database = postgres(test).await?;
    let (_, name) = database.url.rsplit_once('/').expect("a server's address names a database");
    Some(TestDatabase { url: with_database(&server, name), ..database })
}

/// A fresh database on the MariaDB that `./test` started.
///
/// `test` is `file!()`, to name the suite where it has to be skipped.
pub async fn mysql(test: &str) -> Option<TestDatabase> {
    let server = server("REDRIVE_TEST_MYSQL", test)?;
    let name = fresh_name();
    let mut connection = sqlx::MySqlConnection::connect(&server).await.expect("the test MariaDB answers");
    let create = format!("CREATE DATABASE {name}");
    connection.execute(AssertSqlSafe(create)).await.expect("CREATE DATABASE");
    let url = with_database(&server, &name);
    Some(TestDatabase { direct: url.clone(), url, backend: Backend::MySql, _folder: None })
}

/// The address in this variable; where it is missing, the skip is recorded.
#[must_use]
pub fn server(variable: &str, test: &str) -> Option<String> {
    let address = std::env::var(variable).ok().filter(|address| !address.is_empty());
    if address.is_none() {
        skip(test, &format!("{variable} is not set: ./test starts the server"));
    }
    address
}

/// Records that a test was skipped, and why.
pub fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("REDRIVE_TEST_SKIPS") else { return };
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the file of skips");
    // In one piece: suites that run side by side write to the same file.
    file.write_all(format!("{test}\t{reason}\n").as_bytes()).expect("the file of skips");
}

fn fresh_name() -> String {
    format!("t_{}", uuid::Uuid::now_v7().simple())
}

fn with_database(server: &str, name: &str) -> String {
    let (front, _) = server.rsplit_once('/').expect("a server's address names a database");
    format!("{front}/{name}")
}
