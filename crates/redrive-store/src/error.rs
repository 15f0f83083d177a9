//! What a caller can do about a store that did not do as asked.

use std::fmt;
use std::time::Duration;

use redrive_core::classify;
use redrive_core::classify::blame::blames_record;
use redrive_core::dead_letter::Unavailable;
use redrive_core::event::Refused;
use redrive_core::failure::{Class, Code, Failure};
use redrive_core::trouble::{Reason, Trouble};

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
        source: DriverError,
    },
    /// No connection can be made with this address until a person corrects the address or the server.
    #[error("{}", misaddressed(*.dialect, *.problem, .source))]
    Misaddressed {
        /// Which kind of store.
        dialect: Dialect,
        /// What is wrong.
        problem: AddressProblem,
        /// What the driver said.
        source: DriverError,
    },
    /// The store refused the statement, or what it would write; the same statement will be refused again.
    #[error("the {dialect} store refused a statement: {source}")]
    Rejected {
        /// Which kind of store.
        dialect: Dialect,
        /// What the driver said.
        source: DriverError,
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

/// What is wrong with the address of a store, or with what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressProblem {
    /// The server does not let this user in, or not with this password, or not into this database.
    Credentials,
    /// The server has no database of this name.
    NoDatabase,
    /// A server of another kind answers there.
    OtherServer,
    /// The SQLite file cannot be opened or made.
    FileNotOpened,
    /// The file is not a SQLite database.
    NotADatabase,
}

impl Error {
    /// Whether the same call may succeed later, be it that a person has to correct something first.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Misaddressed { .. })
    }

    /// Why, as a fixed code.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unavailable { dialect, source } => match code(*dialect, &source.0) {
                Some(_) => Reason::StoreBusy,
                None => Reason::StoreUnreachable,
            },
            Self::Misaddressed { problem, .. } => match problem {
                AddressProblem::Credentials => Reason::CredentialsRefused,
                AddressProblem::NoDatabase => Reason::DatabaseMissing,
                AddressProblem::OtherServer => Reason::WrongServer,
                AddressProblem::FileNotOpened | AddressProblem::NotADatabase => Reason::FileUnusable,
            },
            Self::Rejected { .. } | Self::Unsuitable { .. } => Reason::TableRefused,
            Self::Refused { .. } | Self::OtherRequest(_) | Self::Busy(_) => Reason::RequestRefused,
            Self::Setting(_) => Reason::SettingRefused,
        }
    }

    /// Why, as a fixed code and in words.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        Trouble::new(self.reason(), self.to_string())
    }

    /// What it means for the event that was being written.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Unavailable { dialect, source } => {
                // Whatever kept us from asking, it is not the event's fault.
                Failure { class: Class::Transient, ..failure(*dialect, &source.0) }
            }
            Self::Misaddressed { dialect, source, .. } => {
                Failure { class: Class::Transient, message: self.to_string(), ..failure(*dialect, &source.0) }
            }
            Self::Rejected { dialect, source } => failure(*dialect, &source.0),
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
        match code(*dialect, &source.0) {
            Some(Code::SqlState(state)) => state == "40001" || state == "40P01",
            Some(Code::MySql(number)) => number == 1213 || number == 1020,
            _ => false,
        }
    }

    /// Whether a constraint, a trigger or the type of a column refused what was written, and another row may be taken.
    #[must_use]
    pub fn is_about_the_data(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Rejected { dialect, source } => {
                code(*dialect, &source.0).is_some_and(|code| blames_record(&code))
            }
            _ => false,
        }
    }

    /// Whether a unique index refused a row of MySQL's.
    pub(crate) fn is_duplicate_in_mysql(&self) -> bool {
        matches!(self, Self::Rejected { dialect, source } if code(*dialect, &source.0) == Some(Code::MySql(1062)))
    }

    /// Whether MySQL refused a statement for want of a right.
    pub(crate) fn is_denied_in_mysql(&self) -> bool {
        matches!(self, Self::Rejected { dialect, source }
            if matches!(code(*dialect, &source.0), Some(Code::MySql(1142 | 1143))))
    }

    pub(crate) fn from_driver(dialect: Dialect, source: sqlx::Error) -> Self {
        // A statement that lacks a right is no outage: somebody must grant it.
        let is_denied = matches!(code(dialect, &source), Some(Code::MySql(1142 | 1143)));
        if failure(dialect, &source).class == Class::Transient && !is_denied {
            Self::Unavailable { dialect, source: source.into() }
        } else {
            Self::Rejected { dialect, source: source.into() }
        }
    }

    /// Whatever keeps us from connecting, no statement is at fault.
    pub(crate) fn from_connecting(dialect: Dialect, source: sqlx::Error) -> Self {
        let source = DriverError(source);
        match address_problem(dialect, &source.0) {
            Some(problem) => Self::Misaddressed { dialect, problem, source },
            None => Self::Unavailable { dialect, source },
        }
    }

    pub(crate) fn for_queue(self, pipeline: &str) -> Unavailable {
        Unavailable { pipeline: pipeline.to_owned(), source: Box::new(self) }
    }
}

