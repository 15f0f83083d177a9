//! The API under `/api/v1`, one file per noun.
//!
//! Bodies and answers are JSON. Durations are text (`"10s"`, `"1h30m"`) or a number of seconds. Unknown
//! fields are refused with their name.
//!
//! **Payloads.** In: a JSON string is kept as its text; anything else, `null` included, as the JSON text
//! that was sent, byte for byte. Out: text is a JSON string, `{"payload": "…"}`; bytes that are no UTF-8,
//! which only another program can have put there, are `{"payload_base64": "…"}` instead.
//!
//! # Events into an outbox
//! `POST /outbox/{name}/events`, one object or an array, all or none:
//! ```json
//! [{"event_type": "OrderCreated", "aggregate_type": "Order", "aggregate_id": "42", "payload": {"total": 99}}]
//! ```
//! `event_type` and `payload` are required. Answer: 201 `{"ids": [1]}`, in the same order; an empty array
//! is `{"ids": []}`. A type that nobody handles is accepted, and becomes a dead letter that says so.
//!
//! # Events into object storage
//! `POST /ingest/{name}` with `Content-Type: application/json`, one value or an array, or
//! `application/x-ndjson`, one value per line; `Content-Encoding` may be `gzip` or `zstd`. Answer: 202
//! `{"accepted": 100}`: durable on disk, unless the pipeline is set to answer from memory. All or none; with
//! `?invalid=skip` the good lines of an NDJSON body, and `"rejected": [{"line": 3, "error": "…"}]`, the first
//! hundred of the others. 503 when there is no room, 400 with the line that is wrong.
//!
//! # Jobs into a queue
//! `POST /jobs/{name}`, one object or an array, all or none:
//! ```json
//! [{"subject": "7", "payload": "text", "priority": 0, "delay": "10s", "max_retries": 3, "unique_key": "7"}]
//! ```
//! Only `subject` is required. Answer: 201 `{"jobs": [{"id": 1}, {"duplicate": true}]}`, in the same order;
//! a duplicate has the `unique_key` of a job that is pending or running.
//!
//! # Workers in any language
//! - `POST /jobs/{name}/claim` `{"worker": "w1", "limit": 10, "lease": "30s", "wait": "20s"}`; all of it may
//!   be left out: `{}`. `limit` is 1 to 1000 (1), `lease` one second to an hour (the
//!   pipeline's), `wait` up to a minute (none): how long to wait for a job when there is none. Answer: 200
//!   ```json
//!   {"jobs": [{"id": 1, "lease": "1", "until": "2025-10-21T07:28:00Z", "subject": "7", "payload": "…",
//!              "attempt": 1, "max_retries": 3, "created_at": "2025-10-21T07:27:30Z"}]}
//!   ```
//!   `lease` is the right to report about this claim of the job; give it back as it is.
//! - `POST /jobs/{name}/{id}/complete` `{"lease": "1"}` → 204.
//! - `POST /jobs/{name}/{id}/fail` `{"lease": "1", "error": "no answer", "kind": "Timeout",
//!   "class": "transient", "code": "http:503", "retry_after": "1m"}` → 204. `error` is required. `class` is
//!   `transient`, `permanent`, `malformed` or `unclassified`; without it, the code decides, and without a
//!   code the failure is unclassified: retried to the limit. The queue's policy decides what follows.
//! - `POST /jobs/{name}/{id}/heartbeat` `{"lease": "1", "extend": "30s"}` → 200 `{"until": "…"}`; `extend`
//!   is one second to an hour from now (the pipeline's lease).
//!
//! # Problems
//! | status | means |
//! |---|---|
//! | 400 | the body is no JSON; line and column say where |
//! | 404 | no such pipeline of that kind; the detail lists those that there are |
//! | 409 | the lease is lost: it ran out, or the job was settled already. Nothing was changed |
//! | 413 | the body is over `server.max-body` |
//! | 415 | the body is not declared as `application/json` |
//! | 422 | a value cannot be accepted; `item` (from 0) and `field` say which. Nothing was stored |
//! | 503 | the store does not answer; `Retry-After` says when to try again |

mod claim;
mod health;
mod ingest;
mod jobs;
mod outbox;
mod report;
mod trouble;

use axum::Router;
use axum::routing::{get, post};

use crate::Site;

/// Every route under `/api/v1`.
pub(crate) fn api() -> Router<Site> {
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/outbox/{name}/events", post(outbox::append))
        .route("/ingest/{name}", post(ingest::ingest))
        .route("/jobs/{name}", post(jobs::enqueue))
        .route("/jobs/{name}/claim", post(claim::claim))
        .route("/jobs/{name}/{id}/complete", post(report::complete))
        .route("/jobs/{name}/{id}/fail", post(report::fail))
        .route("/jobs/{name}/{id}/heartbeat", post(report::heartbeat))
}
