//! `POST /api/v1/jobs/{name}/claim`: a worker elsewhere asks for jobs, and may wait for some.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::lease::{Lease, Work};
use redrive_engine::Remote;
use redrive_store::Error;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::trouble::trouble;
use crate::payload::PayloadOut;
use crate::span::Span;
use crate::{Doors, Problem, body, duration};

const MAX_LIMIT: u32 = 1_000;
const MAX_WAIT: Duration = Duration::from_secs(60);
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// A long poll looks this often whether the server is about to stop. It is never cut off in the middle
/// of a claim: what it had claimed would be blocked until the lease runs out.
const SLICE: Duration = Duration::from_secs(1);

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

/// What a worker asks for, checked.
struct Wish {
    worker: String,
    limit: u32,
    lease: Duration,
    wait: Duration,
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

/// A worker asks for jobs, and may wait for some.
#[utoipa::path(post, path = "/jobs/{name}/claim", tag = "workers", params(("name" = String, Path, description = "The pipeline.")),
    request_body = ClaimIn, responses((status = 200, body = Claimed)))]
pub(super) async fn claim(
    State(doors): State<Arc<Doors>>,
    State(stop): State<CancellationToken>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Claimed>, Problem> {
    let door = doors.jobs(&name)?;
    let asked = body::one::<ClaimIn>(request).await?;
    let wish = asked.check(door.pipeline.pace.lease)?;
    let claimed = wait_for(&door.remote, &wish, &stop).await.map_err(|error| trouble(&name, &error))?;
    let limit = door.pipeline.policy.attempts();
    Ok(Json(Claimed {
        jobs: claimed.into_iter().map(|(lease, work)| Job::new(&lease, work, limit)).collect(),
    }))
}

async fn wait_for(
    remote: &Remote,
    wish: &Wish,
    stop: &CancellationToken,
) -> Result<Vec<(Lease, Work)>, Error> {
    let deadline = Instant::now() + wish.wait;
    loop {
        let patience = deadline.saturating_duration_since(Instant::now());
        let slice = patience.min(SLICE);
        let claimed = remote.claim_patiently(&wish.worker, wish.limit, wish.lease, slice).await?;
        if !claimed.is_empty() || slice == patience || stop.is_cancelled() {
            return Ok(claimed);
        }
    }
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
