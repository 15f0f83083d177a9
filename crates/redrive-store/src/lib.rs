//! The SQL stores of redrive, on SQLite, Postgres and MySQL/MariaDB.
//!
//! | module | is |
//! |---|---|
//! | [`Database`] | an address and its connections |
//! | [`Outbox`], [`Jobs`], [`FailedEvents`], [`Letters`] | tables that hold work and dead letters |
//! | [`Target`] | the table that a persist pipeline saves in |
//! | [`Operations`], [`Audit`] | what operators do, while they do it and afterwards |
//! | [`Pauses`] | the pipelines that are paused |
//! | [`Requests`] | requests that have a key: each is carried out once |
//! | [`WorkStore`] | the contract with the worker loop |
//! | [`Memory`] | the same contract without a database |
//! | [`conformance`] | the tests that every store passes |
//!
//! The SQL is in `sql/`: what is there for all is portable, `sql/{postgres,mysql,sqlite}/` is the
//! whole difference between them. One Rust implementation serves the three.

mod act;
mod adoption;
mod audit;
mod batch;
mod caller;
mod catalog;
mod checks;
mod columns;
mod convert;
mod database;
mod dead_letters;
mod deadlines;
mod decimal;
mod dialect;
mod edits;
mod error;
mod failed_events;
mod filter;
mod floor;
mod index;
mod indexes;
mod insert;
mod jobs;
mod letters;
mod listener;
mod memory;
mod merge;
mod neighbour;
mod operations;
mod outbox;
mod pauses;
mod postgres;
mod queue;
mod requests;
mod rights;
mod row;
mod samples;
mod schema;
mod search;
mod session;
mod shape;
mod statement;
mod target;
mod value;
mod work;

pub mod conformance;

pub use adoption::Plan;
pub use audit::{Audit, Entry};
pub use caller::Caller;
pub use catalog::{ColumnInfo, Table};
pub use database::Database;
pub use deadlines::Deadlines;
pub use dialect::{Dialect, check_name};
pub use edits::{EditedPayload, Edits};
pub use error::{AddressProblem, DriverError, Error, failure};
pub use failed_events::{FailedEvent, FailedEvents, FailedEventsOptions, MAX_RETRY_COUNT};
pub use index::{Left, MAX_RECORD, Place, ReadLetter, Reading};
pub use jobs::{Completed, Enqueued, Jobs, JobsOptions, NewJob};
pub use letters::{Letters, NewLetter};
pub use listener::Listener;
pub use memory::Memory;
pub use operations::{NewOperation, Opened, Operation, OperationState, Operations, Portion, Sent};
pub use outbox::{Ids, Ordering, Outbox, OutboxOptions, Processed};
pub use pauses::Pauses;
pub use postgres::PostgresServer;
pub use redrive_core::trouble::Reason;
pub use requests::{Answered, Asked, RequestKey, Requests};
pub use rights::Grant;
pub use samples::{Sample, Samples};
pub use target::{Record, Target, TargetOptions};
pub use work::{Announcements, Claim, TakeOver, Turn, WorkStore};
