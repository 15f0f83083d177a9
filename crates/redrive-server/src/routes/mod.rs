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
//! # Events to be persisted
//! `POST /persist/{name}`, one object or an array, all or none:
//! ```json
//! [{"key": "abc", "payload": "https://example.org/a/long/way"}]
//! ```
//! Both are required; `key` is 1 to 255 characters. Answer: 202 `{"accepted": 1}`; they are saved behind the
//! request. With `durability = "journal"` they are on disk by then, and survive the process; with
//! `"memory"` they are in its memory only. 503 when the queue or the journal is full.
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
//!   pipeline's), `wait` up to a minute (none): how long to wait for a job when there is none; keep it below your client's time-out. What is claimed
//!   for a client that has hung up is given back, and no attempt is counted. With an `Idempotency-Key` the same request
//!   again gets the same jobs under the same leases, extended, as far as they are still held. Answer: 200
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
//! # Dead letters
//! - `GET /dead-letters?pipeline=&status=&type=&key=&class=&code=&group=&q=&since=&until=&limit=&cursor=`, newest
//!   first. `since` and `until` are times (RFC 3339) or durations: `1h` is an hour ago. `limit` is 1 to 500 (50).
//!   Answer: 200 `{"letters": […], "next": "…", "unavailable": [{"pipeline", "reason"}]}`; `next` is the `cursor` of
//!   the next page, and stays right while letters arrive. A search that takes longer than 150 ms ends with what was found:
//!   then `searched_to` says how far it looked, and there may be fewer letters than `limit`, or none, although there is a
//!   `next`.
//! - `GET /dead-letters/{id}`: one, with origin, headers, history, edits, and its payload as
//!   `{"format": "json" | "text" | "base64", "text": "…", "size": 12, "cut": false}`.
//! - `GET /dead-letters/{id}/payload`: its bytes, as an attachment.
//! - `POST /dead-letters/{id}/redrive` `{"payload": …}` or `{"payload_base64": "…"}` to send something else, or no
//!   body → 200. One wins, the others get 409.
//! - `POST /dead-letters/{id}/resolve` `{"note": "why"}` → 200.
//! - `POST /dead-letters`: a service hands over what it could not do →  201 with `Location`:
//!   ```json
//!   {"event_type": "PaymentDone", "key": "42", "payload": {"total": 99}, "source": "billing/7", "target": "billing",
//!    "headers": [{"name": "trace", "value": "abc"}], "service": "billing", "attempts": 3,
//!    "error": {"message": "gateway away", "kind": "IOException", "class": "transient", "code": "http:503"},
//!    "failed_at": "2025-10-21T07:28:00Z", "first_failed_at": "2025-10-21T07:00:00Z"}
//!   ```
//!   `event_type`, `key`, a payload and `error.message` are required. The same `source` comes in once.
//!   `target` is a name in `[intake.targets]`.
//! - `GET /groups?pipeline=&limit=`, `/groups/{fingerprint}`: letters that wait and failed for the same reason.
//!
//! # Operations on many letters
//! - `POST /redrives`: 202 with `Location` and the operation; with `"dry_run": true` 200 with counts and `as_of`:
//!   ```json
//!   {"filter": {"type": "OrderCreated", "since": "1d"}, "rate": 50, "canary": true, "note": "mended"}
//!   ```
//!   `ids` instead of `filter` names up to 10,000 letters; `"all": true` means every letter that waits, and
//!   nothing else does. `canary` may be `{"steps": [1, 5, 20], "patience": "5m", "observe": "5s"}`.
//! - `POST /resolutions`: the same without `rate` and `canary`.
//! - `GET /redrives?before=&limit=`, `/redrives/{id}`; `POST /redrives/{id}/pause`, `/resume`, `/cancel`: of both.
//!
//! # Pipelines, numbers, who did what
//! - `GET /pipelines`, `/pipelines/{name}`; `POST /pipelines/{name}/pause`, `/resume`: the workers of this process.
//! - `GET /stats?pipeline=&since=&step=`: the numbers of `/metrics` over the last day, in steps.
//! - `GET /stream`: server-sent events named `snapshot`, when something changes.
//! - `GET /audit?before=&limit=`.
//! - `GET /books`: where the events of every pipeline are; `gap` is how many are missing.
//!
//! **`Idempotency-Key`** (1 to 140 visible ASCII characters) makes several requests of one caller one, for a day: for
//! redrives, resolutions, letters that are handed in, and for work that is put into an outbox, a queue of jobs or
//! ingest. The same key with another request is refused with 422. Events to be persisted have a key of their own.
//!
//! # Problems
//! | status | means |
//! |---|---|
//! | 400 | the body is no JSON; line and column say where. Or it cannot be unpacked |
//! | 401 | nobody has this token, or there is none |
//! | 403 | the token's role may not do this; or a page of another site, or a name that is not of this machine, was used |
//! | 404 | no such pipeline of that kind, letter, group or operation; the detail says where to look |
//! | 409 | the lease has run out (also when nobody has claimed the job since) or is lost, the letter is not waiting, the operation is over: somebody was faster. Nothing was changed |
//! | 413 | the body is over `server.max-body` |
//! | 415 | the body is not declared as `application/json` (or as lines, or is packed otherwise, for ingest) |
//! | 422 | a value cannot be accepted, by redrive or by the table; `item` (from 0) and `field` say which. Nothing was stored |
//! | 503 | the store does not answer, or there is no room; `Retry-After` says when to try again |

mod act;
mod audit;
mod batch;
mod books;
mod canary;
mod claim;
mod claiming;
mod dead_letters;
mod failure;
mod filter;
mod groups;
mod hand_in;
mod health;
mod ingest;
mod jobs;
mod operations;
mod outbox;
mod persist;
mod pipelines;
mod report;
mod slice;
mod stats;
mod stream;
mod trouble;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Site;

/// Every route under `/api/v1`, with its description.
pub(crate) fn api() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(pipelines::list))
        .routes(routes!(pipelines::show))
        .routes(routes!(pipelines::pause))
        .routes(routes!(pipelines::resume))
        .routes(routes!(dead_letters::list, hand_in::take_in))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::payload))
        .routes(routes!(act::redrive))
        .routes(routes!(act::resolve))
        .routes(routes!(groups::list))
        .routes(routes!(groups::show))
        .routes(routes!(operations::list, operations::redrive))
        .routes(routes!(operations::show))
        .routes(routes!(operations::pause))
        .routes(routes!(operations::resume))
        .routes(routes!(operations::cancel))
        .routes(routes!(operations::resolve))
        .routes(routes!(stats::stats))
        .routes(routes!(stream::stream))
        .routes(routes!(audit::list))
        .routes(routes!(books::verify))
        .routes(routes!(outbox::append))
        .routes(routes!(persist::accept))
        .routes(routes!(ingest::ingest))
        .routes(routes!(jobs::enqueue))
        .routes(routes!(claim::claim))
        .routes(routes!(report::complete))
        .routes(routes!(report::fail))
        .routes(routes!(report::heartbeat))
}
