//! What a caller can do about a store that did not do as asked.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::dead_letter::Unavailable;
use redrive_core::event::Refused;
use redrive_core::failure::{Class, Code, Failure};

use crate::dialect::Dialect;

/// A store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, is overloaded or is locked: try the same again, later.
    ///
    /// It may or may not have done it: every operation here can safely be repeated.
    #[error("the {dialect} store is not available, try again: {source}")]
    Unavailable {
        /// Which kind of store.
        dialect: Dialect,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The store refused the statement; the same statement will be refused again.
    #[error("the {dialect} store refused a statement: {source}")]
    Rejected {
        /// Which kind of store.
        dialect: Dialect,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The caller's input cannot be kept. Nothing was stored.
    #[error("item {item}: {source}")]
    Refused {
        /// Which one of the batch, from 0.
        item: usize,
        /// What is wrong with it.
        source: Refused,
    },
    /// A key makes several requests one, and this one is not the request that has it.
    #[error("the key {0} is that of a request for something else: use a new key for each")]
    OtherRequest(String),
    /// Many requests with this key come and go: the same again is answered in a moment.
    #[error("the key {0} is being used by others right now: send it again in a moment")]
    Busy(String),
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The tables that are there cannot be used as they are. Nothing was changed.
    #[error("the tables cannot be used as they are, and nothing was changed: {}", problems.join("; "))]
    Unsuitable {
        /// What is wrong, each with what to do about it.
        problems: Vec<String>,
    },
}

impl Error {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// What it means for the event that was being written.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Unavailable { dialect, source } => {
                // Whatever kept us from asking, it is not the event's fault.
                Failure { class: Class::Transient, ..failure(*dialect, source) }
            }
            Self::Rejected { dialect, source } => failure(*dialect, source),
            Self::Refused { .. } => Failure::permanent("Refused", self.to_string()),
            Self::Busy(_) => Failure::transient("Busy", self.to_string()),
            Self::OtherRequest(_) => Failure::permanent("OtherRequest", self.to_string()),
            Self::Setting(_) => Failure::unclassified("Setting", self.to_string()),
            Self::Unsuitable { .. } => Failure::unclassified("UnsuitableTable", self.to_string()),
        }
    }

    /// Whether a transaction was undone because another one was in its way: it can be run again at once.
    fn is_conflict(&self) -> bool {
        let Self::Unavailable { dialect, source } = self else { return false };
        match code(*dialect, source) {
            Some(Code::SqlState(state)) => state == "40001" || state == "40P01",
            Some(Code::MySql(number)) => number == 1213 || number == 1020,
            _ => false,
        }
    }

    /// Whether a unique index refused a row of MySQL's.
    pub(crate) fn is_duplicate_in_mysql(&self) -> bool {
        matches!(self, Self::Rejected { dialect, source } if code(*dialect, source) == Some(Code::MySql(1062)))
    }

    pub(crate) fn from_driver(dialect: Dialect, source: sqlx::Error) -> Self {
        if failure(dialect, &source).class == Class::Transient {
            Self::Unavailable { dialect, source }
        } else {
            Self::Rejected { dialect, source }
        }
    }

    pub(crate) fn for_queue(self, pipeline: &str) -> Unavailable {
        Unavailable { pipeline: pipeline.to_owned(), source: Box::new(self) }
    }
}

/// How often a transaction is tried that loses against others.
const TRIES: u32 = 10;

/// Runs a transaction, and again when it was the victim of a deadlock: it has changed nothing then.
pub(crate) async fn again<T, F>(transaction: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for tried in 1..TRIES {
        match transaction().await {
            Err(error) if error.is_conflict() => {
                tokio::time::sleep(Duration::from_millis(tried.into())).await;
            }
            result => return result,
        }
    }
    transaction().await
}

/// What a driver's error means for the event that was being written.
#[must_use]
pub fn failure(dialect: Dialect, error: &sqlx::Error) -> Failure {
    match code(dialect, error) {
        Some(code) => Failure::new(classify::classify(&code), "Database", error.to_string()).with_code(code),
        None => Failure::new(class_without_code(error), "Database", error.to_string()),
    }
}

fn code(dialect: Dialect, error: &sqlx::Error) -> Option<Code> {
    let text = error.as_database_error()?.code()?;
    match dialect {
        Dialect::Postgres => Some(Code::SqlState(text.into_owned())),
        Dialect::Sqlite => text.parse().ok().map(Code::Sqlite),
        Dialect::MySql => error
            .as_database_error()?
            .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
            .map(|error| Code::MySql(error.number())),
    }
}

/// Without a code the failure is on the way to the server, not in the data, unless a value could
/// not be encoded or decoded.
fn class_without_code(error: &sqlx::Error) -> Class {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Class::Transient,
        _ => Class::Permanent,
    }
}
