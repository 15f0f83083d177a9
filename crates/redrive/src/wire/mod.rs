//! From a valid configuration to what runs: stores, handlers, alerts, pipelines. The only folder that
//! knows how those are made.
//!
//! ```text
//! Config ──stores──▶ Stores (parts that can be migrated and pinged)
//!                      └──plant──▶ Plant (pipelines that start once their part is prepared, and their doors)
//! ```
//! Nothing is connected here: that is what preparing a part does. Call it within a runtime, which the
//! drivers need.

mod alerts;
mod databases;
mod handlers;
mod ingest;
mod inside;
mod intake;
mod jobs;
pub(crate) mod kafka;
mod launch;
mod outbox;
mod pace;
mod part;
mod persist;
mod plant;
mod rules;
mod stores;

pub(crate) use alerts::alerts;
pub(crate) use ingest::target as ingest_target;
pub(crate) use inside::Inside;
pub(crate) use launch::Launch;
pub(crate) use part::Part;
pub(crate) use plant::Plant;
pub(crate) use stores::Stores;
