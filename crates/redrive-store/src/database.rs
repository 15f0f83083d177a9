//! A database: where it is, and the connections to it.
//!
//! Workers ask often and for little, so the connections that they use are kept open and handed from
//! one call to the next. The driver's own pool would ask the server "are you there?" after every use,
//! and would hide for ten seconds why it cannot connect.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::deadlines::{Deadlines, within};
use crate::dialect::{Dialect, check_name};
use crate::error::{Error, bad_address};
use crate::listener::Listener;
use crate::neighbour;
use crate::postgres::PostgresServer;
use crate::row::Row;
use crate::session::{Connection, Session};
use crate::statement::{Effort, Statement};
use crate::value::Value;

/// The most connections to one server.
const MAX_CONNECTIONS: usize = 16;
/// How many rows SQLite may be ahead of us.
const ROWS: usize = 500;

/// A database. Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub struct Database {
    shared: Arc<Shared>,
    /// The schema of redrive's own tables, if it is not the current one.
    own_schema: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    dialect: Dialect,
    address: Address,
    deadlines: Deadlines,
    room: Arc<Semaphore>,
    kept: Mutex<Vec<(Connection, Instant)>>,
    /// SQLite has one writer: within the process, writers queue here instead of polling its lock.
    writer: Arc<tokio::sync::Mutex<()>>,
}

/// Where and how to connect.
#[derive(Debug)]
enum Address {
    Sqlite(Box<SqliteFile>),
    Postgres(Box<PostgresServer>),
    MySql(Box<MySqlConnectOptions>),
}

impl Address {
    /// In a box, as everything that talks to a driver.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, sqlx::Error>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(file) => file.connect().await.map(Connection::Sqlite),
                Self::Postgres(server) => server.connect().await.map(Connection::Postgres),
                Self::MySql(options) => connect_mysql(options).await.map(Connection::MySql),
            }
        })
    }
}

