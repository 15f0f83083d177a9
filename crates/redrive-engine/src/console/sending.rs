//! One operation, carried out: frozen first (`freezing`), then sent portion after portion; those of the ramp are
//! followed.
//!
//! Nothing here is remembered between two steps but what the ledger has, so a crash at any line costs one
//! portion that is sent again, and the letters refuse that: they know the order they were sent by.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::dead_letter::{Acted, Operator, Order, Outcome, Refusal, Unavailable};
use redrive_core::failure::Failure;
use redrive_store::{Operation, OperationState, Portion, Sent};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::desk::refusal;
use super::freezing::Frozen;
use super::request::{Action, Canary, Request};
use super::{Console, ConsoleError, Desk};

/// How many portions are taken from the ledger in one, when nothing paces them.
const AT_ONCE: usize = 16;
/// How long they are sent without looking whether somebody has paused or cancelled.
const STRETCH: Duration = Duration::from_millis(500);
/// How long an operation is held; renewed with every step.
const HOLD: Duration = Duration::from_secs(15);
/// How often outcomes are asked for.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The pauses while a store does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After the ramp, so many letters of each portion are looked at, and this share of them may fail again.
const SAMPLE: usize = 100;
const TOLERATED: f64 = 0.1;

pub(super) struct Sending {
    pub(super) console: Arc<Console>,
    pub(super) operation: Operation,
    runner: String,
    /// Who freezes or sends takes one.
    turns: Arc<Semaphore>,
    stop: CancellationToken,
    /// The ledger says that it waits for a store.
    waits: AtomicBool,
}

/// Some of the letters that were sent last, after the ramp.
struct Sample {
    pipeline: String,
    ids: Vec<String>,
}

/// What follows a step.
enum Next {
    Step,
    End,
}

/// Why a step was not done.
pub(super) enum Trouble {
    /// A store does not answer: it is tried again.
    Away(String),
    /// The store of a pipeline refuses, and will refuse the same again: a person must change something first.
    Refused(String),
    /// It makes no sense to try again.
    Hopeless(String),
}

impl From<Unavailable> for Trouble {
    fn from(error: Unavailable) -> Self {
        match refusal(&error) {
            Some(source) => Self::Refused(format!(
                "the table of {} refuses it: {source}; the letters that were not sent yet are untouched: change the \
                 table (`redrive migrate --dry-run` says how it differs), then resume",
                error.pipeline
            )),
            None => Self::Away(error.to_string()),
        }
    }
}

impl From<redrive_store::Error> for Trouble {
    fn from(error: redrive_store::Error) -> Self {
        match error.is_unavailable() {
            true => Self::Away(format!("the ledger does not answer: {error}")),
            false => Self::Hopeless(error.to_string()),
        }
    }
}

impl From<ConsoleError> for Trouble {
    fn from(error: ConsoleError) -> Self {
        match error {
            ConsoleError::Unavailable(error) => error.into(),
            ConsoleError::Store(error) => error.into(),
            other => Self::Hopeless(other.to_string()),
        }
    }
}

impl Sending {
    pub(super) fn new(
        console: Arc<Console>,
        operation: Operation,
        runner: &str,
        turns: Arc<Semaphore>,
        stop: CancellationToken,
    ) -> Self {
        // Whoever held it before may have been waiting, and has not come to say that it goes on.
        let waits = AtomicBool::new(!operation.reason.is_empty());
        Self { console, operation, runner: runner.to_owned(), turns, stop, waits }
    }

    /// Holds the operation, so that nobody else carries it out.
    pub(super) async fn hold(&self) -> Result<bool, redrive_store::Error> {
        self.console.records.operations.hold(self.operation.id, &self.runner, HOLD).await
    }

