//! redrive: one dead-letter layer for every pipeline.
//!
//! This crate is the binary `redrive` and the front door for library users. What is needed to run an
//! outbox, a job queue or a persister inside a program of your own is re-exported here; the rest is under
//! [`core`] (decisions), [`store`] (tables), [`engine`] (workers), `kafka` (a topic into a database) and
//! [`config`] (`redrive.toml`).
//!
//! An outbox with a handler in Rust:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use redrive::{
//!     Backoff, Database, Engine, Event, Failure, Handler, NewEvent, Outbox, OutboxOptions, Pipeline, PipelineKind,
//!     Policy, Route, Routes, WatchOptions, async_trait,
//! };
//!
//! /// Ships what was ordered; an order without an address is nobody's to retry.
//! #[derive(Default)]
//! struct Ship {
//!     shipped: Mutex<Vec<String>>,
//! }
//!
//! #[async_trait]
//! impl Handler for Ship {
//!     async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
//!         batch.iter().map(|event| self.ship(event)).collect()
//!     }
//! }
//!
//! impl Ship {
//!     fn ship(&self, event: &Event) -> Result<(), Failure> {
//!         if event.payload.is_empty() {
//!             return Err(Failure::permanent("NoAddress", "the order has no address"));
//!         }
//!         self.shipped.lock().unwrap().push(event.key.clone());
//!         Ok(())
//!     }
//! }
//!
//! fn order(id: &str, address: &str) -> NewEvent {
//!     NewEvent {
//!         event_type: "OrderCreated".into(),
//!         aggregate_type: "Order".into(),
//!         aggregate_id: id.into(),
//!         payload: address.into(),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! # let url = format!("sqlite:{}", file.display());
//! // let url = "postgres://app@db/shop";
//! let database = Database::open(&url)?;
//! let outbox = Arc::new(Outbox::new(database, OutboxOptions::new("orders"))?);
//! outbox.migrate().await?;
//!
//! let ship = Arc::new(Ship::default());
//! let routes = HashMap::from([("OrderCreated".to_owned(), Route::new("ship", ship.clone()))]);
//! let retries = Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(300))?;
//! let pipeline = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), Policy::new(6, retries))
//!     .handled_by(Routes::ByType(routes));
//! let pipeline = Arc::new(pipeline);
//!
//! let engine = Engine::new();
//! engine.start(&pipeline, WatchOptions::default());
//!
//! // An application inserts into the table itself, in the transaction of its order.
//! outbox.append(vec![order("1", "Main Street 1"), order("2", "")]).await?;
//! pipeline.bell.ring();
//!
//! # let mut tries = 0;
//! while pipeline.letters.stats().await?.waiting() == 0 || ship.shipped.lock().unwrap().is_empty() {
//! #   tries += 1;
//! #   assert!(tries < 500, "nothing happens");
//!     tokio::time::sleep(Duration::from_millis(20)).await;
//! }
//! engine.stop().await;
//! assert_eq!(*ship.shipped.lock().unwrap(), ["1"]);
//! assert_eq!(pipeline.letters.stats().await?.waiting(), 1);
//! # Ok(())
//! # }
//! ```

pub mod config;

pub use async_trait::async_trait;
pub use redrive_core as core;
pub use redrive_core::backoff::Backoff;
pub use redrive_core::column;
pub use redrive_core::dead_letter::{DeadLetterQueue, Operator, PipelineKind};
pub use redrive_core::event::{Event, NewEvent, WorkId};
pub use redrive_core::failure::{Class, Code, Failure};
pub use redrive_core::handler::Handler;
pub use redrive_core::policy::Policy;
pub use redrive_engine as engine;
pub use redrive_engine::ingest;
pub use redrive_engine::{
    Engine, Pace, PersistOptions, Persistent, Persister, Pipeline, Remote, Reported, Route, Routes,
    WatchOptions, alerts, handlers, persist,
};
#[cfg(feature = "kafka")]
pub use redrive_kafka as kafka;
pub use redrive_spool as spool;
pub use redrive_store as store;
pub use redrive_store::{
    Database, Enqueued, Error, FailedEvents, FailedEventsOptions, Jobs, JobsOptions, NewJob, Ordering,
    Outbox, OutboxOptions, Processed, Target, TargetOptions,
};

/// The examples of docs/library.md, compiled as everybody else's.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryGuide;
