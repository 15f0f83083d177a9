//! What a caller can do about a store that did not do as asked.

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
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
}

impl Error {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
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
