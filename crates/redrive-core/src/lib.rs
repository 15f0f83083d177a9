//! The decisions of redrive, pure: no clock, no randomness, no I/O.
//!
//! Time, seeds and outcomes come in as arguments; verdicts, next states and plans go out.
//! Everything that touches a database, a disk or a socket lives in another crate and asks here
//! what to do. That is why a test of this crate needs neither a server nor a sleep.
//!
//! | module | decides |
//! |---|---|
//! | [`event`] | what an event is, and which ones are refused at the door |
//! | [`failure`] | what went wrong with *the user's* event |
//! | [`classify`] | transient, permanent, malformed …: one table per system that reports codes |
//! | [`backoff`], [`policy`] | when to try again, and when to stop |
//! | [`history`] | which attempts are remembered |
//! | [`state`] | every legal transition, in one `match` per machine |
//! | [`ladder`] | where events go when the place they belong in cannot take them |
//! | [`lease`] | who may settle a piece of work, and how |
//! | [`bisect`] | which records of a failed batch are the poison |
//! | [`mod@column`], [`extract`] | which part of a JSON text goes into which column |
//! | [`fingerprint`] | which failures are "the same" |
//! | [`dead_letter`] | what an operator sees, filters and acts on |
//! | [`books`] | whether everything that was accepted is somewhere |
//! | [`trouble`] | why something cannot do its work, as a code and in words |
//! | [`handler`] | the one trait that users implement |

pub mod backoff;
pub mod bisect;
pub mod books;
pub mod classify;
pub mod column;
pub mod dead_letter;
pub mod event;
pub mod extract;
pub mod failure;
pub mod fingerprint;
pub mod handler;
pub mod history;
pub mod ladder;
pub mod lease;
pub mod policy;
pub mod state;
pub mod trouble;
