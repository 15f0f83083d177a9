//! The worker loop: claim → handle → judge → settle, the same for every pipeline.
//!
//! One turn of the loop settles what has finished and claims as much as there is room for, in one
//! transaction. While a turn is under way handlers go on and their outcomes pile up, so the batches
//! grow by themselves under load and stay small, and quick, without it.
//!
//! Promises: nothing is settled that is not ours any more (the store's fence); a store that is away
//! burns nobody's attempts (outcomes wait in memory until it is back, and its aftermath is excused); what is
//! held, or being settled, is extended by a task of its own however long the store takes for a turn; a stop finishes or hands back everything in hand.

mod admission;
mod heartbeat;
mod prefetch;
mod stop;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_core::event::{Event, WorkId};
use redrive_core::failure::Failure;
use redrive_core::lease::{Lease, Settlement};
use redrive_core::trouble::{Reason, Trouble};
use redrive_store::{Claim, TakeOver, Turn};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::aftermath::Terms;
use crate::agenda::Agenda;
use crate::breaker::Change;
use crate::judge::{self, Record};
use crate::leases::{self, HeldLeases};
use crate::pipeline::Pipeline;
use crate::routes::{Route, Routes};
use crate::slots::{Outcome, Slots, Task};
use crate::trial::{CrashIsolation, Seat, Sorting, Suspicion};
use crate::witness::{About, Witness};

use heartbeat::{Beat, Heartbeat};
use prefetch::Prefetch;

/// How long to wait before a store that failed is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// When an answer of the store is given up: a server that vanished without a word never sends one.
const GIVE_UP: Duration = Duration::from_secs(60);

/// What is said of a settlement that came to nothing without an error.
const IGNORED: &str =
    "a trigger or rule of the table drops the change without an error: remove it, or let it raise one";

/// One worker of a pipeline.
pub(crate) struct Worker {
    pipeline: Arc<Pipeline>,
    routes: Routes,
    name: String,
    stop: CancellationToken,
    slots: Slots,
    witness: Witness,
    /// Where events are tried that may kill this process, and whether claims wait for that.
    isolation: CrashIsolation,
    suspicion: Arc<Suspicion>,
    /// Since when claims wait for that, although there is room.
    paused_since: Option<Instant>,
    /// What was claimed and not settled yet.
    hand: HashMap<WorkId, Held>,
    /// The leases of that, and of what is judged.
    leases: HeldLeases,
    heartbeat: Heartbeat,
    /// What is tried alone, as soon as the others are handed back for good.
    on_trial: Option<Task>,
    /// Of what was tried, and is not settled yet.
    leaving: Option<Seat>,
    /// Of a claim of which something is not handed back yet.
    sorting: Option<Sorting>,
    /// What has been judged and is to be settled with the next turn.
    judged: Vec<(Lease, Settlement)>,
    agenda: Agenda,
    /// How much the handlers can begin with at once.
    at_once: usize,
    prefetch: Prefetch,
    /// How long to wait before the store is asked again; zero while it answers.
    pause: Duration,
}

/// What was claimed and not settled yet.
struct Held {
    lease: Lease,
    record: Record,
}

