//! The way to a Postgres server: directly, or through a pooler.
//!
//! A pooler in transaction mode (PgBouncer, and others like it) gives a client a connection to the server for one
//! transaction at a time. What a session remembers is then lost, or worse, found by somebody else: settings,
//! prepared statements, LISTEN. The driver prepares a statement in one exchange and runs it in the next, so even a
//! statement without a name must be inside a transaction. Behind such a pooler
//!
//! - every statement runs between BEGIN and COMMIT,
//! - no statement has a name,
//! - settings are made with SET LOCAL, as part of BEGIN.
//!
//! Whether there is a pooler is found out on connecting: a server takes settings in the first message of a client,
//! a pooler refuses those that it does not know, or ignores them. Which mode it is in cannot be seen, so any pooler
//! is taken for one in transaction mode, which works with all of them. `?pooler=session`, `?pooler=transaction` and
//! `?pooler=none` in the address say it instead.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};

use crate::error::{Error, OtherServer, bad_address};
use crate::neighbour;

/// A Postgres server, or the pooler before it: how to connect, and what was learned by doing so.
#[derive(Debug)]
pub struct PostgresServer {
    options: PgConnectOptions,
    settings: Vec<(&'static str, String)>,
    pooler: Option<Pooler>,
    /// A pooler was seen. It stays: an address that led to one once may do so again.
    seen: AtomicBool,
    /// The address asks for statements without names.
    unnamed: bool,
}

/// What stands between us and the server, as the address says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooler {
    None,
    Session,
    Transaction,
}

/// The driver sends it in its first message; a server has 1 by default.
const MARK: (&str, &str) = ("extra_float_digits", "2");

impl PostgresServer {
    /// The server at this address, with these settings for each connection. Nothing is asked of it yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when the address cannot be understood.
    pub fn open(url: &str, settings: Vec<(&'static str, String)>) -> Result<Self, Error> {
        let Parameters { url, pooler, unnamed } = Parameters::of(url)?;
        let options: PgConnectOptions = url.parse().map_err(|source| bad_address(&source))?;
        let options = options.application_name("redrive").disable_statement_logging();
        Ok(Self { options, settings, pooler, seen: AtomicBool::new(false), unnamed })
    }

    /// Connects.
    ///
    /// # Errors
    /// What the driver says; a server of another kind is a configuration error.
    pub async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        match self.dial().await {
            Err(error) if speaks_nonsense(&error) && self.options.get_socket().is_none() => {
                let (host, port) = (self.options.get_host(), self.options.get_port());
                Err(neighbour::is_mysql(host, port).await.map_or(error, OtherServer::error))
            }
            done => done,
        }
    }

    /// Whether every statement must be in a transaction. Known once a connection was made.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        match self.pooler {
            Some(pooler) => pooler == Pooler::Transaction,
            None => self.seen.load(Ordering::Relaxed),
        }
    }

    /// Whether statements may have names, and so be prepared once per connection.
    #[must_use]
    pub fn names_statements(&self) -> bool {
        !self.unnamed && !self.is_pooled()
    }

    /// What begins a transaction: behind a pooler, with the settings.
    #[must_use]
    pub fn begin(&self) -> String {
        if !self.is_pooled() {
            return "BEGIN".to_owned();
        }
        let settings = self.settings.iter().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'"));
        std::iter::once("BEGIN".to_owned()).chain(settings).collect()
    }

    /// For a connection that listens: no settings of ours.
    pub(crate) fn plain(&self) -> PgConnectOptions {
        self.options.clone().extra_float_digits(None)
    }

    async fn dial(&self) -> Result<PgConnection, sqlx::Error> {
        match self.pooler {
            Some(Pooler::None) => PgConnection::connect_with(&self.direct()).await,
            Some(Pooler::Session) => self.dial_session().await,
            Some(Pooler::Transaction) => PgConnection::connect_with(&self.plain()).await,
            None if self.is_pooled() => PgConnection::connect_with(&self.plain()).await,
            None => self.find_out().await,
        }
    }

    /// Connects as to a server, and looks whether it is one.
    async fn find_out(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = match PgConnection::connect_with(&self.direct()).await {
            Err(error) if refuses_settings(&error) => {
                let connection = PgConnection::connect_with(&self.plain()).await?;
                self.seen.store(true, Ordering::Relaxed);
                return Ok(connection);
            }
            connected => connected?,
        };
        let (name, value) = MARK;
        let text = format!("SELECT current_setting('{name}')");
        let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(text))).await?;
        if row.try_get::<String, _>(0)? != value {
            self.seen.store(true, Ordering::Relaxed);
        }
        Ok(connection)
    }

    async fn dial_session(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = PgConnection::connect_with(&self.plain()).await?;
        for (name, value) in &self.settings {
            connection.execute(AssertSqlSafe(format!("SET {name} = '{value}'"))).await?;
        }
        Ok(connection)
    }

    fn direct(&self) -> PgConnectOptions {
        self.options.clone().options(self.settings.iter().map(|(name, value)| (*name, value.as_str())))
    }
}

/// Whether it is the first message itself that was refused: by PgBouncer, or by a proxy of Amazon's.
fn refuses_settings(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("08P01" | "0A000"))
}

/// Whether what answered may not be Postgres at all. One that refuses to connect is nobody.
fn speaks_nonsense(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.kind() != std::io::ErrorKind::ConnectionRefused,
        _ => false,
    }
}

/// What an address says that is for us, and the rest of it, which is for the driver.
#[derive(Debug, PartialEq, Eq)]
struct Parameters {
    url: String,
    pooler: Option<Pooler>,
    unnamed: bool,
}

impl Parameters {
    fn of(url: &str) -> Result<Self, Error> {
        let mut found = Self { url: url.to_owned(), pooler: None, unnamed: false };
        let Some((front, query)) = url.split_once('?') else { return Ok(found) };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("pooler", "none")) | Some(("pgbouncer", "false")) => found.pooler = Some(Pooler::None),
                Some(("pooler", "session")) => found.pooler = Some(Pooler::Session),
                Some(("pooler", "transaction")) | Some(("pgbouncer", "true")) => {
                    found.pooler = Some(Pooler::Transaction);
                }
                Some((name @ ("pooler" | "pgbouncer"), _)) => {
                    return Err(Error::Setting(format!(
                        "the database address has a {name} that is unknown: use pooler=transaction, \
                         pooler=session or pooler=none"
                    )));
                }
                Some(("statement_cache_capacity" | "statement-cache-capacity", capacity)) => {
                    found.unnamed = capacity == "0";
                    rest.push(format!("statement-cache-capacity={capacity}"));
                }
                _ => rest.push(pair.to_owned()),
            }
        }
        found.url = if rest.is_empty() { front.to_owned() } else { format!("{front}?{}", rest.join("&")) };
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_given_what_is_not_for_us() {
        let parameters = |text: &str| Parameters::of(&format!("postgres://h/d{text}"));
        let found = parameters("?sslmode=disable&pooler=session&statement_cache_capacity=0").ok();
        let url = "postgres://h/d?sslmode=disable&statement-cache-capacity=0".to_owned();
        assert_eq!(found, Some(Parameters { url, pooler: Some(Pooler::Session), unnamed: true }));
        for (text, pooler) in [("", None), ("?pgbouncer=true", Some(Pooler::Transaction))] {
            let url = "postgres://h/d".to_owned();
            assert_eq!(parameters(text).ok(), Some(Parameters { url, pooler, unnamed: false }));
        }
        assert!(parameters("?pooler=statement").is_err());
    }
}
