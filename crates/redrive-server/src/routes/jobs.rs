//! `POST /api/v1/jobs/{name}`: jobs into a queue.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use redrive_core::event::WorkId;
use redrive_store::{Answered, Enqueued, NewJob};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch::one_or_many;
use super::trouble::trouble;
use crate::caller::{RequestKey, Who};
use crate::payload::PayloadIn;
use crate::span::Span;
use crate::{Doors, Problem, body};

/// More attempts than this are a slip.
const MAX_RETRIES: u32 = 1_000_000;

/// A job as it is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob)]
struct JobIn {
    #[schema(min_length = 1, max_length = 255)]
    subject: String,
    #[serde(default)]
    payload: PayloadIn,
    #[serde(default)]
    priority: Option<i16>,
    #[serde(default)]
    delay: Option<Span>,
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000)]
    max_retries: Option<u32>,
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    unique_key: Option<String>,
}

one_or_many!(NewJobs of JobIn);

/// What became of the jobs, in the order in which they were sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Enqueued)]
pub(super) struct Answer {
    jobs: Vec<Outcome>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = EnqueuedJob)]
enum Outcome {
    Added {
        #[schema(value_type = i64)]
        id: WorkId,
    },
    Duplicate {
        duplicate: bool,
    },
}

/// Puts jobs into a queue, all or none. With an `Idempotency-Key` the same request again is told the same.
#[utoipa::path(post, path = "/jobs/{name}", operation_id = "enqueue_jobs", tag = "work",
    params(("name" = String, Path, description = "The pipeline."),
        ("Idempotency-Key" = Option<String>, Header, description = "What makes several requests one.", pattern = "^[!-~]{1,140}$")),
    request_body = NewJobs, responses((status = 201, description = "The jobs are stored.", body = Answer)))]
pub(super) async fn enqueue(
    State(doors): State<Arc<Doors>>,
    Path(name): Path<String>,
    Who(operator): Who,
    RequestKey(key): RequestKey,
    request: Request,
) -> Result<(StatusCode, Json<Answer>), Problem> {
    let door = doors.jobs(&name)?;
    let jobs = body::many::<JobIn>(request).await?;
    let jobs = jobs.into_iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
    let enqueued = match key {
        Some(key) => door.store.enqueue_once(&jobs, &redrive_store::RequestKey { operator, key }).await,
        None => door.store.enqueue(jobs).await.map(|answer| Answered { answer, is_repeated: false }),
    };
    door.pipeline.health.put_in(&name, &enqueued);
    let Answered { answer: enqueued, is_repeated } = enqueued.map_err(|error| trouble(&name, &error))?;
    let added = enqueued.iter().filter(|outcome| matches!(outcome, Enqueued::Added(_))).count();
    if added > 0 && !is_repeated {
        // The type of a job is the name of its queue.
        door.accepted.count(std::iter::repeat_n(name.as_str(), added));
        door.pipeline.bell.ring();
    }
    Ok((StatusCode::CREATED, Json(Answer { jobs: enqueued.into_iter().map(Outcome::from).collect() })))
}

fn checked((item, job): (usize, JobIn)) -> Result<NewJob, Problem> {
    if job.max_retries.is_some_and(|limit| !(1..=MAX_RETRIES).contains(&limit)) {
        let why = format!("is not accepted: expected a whole number from 1 to {MAX_RETRIES}");
        return Err(Problem::field("max_retries", why).of_item(item));
    }
    Ok(NewJob {
        subject: job.subject,
        payload: job.payload.0,
        priority: job.priority.unwrap_or_default(),
        delay: job.delay.map(|Span(delay)| delay).unwrap_or_default(),
        max_retries: job.max_retries,
        unique_key: job.unique_key,
    })
}

impl From<Enqueued> for Outcome {
    fn from(enqueued: Enqueued) -> Self {
        match enqueued {
            Enqueued::Added(id) => Self::Added { id },
            Enqueued::Duplicate => Self::Duplicate { duplicate: true },
        }
    }
}
