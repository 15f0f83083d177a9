//! `POST /api/v1/jobs/{name}/claim`: a worker elsewhere asks for jobs, and may wait for some.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::lease::{Lease, Work};
use redrive_engine::console::Console;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::claiming::{Claiming, Once, Wish};
use crate::caller::{RequestKey, Who};
use crate::payload::PayloadOut;
use crate::span::Span;
use crate::{Doors, Problem, body, duration};

const MAX_LIMIT: u32 = 1_000;
const MAX_WAIT: Duration = Duration::from_secs(60);
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// What a worker asks for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
struct ClaimIn {
    worker: Option<String>,
    #[schema(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
    lease: Option<Span>,
    wait: Option<Span>,
}

/// What a worker gets.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Claimed {
    jobs: Vec<Job>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJob)]
struct Job {
    #[schema(value_type = i64)]
    id: WorkId,
    /// Text: a worker only repeats it, and not every language keeps 64 bits in a number.
    lease: String,
    until: Timestamp,
    subject: String,
    #[serde(flatten)]
    payload: PayloadOut,
    attempt: u32,
    max_retries: u32,
    created_at: Timestamp,
}

/// A worker asks for jobs, and may wait for some. With an `Idempotency-Key` the same request again gets the same jobs
/// under the same leases, as far as it still holds them.
#[utoipa::path(post, path = "/jobs/{name}/claim", operation_id = "claim_jobs", tag = "workers",
    params(("name" = String, Path, description = "The pipeline."),
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several claims one: send it again when an answer did not arrive.", pattern = "^[!-~]{1,140}$")),
    request_body = ClaimIn, responses((status = 200, description = "The jobs that are the worker's now; none, if there was none in time.", body = Claimed)))]
pub(super) async fn claim(
    State(doors): State<Arc<Doors>>,
    State(console): State<Arc<Console>>,
    State(stop): State<CancellationToken>,
    Path(name): Path<String>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<Json<Claimed>, Problem> {
    let door = doors.jobs(&name)?;
    let asked = body::one::<ClaimIn>(request).await?;
    let wish = asked.check(door.pipeline.pace.lease)?;
    let once = key.map(|key| Once { console, key: redrive_store::RequestKey { operator, key } });
    let claimed = Claiming { pipeline: name, remote: door.remote.clone(), wish, once, stop }.run().await?;
    let limit = door.pipeline.policy.attempts();
    Ok(Json(Claimed {
        jobs: claimed.into_iter().map(|(lease, work)| Job::new(&lease, work, limit)).collect(),
    }))
}

/// How long a worker may hold a job: a second to an hour, or the pipeline's own lease.
pub(super) fn lease(
    field: &'static str,
    asked: Option<Span>,
    default: Duration,
) -> Result<Duration, Problem> {
    match asked {
        Some(Span(lease)) if !LEASES.contains(&lease) => {
            let (shortest, longest) = (duration::show(*LEASES.start()), duration::show(*LEASES.end()));
            Err(Problem::field(
                field,
                format!("is not accepted: expected a duration from {shortest} to {longest}"),
            ))
        }
        Some(Span(lease)) => Ok(lease),
        None => Ok(default),
    }
}

impl ClaimIn {
    fn check(self, default_lease: Duration) -> Result<Wish, Problem> {
        let limit = self.limit.unwrap_or(1);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let why = format!("is not accepted: expected a whole number from 1 to {MAX_LIMIT}");
            return Err(Problem::field("limit", why));
        }
        let Span(wait) = self.wait.unwrap_or(Span(Duration::ZERO));
        if wait > MAX_WAIT {
            let longest = duration::show(MAX_WAIT);
            return Err(Problem::field("wait", format!("is not accepted: expected at most {longest}")));
        }
        let worker = self.worker.filter(|worker| !worker.is_empty()).unwrap_or_else(|| "http".to_owned());
        Ok(Wish { worker, limit, lease: lease("lease", self.lease, default_lease)?, wait })
    }
}

impl Job {
    fn new(lease: &Lease, work: Work, default_limit: u32) -> Self {
        Self {
            id: lease.work(),
            lease: lease.fence().to_string(),
            until: lease.until(),
            subject: work.event.key,
            payload: work.event.payload.into(),
            attempt: work.event.attempt,
            max_retries: work.max_retries.unwrap_or(default_limit),
            created_at: work.event.created_at,
        }
    }
}