impl Worker {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        routes: Routes,
        name: String,
        (isolation, suspicion): (CrashIsolation, Arc<Suspicion>),
        stop: CancellationToken,
    ) -> Self {
        let leases = HeldLeases::new();
        let slots = Slots::new(pipeline.pace.concurrency, pipeline.pace.handler_timeout, leases.clone());
        let agenda = Agenda::new(pipeline.pace.poll_interval);
        let prefetch = Prefetch::new(pipeline.pace.batch_size as usize);
        let batches = routes.iter().map(|route| route.handler().max_batch()).max().unwrap_or(1);
        let at_once = pipeline.pace.concurrency.saturating_mul(batches);
        let witness = Witness::new(Arc::clone(&pipeline));
        let heartbeat = Heartbeat::start(Arc::clone(&pipeline), leases.clone());
        Self {
            pipeline,
            routes,
            name,
            stop,
            slots,
            witness,
            isolation,
            suspicion,
            paused_since: None,
            hand: HashMap::new(),
            leases,
            heartbeat,
            on_trial: None,
            leaving: None,
            sorting: None,
            judged: Vec::new(),
            agenda,
            at_once,
            prefetch,
            pause: Duration::ZERO,
        }
    }

    /// Works until it is told to stop, and then hands back what is left.
    pub(crate) async fn run(mut self) {
        while !self.stop.is_cancelled() {
            self.wait().await;
            if self.wants_a_turn() {
                self.turn().await;
            }
        }
        self.finish().await;
    }

    fn wants_a_turn(&self) -> bool {
        !self.judged.is_empty() || (self.agenda.is_hungry() && self.room() > 0 && self.may_claim())
    }

    fn may_claim(&self) -> bool {
        !self.pipeline.switch.is_paused() && !self.is_hushed()
    }

    /// Whether claims wait for an event that is tried alone.
    fn is_hushed(&self) -> bool {
        self.suspicion.is_due() && self.isolation.is_hushed()
    }

    /// Counts how long claims have waited for that.
    fn count_pause(&mut self) {
        if self.is_hushed() && self.agenda.is_hungry() && self.room() > 0 {
            self.paused_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.paused_since.take() {
            self.witness.claims_paused(since.elapsed());
        }
    }

    /// How much more may be claimed: what handlers can begin with, and a little that waits for them.
    fn room(&self) -> u32 {
        let most = (self.pipeline.pace.batch_size as usize).max(self.pipeline.pace.concurrency);
        let capacity = self.at_once.saturating_add(self.prefetch.size()).min(most);
        u32::try_from(capacity.saturating_sub(self.hand.len())).unwrap_or(u32::MAX)
    }

    /// Waits until there is something to do: an outcome, the bell, a due time, a heartbeat.
    async fn wait(&mut self) {
        self.count_pause();
        if !self.wants_a_turn() {
            tokio::select! {
                () = self.stop.cancelled() => {}
                outcome = self.slots.finished() => self.judge_all(outcome),
                () = self.pipeline.bell.rung(), if !self.agenda.is_hungry() => self.agenda.hurry(),
                () = sleep_until(self.agenda.next_look()), if !self.agenda.is_hungry() => self.agenda.hurry(),
                () = self.pipeline.switch.turned(), if self.pipeline.switch.is_paused() => self.agenda.hurry(),
                () = self.isolation.hush_over(), if self.isolation.is_hushed() => {}
                () = self.isolation.alone(), if self.on_trial.is_some() => self.start_trial(),
                beat = self.heartbeat.next() => self.note_all(beat),
            }
        }
        self.note_beats();
        self.gather().await;
    }

    /// Outcomes come in crowds: takes along what comes while others have their turn.
    async fn gather(&mut self) {
        self.judge_finished();
        loop {
            tokio::task::yield_now().await;
            if self.judge_finished() == 0 {
                return;
            }
        }
    }

    /// Judges what has finished by now, and says how many calls that were.
    fn judge_finished(&mut self) -> usize {
        let finished = std::iter::from_fn(|| self.slots.also_finished()).collect::<Vec<_>>();
        let calls = finished.len();
        self.judge_all(finished);
        calls
    }

    fn judge_all(&mut self, outcomes: impl IntoIterator<Item = Outcome>) {
        for outcome in outcomes {
            self.witness.attempt(&outcome);
            let Outcome { route, events, results, late, seat, .. } = outcome;
            self.leaving = seat.or(self.leaving.take());
            late.into_iter().for_each(|event| self.give_up(event));
            for (event, result) in events.into_iter().zip(results) {
                self.judge(&route, event, result);
            }
        }
    }

    fn judge(&mut self, route: &Route, event: Event, result: Result<(), Failure>) {
        match judge::note(route, event.id, &result) {
            Change::None => {}
            Change::Opened => self.witness.handler_down(route, &reason(&result)),
            Change::Closed => self.witness.handler_back(route),
        }
        // Not in hand any more: somebody took it over, and their outcome counts.
        let Some(Held { lease, record }) = self.hand.remove(&event.id) else { return };
        let retry_count = record.retry_count;
        let settlement = match result {
            Ok(()) => Settlement::Done,
            Err(failure) => {
                let (name, policy) = (&self.pipeline.name, &self.pipeline.policy);
                judge::judge(name, policy, route, (&event, record), failure)
            }
        };
        self.settle_later(lease, settlement, About::of(event, retry_count));
    }

    /// Hands back, uncounted, what was not begun because its lease had run out; if somebody else has it by now, that
    /// changes nothing.
    fn give_up(&mut self, event: Event) {
        let Some(Held { lease, record }) = self.hand.remove(&event.id) else { return };
        tracing::info!(pipeline = %self.pipeline.name, work = %event.id, "lease ran out before the handler was called");
        let settlement = Settlement::Release { after: Duration::ZERO };
        self.settle_later(lease, settlement, About::of(event, record.retry_count));
    }

    fn settle_later(&mut self, lease: Lease, settlement: Settlement, about: About) {
        if let Settlement::Retry { after, .. }
        | Settlement::Suspect { after, .. }
        | Settlement::Release { after } = &settlement
        {
            self.agenda.look_after(*after);
        }
        self.witness.judged(&lease, &settlement, about);
        self.judged.push((lease, settlement));
    }

    /// Settles what is judged and claims anew.
    async fn turn(&mut self) {
        let (asked, asked_at) = (Instant::now(), self.leases.now());
        self.prefetch.begin(asked, self.judged.len(), self.slots.waiting());
        let terms = self.pipeline.aftermath.terms_of_worker(asked, self.pipeline.pace.lease);
        let claim = self.claim(terms);
        let settling = leases::keys(&self.judged);
        let turn = self.pipeline.store.turn(&mut self.judged, claim.as_ref());
        match timeout(GIVE_UP, turn).await {
            Ok(Ok(turn)) => {
                self.store_answers(asked);
                self.prefetch.end(asked, Instant::now());
                self.leases.released(&settling);
                self.leases.claimed(&turn.claimed, asked_at, self.pipeline.pace.lease);
                self.report_ignored(&settling, &turn.lost).await;
                self.take(turn, claim.map(|claim| (claim, terms)));
            }
            // It answers, and will not take something: that is no outage.
            Ok(Err(error)) if !error.is_unavailable() && !self.judged.is_empty() => {
                self.settle_one_by_one(asked).await;
            }
            Ok(Err(error)) => self.store_fails(asked, error.trouble()).await,
            Err(_) => self.store_fails(asked, gave_up()).await,
        }
    }

    fn claim(&mut self, terms: Terms) -> Option<Claim> {
        let limit = self.room().min(self.pipeline.pace.batch_size);
        if limit == 0 || self.stop.is_cancelled() || !self.may_claim() {
            return None;
        }
        // Where nothing was ever interrupted, nothing would lose its last attempt beside the one that is tried.
        if self.sorting.is_none() && self.suspicion.is_due() {
            self.sorting = Some(self.isolation.begin_claim()?);
        }
        Some(Claim {
            worker: self.name.clone(),
            limit,
            lease: self.pipeline.pace.lease,
            take_over: terms.take_over,
        })
    }

    fn take(&mut self, turn: Turn, asked_for: Option<(Claim, Terms)>) {
        self.settled(&turn.lost);
        if let Some((claim, terms)) = asked_for {
            let full = turn.claimed.len() >= claim.limit as usize;
            self.agenda.looked(full);
            if claim.take_over == TakeOver::Never {
                self.agenda.look_after(self.pipeline.aftermath.patience(Instant::now()));
            }
            self.begin(turn.claimed, terms);
            if !full {
                self.pipeline.aftermath.found_all(terms);
            }
        }
        self.sorted_out();
    }

    /// If nothing of the last claim is left to be handed back, a trial may begin, here or elsewhere.
    fn sorted_out(&mut self) {
        if self.judged.is_empty() {
            self.sorting = None;
        }
        self.start_trial();
    }

    /// What was judged is settled for good, but for what was lost.
    fn settled(&mut self, lost: &[WorkId]) {
        self.witness.settled(lost);
        self.leaving = None;
    }

    /// Takes down what the heartbeat has said by now.
    fn note_beats(&mut self) {
        let said = std::iter::from_fn(|| self.heartbeat.also()).collect::<Vec<_>>();
        self.note_all(said);
    }

    fn note_all(&mut self, beats: impl IntoIterator<Item = Beat>) {
        for Beat { extended, lost } in beats {
            for lease in extended {
                if let Some(held) = self.in_hand(&lease) {
                    held.lease.extend(lease.until());
                }
            }
            for lease in lost {
                // What is not in hand was settled, or is being settled: its turn says what became of it.
                if self.in_hand(&lease).is_some() {
                    let work = lease.work();
                    tracing::warn!(pipeline = %self.pipeline.name, %work, "lease lost while handling");
                    self.hand.remove(&work);
                    self.leases.released(&[(work, lease.fence())]);
                }
            }
        }
    }

    /// What is held under this lease, not under a later one.
    fn in_hand(&mut self, lease: &Lease) -> Option<&mut Held> {
        self.hand.get_mut(&lease.work()).filter(|held| held.lease.fence() == lease.fence())
    }

    fn store_answers(&mut self, asked: Instant) {
        if !self.pause.is_zero() {
            tracing::info!(pipeline = %self.pipeline.name, worker = %self.name, "the store answers again");
            self.pause = Duration::ZERO;
        }
        self.pipeline.aftermath.answered(asked, Instant::now(), self.pipeline.pace.lease);
        self.witness.store_up();
    }

    /// Keeps everything and waits a little; handlers that run go on meanwhile.
    async fn store_fails(&mut self, asked: Instant, trouble: Trouble) {
        if self.pause.is_zero() {
            let error = &trouble.detail;
            tracing::error!(pipeline = %self.pipeline.name, worker = %self.name, error, "the store does not answer");
        }
        self.pipeline.aftermath.failed(asked, Instant::now(), self.pipeline.pace.lease);
        self.witness.store_down(trouble);
        // What cannot be settled holds up no trial elsewhere.
        (self.sorting, self.leaving) = (None, None);
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let pause = tokio::time::sleep(self.pause);
        tokio::select! {
            () = pause => {}
            () = self.stop.cancelled() => {}
        }
        self.agenda.hurry();
    }

    /// One settlement that the store will not take must not keep the others from being settled.
    async fn settle_one_by_one(&mut self, asked: Instant) {
        let mut lost = Vec::new();
        let mut left = std::mem::take(&mut self.judged).into_iter();
        while let Some(settlement) = left.next() {
            let work = settlement.0.work();
            let mut one = vec![settlement];
            let settling = leases::keys(&one);
            let away = match timeout(GIVE_UP, self.pipeline.store.turn(&mut one, None)).await {
                Ok(Ok(turn)) => {
                    self.leases.released(&settling);
                    lost.extend(turn.lost);
                    continue;
                }
                Ok(Err(error)) if !error.is_unavailable() => {
                    self.set_aside(&mut one, &error.to_string()).await;
                    self.witness.forget(work);
                    self.leases.released(&settling);
                    continue;
                }
                Ok(Err(error)) => error.trouble(),
                Err(_) => gave_up(),
            };
            self.judged.append(&mut one);
            self.judged.extend(left);
            return self.store_fails(asked, away).await;
        }
        self.settled(&lost);
        self.sorted_out();
    }
}

