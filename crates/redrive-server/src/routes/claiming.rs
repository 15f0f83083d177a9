//! A claim for a worker elsewhere, in a task of its own.
//!
//! A client may hang up at any time, and what serves its request is dropped then. A claim that is under way may be
//! written down all the same, so it is never dropped: its task goes on, and gives back, uncounted, what nobody is there
//! to receive. Whether an answer has arrived nobody here can know. That is what an `Idempotency-Key` is for: the leases
//! are written down under it, right after the claim, and the same request again gets the same jobs. A crash in between
//! leaves leases that run out.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use redrive_core::event::WorkId;
use redrive_core::fingerprint::digest;
use redrive_core::lease::{Lease, Work};
use redrive_engine::Remote;
use redrive_engine::console::{Console, ConsoleError};
use redrive_store::{Asked, Error, RequestKey};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::trouble::trouble;
use crate::Problem;

/// A long poll looks this often whether the server is about to stop, or its client has gone.
const SLICE: Duration = Duration::from_secs(1);
/// How long a repeated request waits for the first one to end, at least: that takes a slice to notice that its client
/// has gone.
const FIRST_ONE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A request that was begun so long ago was cut off: no claim waits for longer.
const UNDER_WAY: Duration = Duration::from_secs(180);

/// What a worker asks for, checked.
pub(super) struct Wish {
    pub(super) worker: String,
    pub(super) limit: u32,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

/// What makes several claims one.
pub(super) struct Once {
    pub(super) console: Arc<Console>,
    pub(super) key: RequestKey,
}

/// A claim of one queue.
pub(super) struct Claiming {
    pub(super) pipeline: String,
    pub(super) remote: Remote,
    pub(super) wish: Wish,
    pub(super) once: Option<Once>,
    pub(super) stop: CancellationToken,
}

/// Leases that were given out under a key.
#[derive(Debug, Serialize, Deserialize)]
struct GivenOut {
    request: i64,
    leases: Vec<(WorkId, i64)>,
}

/// What was claimed and is not on its way to the client yet: dropped, it is given back.
struct Undelivered {
    remote: Remote,
    claimed: Vec<(Lease, Work)>,
}

type Answer = oneshot::Sender<Result<Undelivered, Problem>>;

impl Claiming {
    /// Claims, and waits for work as long as the worker wishes and is there.
    pub(super) async fn run(self) -> Result<Vec<(Lease, Work)>, Problem> {
        let (answer, answered) = oneshot::channel();
        let remote = self.remote.clone();
        remote.tasks().spawn(async move {
            let claimed = self.claim(&answer).await;
            let remote = self.remote.clone();
            // Nobody there to receive it: it is dropped, and given back.
            drop(answer.send(claimed.map(|claimed| Undelivered { remote, claimed })));
        });
        let gone = |_| Problem::unavailable("The claim ended in a defect: send it again.");
        Ok(answered.await.map_err(gone)??.deliver())
    }

    async fn claim(&self, answer: &Answer) -> Result<Vec<(Lease, Work)>, Problem> {
        match &self.once {
            None => self.search(answer).await,
            Some(once) => self.claim_once(once, answer).await,
        }
    }

    async fn search(&self, answer: &Answer) -> Result<Vec<(Lease, Work)>, Problem> {
        let Wish { worker, limit, lease, wait } = &self.wish;
        let deadline = Instant::now() + *wait;
        loop {
            let patience = deadline.saturating_duration_since(Instant::now());
            let slice = patience.min(SLICE);
            let claimed = self.remote.claim_patiently(worker, *limit, *lease, slice).await;
            let claimed = claimed.map_err(|error| trouble(&self.pipeline, &error))?;
            let is_over = slice == patience || self.stop.is_cancelled() || answer.is_closed();
            if !claimed.is_empty() || is_over {
                return Ok(claimed);
            }
        }
    }

    async fn claim_once(&self, once: &Once, answer: &Answer) -> Result<Vec<(Lease, Work)>, Problem> {
        let request = match self.ask(once, answer).await? {
            Asked::New(request) | Asked::Begun(request) => request,
            Asked::Answered(text) => {
                let other = |_| ledger(Error::OtherRequest(once.key.key.clone()));
                let GivenOut { request, leases } = serde_json::from_str(&text).map_err(other)?;
                let held = self.remote.recover(&leases, self.wish.lease).await;
                let held = held.map_err(|error| trouble(&self.pipeline, &error))?;
                if !held.is_empty() {
                    return Ok(held);
                }
                request
            }
        };
        let claimed = self.search(answer).await;
        let requests = once.console.requests();
        match claimed {
            Ok(claimed) if !claimed.is_empty() && !answer.is_closed() => {
                let leases = claimed.iter().map(|(lease, _)| (lease.work(), lease.fence())).collect();
                let text = serde_json::to_string(&GivenOut { request, leases }).unwrap_or_default();
                if let Err(error) = requests.answer(request, &text).await {
                    self.remote.give_back(claimed).await;
                    return Err(ledger(error));
                }
                Ok(claimed)
            }
            nothing => {
                if let Err(error) = requests.withdraw(request).await {
                    tracing::warn!(pipeline = %self.pipeline, %error, "the end of a request could not be written down");
                }
                nothing
            }
        }
    }

    /// Asks the ledger; while the first request with this key is under way, waits for its end.
    async fn ask(&self, once: &Once, answer: &Answer) -> Result<Asked, Problem> {
        let deadline = Instant::now() + self.wish.wait.max(FIRST_ONE);
        let (requests, scope) = (once.console.requests(), format!("claim {}", self.pipeline));
        loop {
            match requests.ask(&once.key, &scope, self.wish.digest()).await.map_err(ledger)? {
                Asked::Begun(request) => {
                    if requests.take_over(request, UNDER_WAY).await.map_err(ledger)? {
                        return Ok(Asked::Begun(request));
                    }
                }
                asked => return Ok(asked),
            }
            if Instant::now() >= deadline || self.stop.is_cancelled() || answer.is_closed() {
                let detail = "A request with this Idempotency-Key is under way: send it again in a moment.";
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

impl Wish {
    /// What is asked for; how long to wait for it is no part of that.
    fn digest(&self) -> u64 {
        digest(format!("{} {} {}", self.limit, self.lease.as_millis(), self.worker).as_bytes())
    }
}

impl Undelivered {
    fn deliver(mut self) -> Vec<(Lease, Work)> {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        if !claimed.is_empty() {
            let remote = self.remote.clone();
            self.remote.tasks().spawn(async move { remote.give_back(claimed).await });
        }
    }
}

fn ledger(error: Error) -> Problem {
    Problem::from(ConsoleError::Store(error))
}
