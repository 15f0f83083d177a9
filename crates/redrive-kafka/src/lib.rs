//! The Kafka pipeline of redrive.
//!
//! | module | is |
//! |---|---|
//! | [`record`], [`headers`] | a record byte for byte; what a dead letter says about itself |
//! | [`column`], [`decode`], [`row`] | from a record to a row, or a failure with path and reason |
//! | [`plan`], [`progress`] | what to store, park, bury and commit; pure |
//! | [`sink`] | where rows go: Postgres, MySQL, SQLite, HTTP, or yours |

pub mod column;
pub mod decode;
pub mod headers;
pub mod plan;
pub mod progress;
pub mod record;
pub mod row;
pub mod sink;
