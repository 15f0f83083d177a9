//! A database: where it is, and the connections to it.
//!
//! Workers ask often and for little, so the connections that they use are kept open and handed from
//! one call to the next: the driver's pool would ask the server "are you there?" after every use.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use tokio::sync::OwnedMutexGuard;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::row::Row;
use crate::session::{Connection, Session};
use crate::statement::Statement;
use crate::value::Value;

/// The most connections to one server.
const MAX_CONNECTIONS: u32 = 16;
/// The most connections that are kept ready for workers.
const MAX_KEPT: usize = 8;
/// How long to wait for a connection, and for SQLite's lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// A database. Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dialect: Dialect,
    pool: Pool,
    kept: Mutex<Vec<Connection>>,
    /// SQLite has one writer: within the process, writers queue here instead of polling its lock.
    writer: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MySql(MySqlPool),
}

impl Database {
    /// The database at this address. Connects when it is first used; makes a missing SQLite file then.
    ///
    /// # Errors
    /// [`Error::Setting`] when the address cannot be understood.
    pub fn open(url: &str) -> Result<Self, Error> {
        let dialect = Dialect::of_url(url)?;
        let pool = match dialect {
            Dialect::Sqlite => Pool::Sqlite(sqlite(url)?),
            Dialect::Postgres => Pool::Postgres(postgres(url)?),
            Dialect::MySql => Pool::MySql(mysql(url)?),
        };
        let shared = Shared { dialect, pool, kept: Mutex::default(), writer: Arc::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The database at this address, once it has answered.
    ///
    /// # Errors
    /// [`Error::Setting`] for an address that cannot be understood, [`Error::Unavailable`] when
    /// nobody answers.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let database = Self::open(url)?;
        database.ping().await?;
        Ok(database)
    }

    /// Which kind it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        self.rows(&Statement::new(self.dialect(), "SELECT 1"), Vec::new()).await.map(drop)
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.take_kept().clear();
        match &self.shared.pool {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
            Pool::MySql(pool) => pool.close().await,
        }
    }

    /// The driver's own pool, for what only Postgres can do (LISTEN).
    #[must_use]
    pub fn postgres_pool(&self) -> Option<&PgPool> {
        match &self.shared.pool {
            Pool::Postgres(pool) => Some(pool),
            Pool::Sqlite(_) | Pool::MySql(_) => None,
        }
    }

    /// Runs one statement by itself and returns its rows.
    pub(crate) async fn rows(&self, statement: &Statement, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.session().await?.rows(statement, values).await
    }

    /// Runs one statement by itself that changes rows, and returns how many.
    pub(crate) async fn change(&self, statement: &Statement, values: Vec<Value>) -> Result<u64, Error> {
        let _writer = self.writer().await;
        self.session().await?.run(statement, values).await
    }

    /// Begins a transaction that will write. Dropped without a commit, it never happened.
    pub(crate) async fn begin(&self) -> Result<Session, Error> {
        let writer = self.writer().await;
        let mut session = self.session().await?;
        session.begin(writer).await?;
        Ok(session)
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let kept = self.take_kept().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => self.acquire().await?,
        };
        Ok(Session::new(self.clone(), connection))
    }

    /// Takes a connection back that has nothing under way.
    pub(crate) fn keep(&self, connection: Connection) {
        let mut kept = self.take_kept();
        if kept.len() < MAX_KEPT {
            kept.push(connection);
        }
    }

    /// One connection broke: the others to the same server are of no more use.
    pub(crate) fn forget_kept(&self) {
        let broken = std::mem::take(&mut *self.take_kept());
        broken.into_iter().for_each(Connection::discard);
    }

    /// SQLite: the turn to write.
    pub(crate) async fn writer(&self) -> Option<OwnedMutexGuard<()>> {
        match self.shared.dialect {
            Dialect::Sqlite => Some(Arc::clone(&self.shared.writer).lock_owned().await),
            Dialect::Postgres | Dialect::MySql => None,
        }
    }

    async fn acquire(&self) -> Result<Connection, Error> {
        let connection = match &self.shared.pool {
            Pool::Sqlite(pool) => pool.acquire().await.map(Connection::Sqlite),
            Pool::Postgres(pool) => pool.acquire().await.map(Connection::Postgres),
            Pool::MySql(pool) => pool.acquire().await.map(Connection::MySql),
        };
        connection.map_err(|source| Error::from_driver(self.dialect(), source))
    }

    fn take_kept(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sqlite(url: &str) -> Result<SqlitePool, Error> {
    let options: SqliteConnectOptions = url.parse().map_err(bad_address)?;
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL: what was committed survives a power cut, not only a crash of the process.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(PATIENCE);
    Ok(SqlitePoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(PATIENCE).connect_lazy_with(options))
}

fn postgres(url: &str) -> Result<PgPool, Error> {
    let options: PgConnectOptions = url.parse().map_err(bad_address)?;
    let options = options.application_name("redrive");
    Ok(PgPoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(PATIENCE).connect_lazy_with(options))
}

fn mysql(url: &str) -> Result<MySqlPool, Error> {
    let url = url.replacen("mariadb:", "mysql:", 1);
    let options: MySqlConnectOptions = url.parse().map_err(bad_address)?;
    let pool = MySqlPoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(PATIENCE);
    // READ COMMITTED: no gap locks, so claims and inserts do not wait for each other.
    let pool = pool.after_connect(|connection, _| {
        Box::pin(async move {
            let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
            sqlx::query(isolation).execute(connection).await.map(drop)
        })
    });
    Ok(pool.connect_lazy_with(options))
}

/// The address itself stays out of the message: it may hold a password.
fn bad_address(source: sqlx::Error) -> Error {
    Error::Setting(format!("the database address cannot be understood: {source}"))
}
