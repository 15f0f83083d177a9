//! The engine of redrive: one worker loop for every pipeline, and what surrounds it.
//!
//! | module | is |
//! |---|---|
//! | [`Pipeline`] | a store of work, its handlers and its policy |
//! | [`Engine`] | starts pipelines, stops them |
//! | `worker` | the loop: claim → handle → judge → settle |
//! | `judge` | an outcome in, a settlement out |
//! | [`breaker`] | an outage is not poison |
//! | [`Remote`] | the same for workers elsewhere, over HTTP |
//! | `aftermath` | an outage of the store is nobody's failed attempt |
//! | `trial` | only the deadly event is buried, not its neighbours |
//! | `slots` | so many handlers at a time, panics and time-outs contained |
//! | [`persist`] | write-behind persistence, with its own loop: batches, isolation, schedule |
//! | `ladder` | where events go when nothing above takes them |
//! | `findings` | a damaged journal is told |
//! | `refusals` | a journal that takes nothing is told once |
//! | `watch` | thresholds, reports, gauges |
//! | [`auto_redrive`] | policies that redrive by themselves |
//! | [`console`] | every dead letter of every pipeline, and what operators do about them |
//! | [`ingest`] | events over HTTP into object storage, with a spool on disk |
//! | [`handlers`] | HTTP, command and Kafka, for services in other languages |
//! | [`alerts`] | who is told, and how often |

mod aftermath;
mod agenda;
mod engine;
pub mod findings;
mod health;
mod judge;
mod ladder;
mod pipeline;
mod refusals;
mod remote;
mod routes;
mod slots;
mod trial;
mod watch;
mod witness;
mod worker;

pub mod alerts;
pub mod auto_redrive;
pub mod breaker;
pub mod console;
pub mod handlers;
pub mod ingest;
pub mod persist;

pub use engine::Engine;
pub use health::Health;
pub use ladder::Rung;
pub use persist::{PersistOptions, Persistent, Persister};
pub use pipeline::{Bell, Pace, Pipeline, Switch};
pub use remote::{Remote, Reported};
pub use routes::{Route, Routes};
pub use watch::{Nudge, WatchOptions};
