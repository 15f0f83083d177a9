//! The engine of redrive: one worker loop for every pipeline, and what surrounds it.
//!
//! | module | is |
//! |---|---|
//! | [`Engine`] | starts pipelines, stops them |
//! | [`Pipeline`] | a store of work, its handlers and its policy |
//! | [`Pace`], [`Switch`], [`Bell`] | how it works, whether it does, and when it is woken |
//! | [`Routes`] | which handler an event goes to |
//! | `worker` | the loop: claim → handle → judge → settle |
//! | `agenda` | when the worker looks for work next |
//! | `leases` | what a worker holds, and until when by its own clock |
//! | `slots` | so many handlers at a time, panics and time-outs contained |
//! | `judge` | an outcome in, a settlement out |
//! | `witness` | metrics and people hear of what is durable |
//! | `breaker` | an outage is not poison |
//! | `aftermath` | an outage of the store is nobody's failed attempt |
//! | `trial` | only the deadly event is buried, not its neighbours |
//! | [`Remote`] | the same for workers elsewhere, over HTTP |
//! | [`persist`] | write-behind persistence, with its own loop: batches, isolation, schedule |
//! | [`ingest`] | events over HTTP into object storage, with a spool on disk |
//! | `ladder` | where events go when nothing above takes them |
//! | [`findings`] | a damaged journal is told |
//! | `refusals` | a journal that takes nothing is told once |
//! | [`Health`] | how a pipeline is, for `/ready` |
//! | `watch` | thresholds, reports, gauges |
//! | [`auto_redrive`] | policies that redrive by themselves |
//! | [`console`] | every dead letter of every pipeline, and what operators do about them |
//! | [`handlers`] | HTTP, command and Kafka, for services in other languages |
//! | [`alerts`] | who is told, and how often |

mod aftermath;
mod agenda;
mod bell;
mod breaker;
mod engine;
mod health;
mod judge;
mod ladder;
mod leases;
mod pace;
mod pipeline;
mod refusals;
mod remote;
mod routes;
mod slots;
mod switch;
mod trial;
mod watch;
mod witness;
mod worker;

pub mod alerts;
pub mod auto_redrive;
pub mod console;
pub mod findings;
pub mod handlers;
pub mod ingest;
pub mod persist;

pub use bell::Bell;
pub use engine::Engine;
pub use health::Health;
pub use ladder::Rung;
pub use pace::Pace;
pub use persist::{PersistOptions, Persistent, Persister};
pub use pipeline::Pipeline;
pub use remote::{Remote, Reported};
pub use routes::{Route, Routes};
pub use switch::Switch;
pub use watch::{Nudge, WatchOptions};
