//! A Postgres database that nobody else uses and that is dropped afterwards.

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

/// What decides about the figures; printed with them.
const SETTINGS: [&str; 8] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
    "jit",
];

/// A database of our own on a server that may be shared.
#[derive(Debug)]
pub struct Scratch {
    server: String,
    name: String,
}

impl Scratch {
    /// Makes one on this server.
    ///
    /// # Errors
    /// When the server does not answer or does not let us.
    pub async fn create(server: &str) -> anyhow::Result<Self> {
        let scratch =
            Self { server: server.to_owned(), name: format!("redrive_bench_{}", std::process::id()) };
        scratch.on_server(&format!("CREATE DATABASE {}", scratch.name)).await?;
        Ok(scratch)
    }

    /// The same database for somebody else. Only the first should drop it.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { server: self.server.clone(), name: self.name.clone() }
    }

    /// Its address.
    ///
    /// # Errors
    /// When the server's address names no database in whose place we could put ours.
    pub fn url(&self) -> anyhow::Result<String> {
        let (front, last) = self.server.rsplit_once('/').context("a Postgres address ends in /DATABASE")?;
        let options = last.find('?').map_or("", |at| &last[at..]);
        Ok(format!("{front}/{}{options}", self.name))
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn connect(&self) -> anyhow::Result<PgConnection> {
        PgConnection::connect(&self.url()?).await.with_context(|| format!("connecting to {}", self.name))
    }

    /// Its version and the settings that matter, in one line.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn describe(&self) -> anyhow::Result<String> {
        let mut connection = self.connect().await?;
        let version: String = connection.fetch_one("SHOW server_version").await?.try_get(0)?;
        let mut settings = Vec::new();
        for name in SETTINGS {
            let value: String =
                connection.fetch_one(AssertSqlSafe(format!("SHOW {name}"))).await?.try_get(0)?;
            settings.push(format!("{name}={value}"));
        }
        Ok(format!("Postgres {version}, {}", settings.join(" ")))
    }

    /// Drops it, with whoever is still connected.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn drop(self) -> anyhow::Result<()> {
        self.on_server(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
    }

    async fn on_server(&self, statement: &str) -> anyhow::Result<()> {
        let mut connection =
            PgConnection::connect(&self.server).await.context("connecting to the Postgres server")?;
        connection
            .execute(AssertSqlSafe(statement.to_owned()))
            .await
            .with_context(|| statement.to_owned())?;
        Ok(())
    }
}