impl Worker {
    /// A settlement that changed nothing although its lease is still held was dropped by a trigger or rule, without an
    /// error: no other worker took it over.
    async fn report_ignored(&mut self, settling: &[(WorkId, i64)], lost: &[WorkId]) {
        for (work, fence) in settling.iter().filter(|(work, _)| lost.contains(work)) {
            let lease = || Lease::new(*work, *fence, jiff::Timestamp::MAX);
            if let Ok(Ok(Some(_))) = timeout(GIVE_UP, self.pipeline.store.recall(&lease())).await {
                self.witness.forget(*work);
                let ignored = Settlement::Release { after: Duration::ZERO };
                self.set_aside(&mut vec![(lease(), ignored)], IGNORED).await;
            }
        }
    }

    /// The table will not hold how this ended: a constraint, a trigger, a column that is too short. Without more ado
    /// its lease would run out and it would be handled again, for ever. It is handed back uncounted instead, for
    /// longer each time, and everybody is told.
    async fn set_aside(&mut self, refused: &mut Vec<(Lease, Settlement)>, error: &str) {
        let Some((lease, _)) = refused.pop() else { return };
        let work = lease.work();
        let after = self.witness.refused(work, error);
        let mut release = vec![(lease, Settlement::Release { after })];
        match timeout(GIVE_UP, self.pipeline.store.turn(&mut release, None)).await {
            Ok(Ok(_)) => self.agenda.look_after(after),
            // Its lease runs out, and the attempt is counted then.
            Ok(Err(error)) => {
                tracing::error!(pipeline = %self.pipeline.name, %work, %error, "nor can it be set aside");
            }
            Err(_) => {
                tracing::error!(pipeline = %self.pipeline.name, %work, "nor can it be set aside in time");
            }
        }
    }
}

/// What an alert says about the outcome that opened a breaker.
fn reason(result: &Result<(), Failure>) -> String {
    result.as_ref().err().map(ToString::to_string).unwrap_or_default()
}

fn gave_up() -> Trouble {
    Trouble::new(Reason::StoreUnreachable, format!("the store did not answer within {GIVE_UP:?}"))
}