/// What a driver said, without the places in the server's source code that it adds to that.
pub struct DriverError(sqlx::Error);

impl DriverError {
    /// The driver's own error.
    #[must_use]
    pub const fn inner(&self) -> &sqlx::Error {
        &self.0
    }
}

impl From<sqlx::Error> for DriverError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&said(&self.0))
    }
}

/// As `Display`: a message that is made of a `Debug` must not hold more.
impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverError({self})")
    }
}

/// No source of its own: whoever prints a chain of errors would print the driver's wording again.
impl std::error::Error for DriverError {}

/// What a driver said. The Postgres driver adds the line of the server's source code that reported the error.
fn said(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => {
            match database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
                Some(postgres) => postgres.message().to_owned(),
                None => database.to_string(),
            }
        }
        sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            "it did not answer in time".to_owned()
        }
        sqlx::Error::PoolTimedOut => "all connections to it are in use".to_owned(),
        other => other.to_string(),
    }
}

fn misaddressed(dialect: Dialect, problem: AddressProblem, source: &DriverError) -> String {
    match problem {
        AddressProblem::Credentials => format!(
            "the {dialect} server does not let this user in: {source}; correct user and password in the database \
             address, or the user's rights on the server"
        ),
        AddressProblem::NoDatabase => format!(
            "the {dialect} server has no such database: {source}; create it, or correct its name in the database \
             address"
        ),
        AddressProblem::OtherServer => format!("this is no {dialect} server: {source}"),
        AddressProblem::FileNotOpened => format!(
            "the SQLite file cannot be opened: {source}; check that its folder exists and that this user may read \
             and write both"
        ),
        AddressProblem::NotADatabase => {
            format!("the file is not a SQLite database: {source}; correct the path, or move the file away")
        }
    }
}

/// What is wrong with an address, if that is why no connection was made.
fn address_problem(dialect: Dialect, error: &sqlx::Error) -> Option<AddressProblem> {
    if let sqlx::Error::Configuration(source) = error {
        return source.is::<OtherServer>().then_some(AddressProblem::OtherServer);
    }
    match code(dialect, error)? {
        Code::SqlState(state) => match state.as_str() {
            // 42501: no right to connect to this database.
            "28P01" | "28000" | "42501" => Some(AddressProblem::Credentials),
            "3D000" => Some(AddressProblem::NoDatabase),
            // What a pooler says, in words only.
            "08P01" => pooler_problem(&said(error)),
            _ => None,
        },
        // 1698: a user who may only come by another way; 1130: not from this host.
        Code::MySql(1045 | 1044 | 1698 | 1130) => Some(AddressProblem::Credentials),
        Code::MySql(1049) => Some(AddressProblem::NoDatabase),
        Code::Sqlite(result) => match result & 0xff {
            14 => Some(AddressProblem::FileNotOpened),
            26 => Some(AddressProblem::NotADatabase),
            _ => None,
        },
        _ => None,
    }
}

fn pooler_problem(said: &str) -> Option<AddressProblem> {
    let has = |words: &str| said.contains(words);
    if has("no such database") || has("database \"") && has("does not exist") {
        Some(AddressProblem::NoDatabase)
    } else if has("no such user") || has("authentication failed") || has("role \"") && has("does not exist") {
        Some(AddressProblem::Credentials)
    } else {
        None
    }
}

/// A server of another kind answers at the address.
#[derive(Debug, thiserror::Error)]
#[error("{found} answers there; begin the database address with {scheme}, or correct host and port")]
pub(crate) struct OtherServer {
    pub(crate) found: &'static str,
    pub(crate) scheme: &'static str,
}

impl OtherServer {
    pub(crate) fn error(self) -> sqlx::Error {
        sqlx::Error::Configuration(Box::new(self))
    }
}

/// The address itself stays out of the message: it may hold a password.
pub(crate) fn bad_address(source: &sqlx::Error) -> Error {
    Error::Setting(format!("the database address cannot be understood: {source}"))
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
        Some(code) => Failure::new(classify::classify(&code), "Database", said(error)).with_code(code),
        None => Failure::new(class_without_code(error), "Database", said(error)),
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
        | sqlx::Error::Configuration(_)
        | sqlx::Error::WorkerCrashed => Class::Transient,
        _ => Class::Permanent,
    }
}
