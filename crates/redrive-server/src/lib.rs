//! The HTTP face of redrive.
//!
//! Whoever uses this crate brings a bound listener, a [`Site`] (what the routes reach) and a token that
//! ends the show; [`serve`] answers until the token is cancelled, finishes what is in flight, and gives
//! up at the deadline. Every error leaves as a problem document (RFC 9457), whoever caused it: a route of
//! ours, axum, a limit, or a panic.
//!
//! | address | does |
//! |---|---|
//! | `GET /api/v1/health`, `/api/v1/ready` | the process lives; it can work |
//! | `GET /` | the dashboard, for people |
//! | `GET /metrics` | the numbers, for Prometheus |
//! | `GET /openapi.json` | the API, described by its own handlers |
//! | `GET /api/v1/pipelines`, `/pipelines/{name}`, `POST … /pause`, `/resume` | the pipelines |
//! | `GET /api/v1/dead-letters`, `/{id}`, `/{id}/payload` | letters, one letter, its bytes |
//! | `POST /api/v1/dead-letters`, `/{id}/redrive`, `/{id}/resolve` | hands one in, sends it back, closes it |
//! | `GET /api/v1/groups`, `/groups/{fingerprint}` | letters that failed for the same reason |
//! | `POST /api/v1/redrives`, `/resolutions`, `GET /redrives`, `/{id}`, `POST … /pause`, `/resume`, `/cancel` | operations on many |
//! | `GET /api/v1/stats`, `/stream`, `/audit`, `/books` | numbers over time, what changes, who did what, where everything is |
//! | `POST /api/v1/outbox/{name}/events` | puts events into an outbox |
//! | `POST /api/v1/persist/{name}` | hands events to a persist pipeline |
//! | `POST /api/v1/ingest/{name}` | puts events into object storage |
//! | `POST /api/v1/jobs/{name}` | puts jobs into a queue |
//! | `POST /api/v1/jobs/{name}/claim` | a worker asks for jobs |
//! | `POST /api/v1/jobs/{name}/{id}/complete`, `/fail`, `/heartbeat` | and says what became of one |
//!
//! [`routes`] has the shapes.

mod accepted;
mod access;
mod body;
mod caller;
mod changes;
mod conditional;
mod doors;
mod download;
mod event_body;
mod expectation;
mod failures;
mod head;
mod headers;
mod json;
mod lines;
mod metrics;
mod moment;
mod note;
mod openapi;
mod origin;
mod pages;
mod payload;
mod problem;
mod query;
mod readiness;
mod router;
mod series;
mod serve;
mod session;
mod span;
mod trickle;
mod unread;

pub mod diff;
pub mod duration;
pub mod number;
pub mod routes;
pub mod view;

pub use access::{Access, Caller, Grant, Role};
pub use doors::{Doors, Gate, IngestDoor, JobsDoor, OutboxDoor, PersistDoor};
pub use metrics::{Metrics, MetricsError};
pub use problem::Problem;
pub use readiness::{Component, Readiness};
pub use router::{Limits, Site, inside, router};
pub use series::Series;
pub use serve::{Error, serve};