impl Database {
    /// The database at this address. Connects when it is first used; makes a missing SQLite file then.
    ///
    /// # Errors
    /// [`Error::Setting`] when the address cannot be understood.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, Deadlines::default())
    }

    /// As [`Database::open`], with deadlines of the caller's own.
    ///
    /// # Errors
    /// [`Error::Setting`] when the address cannot be understood.
    pub fn open_with(url: &str, deadlines: Deadlines) -> Result<Self, Error> {
        let dialect = Dialect::of_url(url)?;
        let address = match dialect {
            Dialect::Sqlite => Address::Sqlite(Box::new(SqliteFile::open(url, deadlines.connect)?)),
            Dialect::Postgres => Address::Postgres(Box::new(postgres(url)?)),
            Dialect::MySql => Address::MySql(Box::new(mysql(url)?)),
        };
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (kept, writer) = (Mutex::default(), Arc::default());
        let shared = Shared { dialect, address, deadlines, room, kept, writer };
        Ok(Self { shared: Arc::new(shared), own_schema: None })
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

    /// The same database, with redrive's own tables in this schema (MySQL: in this database). SQLite has no schemas.
    ///
    /// # Errors
    /// [`Error::Setting`] when the name cannot be used.
    pub fn with_own_schema(mut self, schema: &str) -> Result<Self, Error> {
        check_name("schema", schema)?;
        self.own_schema = (self.dialect() != Dialect::Sqlite).then(|| schema.into());
        Ok(self)
    }

    /// The schema of redrive's own tables, if it is not the current one.
    pub(crate) fn own_schema(&self) -> Option<&str> {
        self.own_schema.as_deref()
    }

    /// The whole name of one of redrive's own tables.
    pub(crate) fn own_table(&self, table: &str) -> String {
        self.own_schema().map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"))
    }

    /// Which kind it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// How long it may take to answer.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        self.shared.deadlines
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        self.rows(&Statement::new(self.dialect(), "SELECT 1"), Vec::new()).await.map(drop)
    }

    /// Closes the connections that nobody uses.
    pub async fn close(&self) {
        let kept = std::mem::take(&mut *self.kept());
        let closing = join_all(kept.into_iter().map(|(connection, _)| connection.close()));
        // A server that does not hear it notices by itself.
        let _ = tokio::time::timeout(self.deadlines().ping, closing).await;
    }

    /// Whether a pooler is known to be between us and the database that shares its connections by transaction: nothing
    /// can be listened to through it.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        matches!(&self.shared.address, Address::Postgres(server) if server.is_pooled())
    }

    /// Hears what is said on these channels, where the database can tell (Postgres, without a pooler that shares its
    /// connections by transaction).
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it does not answer.
    pub async fn listen(&self, channel: &str) -> Result<Option<Listener>, Error> {
        let Address::Postgres(server) = &self.shared.address else { return Ok(None) };
        // Whether there is a pooler is known from the first connection on.
        drop(self.session().await?);
        if self.is_pooled() {
            return Ok(None);
        }
        let connecting = Listener::connect(server.plain(), channel, self.deadlines().connect);
        connecting.await.map(Some).map_err(|source| Error::from_connecting(self.dialect(), source))
    }

    /// Runs one statement by itself and returns its rows.
    pub(crate) async fn rows(&self, statement: &Statement, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.session().await?.rows(statement, values).await
    }

    /// What a statement returns that may look at every row of a table. Postgres would hurry, with every processor
    /// that it has, and those who work beside it would feel it: nobody waits for a count.
    pub(crate) async fn count_rows(
        &self,
        statement: &Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        let statement = &statement.clone().taking(Effort::Count);
        if self.dialect() != Dialect::Postgres {
            return self.rows(statement, values).await;
        }
        let mut session = self.begin().await?;
        let alone = Statement::new(Dialect::Postgres, "SET LOCAL max_parallel_workers_per_gather = 0");
        session.run(&alone, Vec::new()).await?;
        let rows = session.rows(statement, values).await?;
        session.commit().await?;
        Ok(rows)
    }

    /// The single number that a statement returns.
    pub(crate) async fn count(&self, text: &str) -> Result<u64, Error> {
        let rows = self.rows(&Statement::new(self.dialect(), text), Vec::new()).await?;
        let count = rows.first().map(|row| row.int(0)).transpose()?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Runs one statement by itself that changes rows, and returns how many.
    pub(crate) async fn change(&self, statement: &Statement, values: Vec<Value>) -> Result<u64, Error> {
        let _writer = self.writer().await?;
        self.session().await?.run(statement, values).await
    }

    /// Begins a transaction that will write. Dropped without a commit, it never happened.
    pub(crate) async fn begin(&self) -> Result<Session, Error> {
        let writer = self.writer().await?;
        let mut session = self.session().await?;
        session.begin(writer).await?;
        Ok(session)
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let room = Arc::clone(&self.shared.room).acquire_owned();
        let room = match tokio::time::timeout(self.deadlines().connect, room).await {
            Ok(Ok(room)) => room,
            _ => return Err(self.occupied()),
        };
        let connection = match self.take_kept().await {
            Some(connection) => connection,
            None => self.connect_anew().await?,
        };
        Ok(Session::new(self.clone(), connection, room))
    }

    /// Takes a connection back that has nothing under way.
    pub(crate) fn keep(&self, connection: Connection, room: OwnedSemaphorePermit) {
        self.kept().push((connection, Instant::now()));
        drop(room);
    }

    /// One connection broke: the others to the same server are of no more use.
    pub(crate) fn forget_kept(&self) {
        self.kept().clear();
    }

    /// What begins a transaction that will write.
    pub(crate) fn begin_text(&self) -> String {
        match &self.shared.address {
            // IMMEDIATE takes SQLite's lock now, where the busy time-out applies; taken later, in the
            // middle of the transaction, it fails at once with BUSY_SNAPSHOT.
            Address::Sqlite(_) => "BEGIN IMMEDIATE".to_owned(),
            Address::Postgres(server) => server.begin(),
            Address::MySql(_) => "START TRANSACTION".to_owned(),
        }
    }

    /// Whether statements may have names on the server, and so be prepared once per connection.
    pub(crate) fn names_statements(&self) -> bool {
        match &self.shared.address {
            Address::Postgres(server) => server.names_statements(),
            Address::Sqlite(_) | Address::MySql(_) => true,
        }
    }

    /// SQLite: the turn to write.
    pub(crate) async fn writer(&self) -> Result<Option<OwnedMutexGuard<()>>, Error> {
        match self.shared.dialect {
            Dialect::Sqlite => {
                let turn = Arc::clone(&self.shared.writer).lock_owned();
                let turn = tokio::time::timeout(self.deadlines().statement, turn).await;
                turn.map(Some).map_err(|_| self.occupied())
            }
            Dialect::Postgres | Dialect::MySql => Ok(None),
        }
    }

    /// The connection that was used last; one that nobody used for a while may be dead. If it is, so are those that
    /// nobody used for longer: to ask each of them would cost a deadline each.
    async fn take_kept(&self) -> Option<Connection> {
        let Deadlines { idle, ping, .. } = self.deadlines();
        loop {
            let (mut connection, since) = self.kept().pop()?;
            if since.elapsed() < idle || connection.ping(ping).await {
                return Some(connection);
            }
            self.kept().retain(|(_, other)| *other > since && other.elapsed() < idle);
        }
    }

    async fn connect_anew(&self) -> Result<Connection, Error> {
        let connected = within(self.deadlines().connect, self.shared.address.connect()).await;
        connected.map_err(|source| Error::from_connecting(self.dialect(), source))
    }

    fn occupied(&self) -> Error {
        Error::from_connecting(self.dialect(), sqlx::Error::PoolTimedOut)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A SQLite file: how to open it.
#[derive(Debug)]
struct SqliteFile {
    options: SqliteConnectOptions,
    /// Made when it is missing; none for a database in memory, and one that may only be read.
    made: Option<PathBuf>,
}

impl SqliteFile {
    fn open(url: &str, patience: Duration) -> Result<Self, Error> {
        let options: SqliteConnectOptions = url.parse().map_err(|source| bad_address(&source))?;
        let is_made = !["memory", "mode=ro", "immutable"].iter().any(|kind| url.contains(kind));
        let made = is_made.then(|| options.get_filename().to_owned());
        let options = options.disable_statement_logging().create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(patience);
        // A batch of rows on its way from the driver's thread to ours: neither waits for the other.
        let options = options.row_buffer_size(ROWS);
        // FULL: what was committed survives a power cut, not only a crash of the process.
        let options = options.synchronous(SqliteSynchronous::Full);
        Ok(Self { options, made })
    }

    /// Connects. A file that is missing is made for this user only: it holds payloads. SQLite gives the files that it
    /// makes beside it the same mode.
    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        if let Some(path) = &self.made {
            // What keeps it from being made, SQLite says better.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        }
        SqliteConnection::connect_with(&self.options).await
    }
}

/// Generic plans: with the values at hand Postgres trusts its statistics, which know of no leased row
/// right after many were inserted, and then settles a batch by reading the whole table.
fn postgres(url: &str) -> Result<PostgresServer, Error> {
    PostgresServer::open(url, vec![("plan_cache_mode", "force_generic_plan".to_owned())])
}

fn mysql(url: &str) -> Result<MySqlConnectOptions, Error> {
    let options: Result<MySqlConnectOptions, _> = url.replacen("mariadb:", "mysql:", 1).parse();
    options.map(MySqlConnectOptions::disable_statement_logging).map_err(|source| bad_address(&source))
}

/// READ COMMITTED: no gap locks, so claims and inserts do not wait for each other.
async fn connect_mysql(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let mut connection = greeted(options).await?;
    connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    Ok(connection)
}

/// Connects, unless the server stays silent and turns out to be of another kind.
async fn greeted(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let connecting = MySqlConnection::connect_with(options);
    let stranger = async {
        tokio::time::sleep(neighbour::SILENCE).await;
        neighbour::is_postgres(options.get_host(), options.get_port()).await
    };
    tokio::select! {
        connected = connecting => connected,
        Some(other) = stranger, if options.get_socket().is_none() => Err(other.error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

    use super::*;

    #[tokio::test]
    async fn a_file_that_is_made_is_for_this_user_only() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let database = Database::connect(&format!("sqlite:{}", path.display())).await.unwrap();
        database
            .change(&Statement::new(Dialect::Sqlite, "CREATE TABLE t (a INT)"), Vec::new())
            .await
            .unwrap();
        for name in ["shop.db", "shop.db-wal", "shop.db-shm"] {
            let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[tokio::test]
    async fn a_database_in_memory_makes_no_file() {
        let before = std::fs::read_dir(".").unwrap().count();
        for url in ["sqlite::memory:", "sqlite://memory-of?mode=memory"] {
            Database::connect(url).await.unwrap();
        }
        assert_eq!(std::fs::read_dir(".").unwrap().count(), before);
    }

    #[tokio::test]
    async fn postgres_plans_without_looking_at_the_values() {
        let Some(server) = redrive_testkit::postgres(file!()).await else { return };
        let database = Database::connect(&server.url).await.unwrap();
        let text = "SELECT current_setting('plan_cache_mode')";
        let rows = database.rows(&Statement::new(Dialect::Postgres, text), Vec::new()).await.unwrap();
        assert_eq!(rows[0].text(0).unwrap(), "force_generic_plan");
    }
}
