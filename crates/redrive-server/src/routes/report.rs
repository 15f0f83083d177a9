//! `POST /api/v1/jobs/{name}/{id}/complete`, `/fail` and `/heartbeat`: what a worker says about a job.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use redrive_core::event::WorkId;
use redrive_core::failure::{Class, Failure};
use redrive_engine::Reported;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::trouble::trouble;
use super::{claim, failure};
use crate::span::Span;
use crate::{Doors, Problem, body};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Completed)]
struct CompleteIn {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    lease: Fence,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Failed)]
struct FailIn {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    lease: Fence,
    error: String,
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100)]
    kind: Option<String>,
    #[serde(default)]
    class: Option<ClassIn>,
    #[serde(default)]
    #[schema(pattern = "^(http:[1-5][0-9]{2}|sqlstate:[0-9A-Z]{5}|other:[a-z]{1,20})$")]
    code: Option<String>,
    #[serde(default)]
    retry_after: Option<Span>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Heartbeat)]
struct HeartbeatIn {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    lease: Fence,
    #[serde(default)]
    extend: Option<Span>,
}

/// Until when the worker has time now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Extended {
    until: Timestamp,
}

/// The classes that a worker can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ReportedClass)]
enum ClassIn {
    Transient,
    Permanent,
    Malformed,
    Unclassified,
}

/// The fencing number of a claim, as it was given out: text.
#[derive(Debug, Clone, Copy)]
struct Fence(i64);

impl<'de> Deserialize<'de> for Fence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| de::Error::custom("expected the lease that the claim gave out"))
    }
}

/// A job is done.
#[utoipa::path(post, path = "/jobs/{name}/{id}/complete", operation_id = "complete_job", tag = "workers", params(("name" = String, Path, description = "The queue."), ("id" = i64, Path, description = "The job.")),
    request_body = CompleteIn, responses((status = 204, description = "Recorded."), (status = 409, description = "The lease has run out, also when nobody has claimed the job since, or another worker has it, or it is settled. Nothing was changed.", content_type = "application/problem+json", body = Problem)))]
pub(super) async fn complete(
    State(doors): State<Arc<Doors>>,
    Path((name, id)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let door = doors.jobs(&name)?;
    let job = number(&name, &id)?;
    let CompleteIn { lease: Fence(fence) } = body::one(request).await?;
    let reported = door.remote.complete(job, fence).await.map_err(|error| trouble(&name, &error))?;
    accepted(job, fence, reported)
}

/// A job failed.
#[utoipa::path(post, path = "/jobs/{name}/{id}/fail", operation_id = "fail_job", tag = "workers", params(("name" = String, Path, description = "The queue."), ("id" = i64, Path, description = "The job.")),
    request_body = FailIn, responses((status = 204, description = "Recorded."), (status = 409, description = "The lease has run out, also when nobody has claimed the job since, or another worker has it, or it is settled. Nothing was changed.", content_type = "application/problem+json", body = Problem)))]
pub(super) async fn fail(
    State(doors): State<Arc<Doors>>,
    Path((name, id)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let door = doors.jobs(&name)?;
    let job = number(&name, &id)?;
    let report = body::one::<FailIn>(request).await?;
    let Fence(fence) = report.lease;
    let failure = report.failure()?;
    let reported = door.remote.fail(job, fence, failure).await.map_err(|error| trouble(&name, &error))?;
    accepted(job, fence, reported)
}

/// A worker needs more time.
#[utoipa::path(post, path = "/jobs/{name}/{id}/heartbeat", operation_id = "extend_lease", tag = "workers", params(("name" = String, Path, description = "The queue."), ("id" = i64, Path, description = "The job.")),
    request_body = HeartbeatIn, responses((status = 200, description = "The lease is extended.", body = Extended), (status = 409, description = "The lease has run out, also when nobody has claimed the job since, or another worker has it, or it is settled. Nothing was changed.", content_type = "application/problem+json", body = Problem)))]
pub(super) async fn heartbeat(
    State(doors): State<Arc<Doors>>,
    Path((name, id)): Path<(String, String)>,
    request: Request,
) -> Result<Json<Extended>, Problem> {
    let door = doors.jobs(&name)?;
    let job = number(&name, &id)?;
    let HeartbeatIn { lease: Fence(fence), extend } = body::one(request).await?;
    let lease = claim::lease("extend", extend, door.pipeline.pace.lease)?;
    let until = door.remote.heartbeat(job, fence, lease).await.map_err(|error| trouble(&name, &error))?;
    until.map(|until| Json(Extended { until })).ok_or_else(|| lost(job, fence))
}

fn number(name: &str, id: &str) -> Result<WorkId, Problem> {
    id.parse().map(WorkId).map_err(|_| {
        let detail =
            format!("There is no job `{id}` in `{name}`; the id is the number that the claim gave out.");
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

fn accepted(job: WorkId, fence: i64, reported: Reported) -> Result<StatusCode, Problem> {
    match reported {
        Reported::Accepted => Ok(StatusCode::NO_CONTENT),
        Reported::Lost => Err(lost(job, fence)),
    }
}

fn lost(job: WorkId, fence: i64) -> Problem {
    let detail = format!(
        "Job {job} is not held under lease {fence} any more: the lease ran out, and the job waits for another worker \
         or has one, or it was settled already. Nothing was changed; stop working on it, and do not report again."
    );
    Problem::new(StatusCode::CONFLICT, detail)
}

impl FailIn {
    fn failure(self) -> Result<Failure, Problem> {
        let code = failure::code(self.code.as_deref())?;
        let class = failure::class(self.class.map(ClassIn::class), code.as_ref());
        failure::failure(throttled(class, self.retry_after)?, code, self.kind, self.error)
    }
}

impl ClassIn {
    const fn class(self) -> Class {
        match self {
            Self::Transient => Class::Transient,
            Self::Permanent => Class::Permanent,
            Self::Malformed => Class::Malformed,
            Self::Unclassified => Class::Unclassified,
        }
    }
}

/// A time to come back makes a failure that may pass a throttle.
fn throttled(class: Class, retry_after: Option<Span>) -> Result<Class, Problem> {
    match retry_after {
        Some(Span(retry_after)) if class.is_retryable() => Ok(Class::Throttled { retry_after }),
        Some(_) => {
            let why = format!("is not accepted: a failure that is {class} is not retried");
            Err(Problem::field("retry_after", why))
        }
        None => Ok(class),
    }
}