    /// Carries it out until it ends, is paused, or everything stops.
    pub(super) async fn run(self) {
        let request = match Request::of(&self.operation.request) {
            Ok(request) => request,
            Err(error) => return self.give_up(&error.to_string()).await,
        };
        let mut pause = FIRST_PAUSE;
        let mut last = None;
        while !self.stop.is_cancelled() {
            match self.step(&request, &mut last).await {
                Ok(Next::End) => return,
                Ok(Next::Step) => {
                    self.goes_on().await;
                    pause = FIRST_PAUSE;
                }
                Err(Trouble::Hopeless(why)) => return self.give_up(&why).await,
                Err(Trouble::Refused(why)) => return self.stop_refused(&why).await,
                Err(Trouble::Away(why)) => {
                    tracing::warn!(operation = self.operation.id, error = %why, "an operation waits");
                    self.waits_for(&why).await;
                    self.rest(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn step(&self, request: &Request, last: &mut Option<Sample>) -> Result<Next, Trouble> {
        let operations = &self.console.records.operations;
        let id = self.operation.id;
        if !self.hold().await? {
            return Ok(Next::End);
        }
        let Some(now) = operations.get(id).await? else { return Ok(Next::End) };
        if now.state == OperationState::Freezing {
            let Some(_turn) = self.turn().await? else { return Ok(Next::End) };
            return match self.freeze(request, &now).await? {
                Frozen::Whole => {
                    operations.become_state(id, OperationState::Running, "").await?;
                    Ok(Next::Step)
                }
                Frozen::Taken => Ok(Next::End),
            };
        }
        let is_paced = request.canary.is_some() || request.rate.is_some();
        let portions = operations.next(id, if is_paced { 1 } else { AT_ONCE }).await?;
        let Some(portion) = portions.first() else { return self.finish(&now).await };
        let desk = self.console.desk(&portion.pipeline)?;
        if !is_paced {
            return self.send_at_once(request, desk, &portions).await;
        }
        self.send_paced(request, desk, portion, last).await
    }

    /// Waits for a turn to freeze or send, and keeps its hold meanwhile; none when the operation is no longer
    /// to be carried out here.
    async fn turn(&self) -> Result<Option<SemaphorePermit<'_>>, Trouble> {
        loop {
            tokio::select! {
                turn = self.turns.acquire() => return Ok(turn.ok()),
                () = sleep(HOLD / 3) => {}
                () = self.stop.cancelled() => return Ok(None),
            }
            if !self.hold().await? {
                return Ok(None);
            }
        }
    }

    /// Sends portions, as many side by side as their pipeline has lanes for.
    async fn send_at_once(
        &self,
        request: &Request,
        desk: &Desk,
        portions: &[Portion],
    ) -> Result<Next, Trouble> {
        let Some(_turn) = self.turn().await? else { return Ok(Next::End) };
        let is_here = |portion: &&Portion| portion.pipeline == desk.queue.pipeline();
        let of_desk = portions.iter().take_while(is_here).count();
        let waiting = Mutex::new(portions[..of_desk].iter());
        let lanes = (0..desk.queue.lanes().max(1)).map(|_| self.send_in_lane(request, desk, &waiting));
        // Each to its end: what was begun is written down, even beside one that failed.
        join_all(lanes).await.into_iter().collect::<Result<(), _>>()?;
        Ok(Next::Step)
    }

    async fn send_in_lane(
        &self,
        request: &Request,
        desk: &Desk,
        waiting: &Mutex<std::slice::Iter<'_, Portion>>,
    ) -> Result<(), Trouble> {
        let begun = Instant::now();
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        while begun.elapsed() < STRETCH
            && let Some(portion) = next()
        {
            self.send(request, desk, portion).await?;
        }
        Ok(())
    }

    /// Sends one portion that is followed, or that the next one waits for.
    async fn send_paced(
        &self,
        request: &Request,
        desk: &Desk,
        portion: &Portion,
        last: &mut Option<Sample>,
    ) -> Result<Next, Trouble> {
        if portion.sent {
            let canary = request.canary.clone().unwrap_or_default();
            return self.follow(portion, &canary).await;
        }
        let Some(turn) = self.turn().await? else { return Ok(Next::End) };
        let begun = Instant::now();
        let sent = self.send(request, desk, portion).await?;
        drop(turn);
        if !portion.followed && request.canary.is_some() {
            let ids = sent.ids.into_iter().take(SAMPLE).collect();
            let before = last.replace(Sample { pipeline: portion.pipeline.clone(), ids });
            if let Some(next) = self.look_back(before).await? {
                return Ok(next);
            }
        }
        if let Some(rate) = request.rate {
            let due = Duration::from_secs_f64(portion.ids.len() as f64 / f64::from(rate));
            self.pace(begun + due).await?;
        }
        Ok(Next::Step)
    }

    async fn send(&self, request: &Request, desk: &Desk, portion: &Portion) -> Result<Sent, Trouble> {
        let operator = Operator::new(&self.operation.operator);
        // With its time: in another ledger another operation may have had this number.
        let mark = format!("operation {} of {}", self.operation.id, self.operation.created_at);
        let acted = match request.action {
            Action::Redrive => {
                let order = Order::new(&operator, &mark);
                self.ask(&portion.pipeline, desk.redrive(&portion.ids, &order)).await?
            }
            Action::Resolve => {
                let note = format!("{} ({mark})", self.operation.note);
                let resolving = desk.queue.resolve(&portion.ids, &operator, note.trim_start());
                self.ask(&portion.pipeline, resolving).await?
            }
        };
        desk.wake();
        self.console.touch(&portion.pipeline);
        let sent = tally(&portion.pipeline, acted);
        self.console.records.operations.sent(self.operation.id, portion, &sent).await?;
        Ok(sent)
    }

    /// Waits for the outcome of every letter of a step that was sent; one that fails again stops the operation.
    /// What was refused has no outcome: somebody else has dealt with it, or will.
    async fn follow(&self, portion: &Portion, canary: &Canary) -> Result<Next, Trouble> {
        let desk = self.console.desk(&portion.pipeline)?;
        let operations = &self.console.records.operations;
        let id = self.operation.id;
        let begun = Instant::now();
        let mut look = FIRST_LOOK;
        loop {
            let outcomes = match portion.ids.is_empty() {
                true => Vec::new(),
                false => self.ask(&portion.pipeline, desk.queue.outcomes(&portion.ids)).await?,
            };
            let failed = failures(&portion.ids, &outcomes);
            if let Some((letter, failure)) = failed.first() {
                operations.settled(id, portion.number, failed.len() as u64).await?;
                let reason = format!(
                    "{}:{letter} failed again: {failure}; the letters that were not sent yet are untouched: mend the \
                     cause, then resume",
                    portion.pipeline
                );
                return self.stop_itself(&reason).await;
            }
            let pending = outcomes.contains(&Outcome::Pending);
            let watched = !outcomes.contains(&Outcome::HandedOver) || begun.elapsed() >= canary.observe;
            if !pending && watched {
                operations.settled(id, portion.number, 0).await?;
                return Ok(Next::Step);
            }
            if begun.elapsed() >= canary.patience {
                let reason = format!(
                    "no outcome of {} of the {} letters of this step after {:?}: is {} working? Resume to wait again",
                    outcomes.iter().filter(|outcome| **outcome == Outcome::Pending).count(),
                    portion.ids.len(),
                    canary.patience,
                    portion.pipeline
                );
                operations.become_state(id, OperationState::Paused, &reason).await?;
                return Ok(Next::End);
            }
            if !self.rest(look).await || !self.hold().await? {
                return Ok(Next::End);
            }
            look = (look * 2).min(LONGEST_LOOK);
        }
    }

    /// After the ramp: looks at the portion before this one, and stops when too many of it failed again.
    async fn look_back(&self, before: Option<Sample>) -> Result<Option<Next>, Trouble> {
        let Some(Sample { pipeline, ids }) = before.filter(|before| !before.ids.is_empty()) else {
            return Ok(None);
        };
        let outcomes = self.ask(&pipeline, self.console.desk(&pipeline)?.queue.outcomes(&ids)).await?;
        let decided = outcomes.iter().filter(|outcome| **outcome != Outcome::Pending).count();
        let failed = failures(&ids, &outcomes);
        let Some((letter, failure)) = failed.first() else { return Ok(None) };
        if (failed.len() as f64) <= TOLERATED * decided as f64 {
            return Ok(None);
        }
        let reason = format!(
            "{} of {decided} letters that were looked at failed again, {pipeline}:{letter} with {failure}: mend the \
             cause, then resume",
            failed.len(),
        );
        self.stop_itself(&reason).await.map(Some)
    }

    async fn stop_itself(&self, reason: &str) -> Result<Next, Trouble> {
        let (operations, id) = (&self.console.records.operations, self.operation.id);
        if operations.become_state(id, OperationState::Stopped, reason).await? {
            tracing::warn!(operation = id, reason, "an operation stopped itself");
            let done = operations.get(id).await?.map_or(0, |now| now.done);
            let subject = format!("operation {id}");
            self.console.write_down(&Operator::new("redrive"), "stop", &subject, done, reason).await;
        }
        Ok(Next::End)
    }

    /// A set that is not whole is never sent: that one is cancelled.
    async fn stop_refused(&self, why: &str) {
        let now = self.console.records.operations.get(self.operation.id).await.ok().flatten();
        if now.is_some_and(|now| now.state == OperationState::Freezing)
            || self.stop_itself(why).await.is_err()
        {
            self.give_up(why).await;
        }
    }

    async fn finish(&self, now: &Operation) -> Result<Next, Trouble> {
        let Operation { id, done, refused, .. } = *now;
        if self.console.records.operations.become_state(id, OperationState::Finished, "").await? {
            tracing::info!(operation = id, done, refused, "an operation is finished");
            let (operator, subject) = (Operator::new(&now.operator), format!("operation {id}"));
            self.console.write_down(&operator, "finish", &subject, done, "").await;
        }
        Ok(Next::End)
    }

    /// Whatever was not sent stays where it is. A set that is not whole is never sent: that one is cancelled.
    async fn give_up(&self, why: &str) {
        tracing::error!(operation = self.operation.id, error = why, "an operation cannot go on");
        if let Err(error) = self.put_away(why).await {
            tracing::error!(operation = self.operation.id, %error, "and the ledger cannot be told");
        }
    }

    async fn put_away(&self, why: &str) -> Result<(), redrive_store::Error> {
        let (operations, id) = (&self.console.records.operations, self.operation.id);
        // As it is now: it may have been frozen since it was taken in hand.
        let next = match operations.get(id).await?.map(|now| now.state) {
            Some(OperationState::Freezing) => OperationState::Cancelled,
            _ => OperationState::Paused,
        };
        operations.become_state(id, next, why).await.map(drop)
    }

    /// What the store of a pipeline answers. One that takes its time is named where operators look, and the
    /// operation stays in hand meanwhile.
    pub(super) async fn ask<T>(
        &self,
        pipeline: &str,
        asked: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Trouble> {
        let mut asked = pin!(asked);
        loop {
            let answer = tokio::select! {
                answer = &mut asked => Some(answer?),
                () = sleep(HOLD / 3) => None,
            };
            if let Some(answer) = answer {
                self.goes_on().await;
                return Ok(answer);
            }
            let why = format!("the store of {pipeline} takes long to answer");
            // What it was asked for may be done all the same: the letters know, and whoever goes on finds out.
            if self.stop.is_cancelled() {
                return Err(Trouble::Away(why));
            }
            self.waits_for(&why).await;
            self.hold().await?;
        }
    }

    async fn waits_for(&self, why: &str) {
        self.waits.store(true, Ordering::Relaxed);
        self.say(&format!("waiting: {why}")).await;
    }

    async fn goes_on(&self) {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.say("").await;
        }
    }

    async fn say(&self, reason: &str) {
        // The ledger may be what is away.
        let _ = self.console.records.operations.explain(self.operation.id, reason).await;
    }

    /// Waits until the next portion is due, and keeps its hold meanwhile.
    async fn pace(&self, due: Instant) -> Result<(), Trouble> {
        while Instant::now() < due && !self.stop.is_cancelled() {
            let left = due.saturating_duration_since(Instant::now());
            self.rest(left.min(HOLD / 3)).await;
            self.hold().await?;
        }
        Ok(())
    }

    /// Rests, and says whether it was left in peace.
    async fn rest(&self, duration: Duration) -> bool {
        self.stop.run_until_cancelled(sleep(duration)).await.is_some()
    }
}

fn tally(pipeline: &str, acted: Acted) -> Sent {
    let named = |refusal: &Refusal| match refusal {
        Refusal::Unknown(id) => Refusal::Unknown(format!("{pipeline}:{id}")).to_string(),
        Refusal::NotWaiting(id) => Refusal::NotWaiting(format!("{pipeline}:{id}")).to_string(),
        Refusal::Impossible { id, why } => format!("letter {pipeline}:{id}: {why}"),
    };
    let (refused, refusals) = (acted.refused.len(), acted.refused.iter().take(SAMPLE).map(named).collect());
    let mut ids = acted.done;
    ids.extend(acted.before);
    Sent { done: ids.len() as u64, ids, refused: refused as u64, refusals }
}

fn failures<'a>(ids: &'a [String], outcomes: &'a [Outcome]) -> Vec<(&'a str, &'a Failure)> {
    let failure = |(id, outcome): (&'a String, &'a Outcome)| match outcome {
        Outcome::Failed(failure) => Some((id.as_str(), failure)),
        _ => None,
    };
    ids.iter().zip(outcomes).filter_map(failure).collect()
}
