//! One operation, carried out: freeze, send portion after portion, follow those of the ramp.
//!
//! Nothing here is remembered between two steps but what the ledger has, so a crash at any line costs one
//! portion that is sent again, and the letters refuse that: they know the order they were sent by.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::dead_letter::{Acted, Cursor, Operator, Order, Outcome, Refusal, Unavailable};
use redrive_core::failure::Failure;
use redrive_store::{Operation, OperationState, Portion, Sent};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::request::{Action, Canary, Request};
use super::{Console, ConsoleError, Desk, is_away};

/// How many letters are sent in one transaction.
const PORTION: u32 = 2_000;
/// The most portions that are sent side by side.
const MOST_LANES: usize = 4;
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
    console: Arc<Console>,
    operation: Operation,
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
enum Trouble {
    /// A store does not answer: it is tried again.
    Away(String),
    /// It makes no sense to try again.
    Hopeless(String),
}

impl From<Unavailable> for Trouble {
    fn from(error: Unavailable) -> Self {
        Self::Away(error.to_string())
    }
}

impl From<redrive_store::Error> for Trouble {
    fn from(error: redrive_store::Error) -> Self {
        match is_away(&error) {
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
            if !self.freeze(&as_confirmed(request, now.created_at), now.total > 0).await? {
                return Ok(Next::End);
            }
            operations.become_state(id, OperationState::Running, "").await?;
            return Ok(Next::Step);
        }
        let mut portions = operations.next(id, MOST_LANES).await?;
        let Some(portion) = portions.first() else {
            return self.finish(&now).await;
        };
        let desk = self.console.desk(&portion.pipeline).map_err(Trouble::from)?;
        if request.canary.is_none() && request.rate.is_none() {
            let Some(_turn) = self.turn().await? else { return Ok(Next::End) };
            let lanes = desk
                .queue
                .lanes()
                .min(portions.iter().take_while(|next| next.pipeline == portion.pipeline).count());
            portions.truncate(lanes.max(1));
            let sent = portions.iter().map(|portion| self.send(request, desk, portion));
            // Each to its end: what was begun is written down, even beside one that failed.
            futures_util::future::join_all(sent).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            return Ok(Next::Step);
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

    /// Writes down which letters are meant, the longest dead first, and says whether all of them are: it may
    /// be cancelled meanwhile, or carried out by another.
    async fn freeze(&self, request: &Request, interrupted: bool) -> Result<bool, Trouble> {
        let operations = &self.console.records.operations;
        if interrupted {
            operations.thaw(self.operation.id).await?;
        }
        let mut number = 0;
        if request.ids.is_empty() {
            for desk in self.console.meant(&request.filter)? {
                let mut sizes = Sizes::of(request);
                let mut after: Option<Cursor> = None;
                loop {
                    let size = sizes.next_size();
                    let pipeline = desk.queue.pipeline();
                    let page =
                        self.ask(pipeline, desk.queue.ids(&request.filter, after, size.letters)).await?;
                    self.add(pipeline, page.ids, size.followed, &mut number).await?;
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                    if !self.hold().await? {
                        return Ok(false);
                    }
                }
            }
            return Ok(true);
        }
        let mut by_pipeline: std::collections::BTreeMap<&str, Vec<String>> =
            std::collections::BTreeMap::new();
        for id in &request.ids {
            let ids = by_pipeline.entry(&id.pipeline).or_default();
            if !ids.contains(&id.local) {
                ids.push(id.local.clone());
            }
        }
        for (pipeline, mut ids) in by_pipeline {
            let mut sizes = Sizes::of(request);
            while !ids.is_empty() {
                let size = sizes.next_size();
                let rest = ids.split_off(ids.len().min(size.letters as usize));
                self.add(pipeline, std::mem::replace(&mut ids, rest), size.followed, &mut number).await?;
            }
        }
        Ok(true)
    }

    async fn add(
        &self,
        pipeline: &str,
        ids: Vec<String>,
        followed: bool,
        number: &mut i64,
    ) -> Result<(), Trouble> {
        if ids.is_empty() {
            return Ok(());
        }
        let portion = Portion { number: *number, pipeline: pipeline.to_owned(), ids, followed, sent: false };
        *number += 1;
        self.console.records.operations.freeze(self.operation.id, &portion).await?;
        Ok(())
    }

    async fn send(&self, request: &Request, desk: &Desk, portion: &Portion) -> Result<Sent, Trouble> {
        let operator = Operator::new(&self.operation.operator);
        let mark = format!("operation {}", self.operation.id);
        let acted = match request.action {
            Action::Redrive => {
                let order = Order::new(&operator, &mark);
                self.ask(&portion.pipeline, desk.queue.redrive(&portion.ids, &order)).await?
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
        let desk = self.console.desk(&portion.pipeline).map_err(Trouble::from)?;
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
        let Console { records, .. } = &*self.console;
        let id = self.operation.id;
        if records.operations.become_state(id, OperationState::Stopped, reason).await? {
            tracing::warn!(operation = id, reason, "an operation stopped itself");
            let operator = Operator::new("redrive");
            let done = records.operations.get(id).await?.map_or(0, |now| now.done);
            records.audit.record(&operator, "stop", &format!("operation {id}"), done, reason).await?;
        }
        Ok(Next::End)
    }

    async fn finish(&self, now: &Operation) -> Result<Next, Trouble> {
        let Console { records, .. } = &*self.console;
        if records.operations.become_state(now.id, OperationState::Finished, "").await? {
            tracing::info!(
                operation = now.id,
                done = now.done,
                refused = now.refused,
                "an operation is finished"
            );
            let (operator, subject) = (Operator::new(&now.operator), format!("operation {}", now.id));
            records.audit.record(&operator, "finish", &subject, now.done, "").await?;
        }
        Ok(Next::End)
    }

    async fn give_up(&self, why: &str) {
        tracing::error!(operation = self.operation.id, error = why, "an operation cannot go on");
        let operations = &self.console.records.operations;
        let next = match self.operation.state {
            OperationState::Freezing => OperationState::Cancelled,
            _ => OperationState::Paused,
        };
        if let Err(error) = operations.become_state(self.operation.id, next, why).await {
            tracing::error!(operation = self.operation.id, %error, "and the ledger cannot be told");
        }
    }

    /// What the store of a pipeline answers. One that takes its time is named where operators look, and the
    /// operation stays in hand meanwhile.
    async fn ask<T>(
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
            self.waits_for(&format!("the store of {pipeline} takes long to answer")).await;
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

/// The request with newcomers left out, however late it is carried out: what died after the confirmation is
/// not meant. The ledger's clock decides, and the stores' clocks are compared with it.
fn as_confirmed(request: &Request, at: Timestamp) -> Request {
    // The ledger may tell no more than milliseconds.
    let at = at.checked_add(SignedDuration::from_millis(1)).unwrap_or(at);
    let mut request = request.clone();
    request.filter.until = Some(request.filter.until.map_or(at, |until| until.min(at)));
    request
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

/// How large the portions of a pipeline are: the steps of the ramp, then the rest; none larger than what the
/// rate allows in a second, so a step may be several portions, each followed.
struct Sizes {
    steps: std::vec::IntoIter<u32>,
    /// What is left of the step.
    left: u32,
    most: u32,
}

struct Size {
    letters: u32,
    followed: bool,
}

impl Sizes {
    fn of(request: &Request) -> Self {
        let steps = request.canary.as_ref().map(|canary| canary.steps.clone()).unwrap_or_default();
        let most = request.rate.map_or(PORTION, |rate| rate.clamp(1, PORTION));
        Self { steps: steps.into_iter(), left: 0, most }
    }

    fn next_size(&mut self) -> Size {
        if self.left == 0 {
            self.left = self.steps.next().unwrap_or_default();
        }
        if self.left == 0 {
            return Size { letters: self.most, followed: false };
        }
        let letters = self.left.min(self.most);
        self.left -= letters;
        Size { letters, followed: true }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::Filter;

    use super::*;

    fn sizes(rate: Option<u32>) -> Vec<(u32, bool)> {
        let canary = Some(Canary { steps: vec![1, 5], ..Canary::default() });
        let request = Request { rate, canary, ..Request::new(Action::Redrive, Filter::default()) };
        let mut sizes = Sizes::of(&request);
        std::iter::repeat_with(|| sizes.next_size())
            .map(|size| (size.letters, size.followed))
            .take(5)
            .collect()
    }

    #[test]
    fn the_rate_binds_the_ramp_too() {
        let rest = (PORTION, false);
        assert_eq!(sizes(None), [(1, true), (5, true), rest, rest, rest]);
        assert_eq!(sizes(Some(2)), [(1, true), (2, true), (2, true), (1, true), (2, false)]);
    }

    #[test]
    fn what_died_after_the_confirmation_is_not_meant() {
        let at: Timestamp = "2026-11-16T14:00:00Z".parse().unwrap();
        let until = |asked: Option<&str>| {
            let until = asked.map(|text| text.parse().unwrap());
            let request = Request::new(Action::Redrive, Filter { until, ..Filter::default() });
            as_confirmed(&request, at).filter.until.unwrap().to_string()
        };
        assert_eq!(until(None), "2026-11-16T14:00:00.001Z");
        assert_eq!(until(Some("2026-11-16T13:00:00Z")), "2026-11-16T13:00:00Z");
        assert_eq!(until(Some("2026-11-16T15:00:00Z")), "2026-11-16T14:00:00.001Z");
    }
}
