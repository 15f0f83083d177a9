//! The contract of a store of work without a database.
//!
//! It asks the state table what is allowed and does exactly that, so it is also the model that the
//! SQL stores are compared with. Nothing survives the process: for tests, and for trying things out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::event::{Event, NewEvent, WorkId};
use redrive_core::lease::{Lease, Settlement, Work};
use redrive_core::state::{Machine, Step};

use crate::error::Error;
use crate::work::{Claim, TakeOver, Turn, WorkStore};

/// Work in memory, with the states of the machine `M`. New work starts in the first of them.
#[derive(Debug, Default)]
pub struct Memory<M> {
    rows: Mutex<BTreeMap<WorkId, Entry<M>>>,
}

#[derive(Debug)]
struct Entry<M> {
    state: M,
    fence: i64,
    due: Instant,
    work: Work,
}

impl<M: Machine + Send> Memory<M> {
    /// No work at all.
    #[must_use]
    pub fn new() -> Self {
        Self { rows: Mutex::new(BTreeMap::new()) }
    }

    /// Adds events, and returns their numbers in the same order.
    pub fn append(&self, events: Vec<NewEvent>) -> Vec<WorkId> {
        events.into_iter().map(|event| self.add(event)).collect()
    }

    /// Where a piece of work is now.
    pub fn state(&self, id: WorkId) -> Option<M> {
        self.rows().get(&id).map(|entry| entry.state)
    }

    /// Puts a piece of work where no step leads: as another program might.
    pub fn place(&self, id: WorkId, state: M) {
        if let Some(entry) = self.rows().get_mut(&id) {
            entry.state = state;
        }
    }

    /// Does this to a dead letter, and says whether that was allowed.
    pub fn act(&self, id: WorkId, step: Step) -> bool {
        let mut rows = self.rows();
        let Some(entry) = rows.get_mut(&id) else { return false };
        let Some(next) = entry.state.next(step) else { return false };
        entry.state = next;
        if step == Step::Redrive {
            entry.due = Instant::now();
            entry.work.retry_count = 0;
            // Where the letter is closed by it (the outbox), the event comes again as a new one.
            if next.next(Step::Claim).is_none() {
                let work = entry.work.clone();
                insert(&mut rows, work);
            }
        }
        true
    }

    fn add(&self, event: NewEvent) -> WorkId {
        let event = Event {
            id: WorkId(0),
            origin: WorkId(0),
            event_type: event.event_type,
            aggregate_type: event.aggregate_type,
            key: event.aggregate_id,
            payload: event.payload.into_bytes(),
            created_at: Timestamp::now(),
            attempt: 1,
        };
        let work = Work {
            event,
            retry_count: 0,
            max_retries: None,
            interrupted: false,
            history: Default::default(),
        };
        insert(&mut self.rows(), work)
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<WorkId, Entry<M>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds work under the next number; what has no origin yet is its own.
fn insert<M: Machine>(rows: &mut BTreeMap<WorkId, Entry<M>>, mut work: Work) -> WorkId {
    let id = WorkId(rows.last_key_value().map_or(1, |(id, _)| id.0 + 1));
    work.event.id = id;
    if work.event.origin == WorkId(0) {
        work.event.origin = id;
    }
    rows.insert(id, Entry { state: M::ALL[0], fence: 0, due: Instant::now(), work });
    id
}

impl<M: Machine> Entry<M> {
    /// Applies a settlement, if this lease is the latest and the state allows it.
    fn settle(&mut self, lease: &Lease, settlement: Settlement) -> bool {
        let step = match &settlement {
            Settlement::Done => Step::Succeed,
            Settlement::Retry { .. } => Step::Retry,
            Settlement::Dead { .. } => Step::Bury,
            Settlement::Suspect { .. } | Settlement::Release { .. } => Step::Release,
        };
        let Some(next) = self.state.next(step).filter(|_| self.fence == lease.fence()) else { return false };
        self.state = next;
        match settlement {
            Settlement::Done => {}
            Settlement::Retry { after, failed } => {
                self.due = later(after);
                self.work.retry_count += 1;
                self.work.history = failed.history;
            }
            Settlement::Dead { failed } => self.work.history = failed.history,
            Settlement::Suspect { after, failed } => {
                self.due = later(after);
                self.work.history = failed.history;
            }
            Settlement::Release { after } => self.due = later(after),
        }
        true
    }

    fn claim(&mut self, claim: &Claim) -> Option<(Lease, Work)> {
        if self.due > Instant::now() {
            return None;
        }
        let taken_over = self.state.next(Step::TakeOver);
        let taken_over = taken_over.filter(|_| claim.take_over == TakeOver::Expired);
        self.state = self.state.next(Step::Claim).or(taken_over)?;
        self.fence += 1;
        self.due = later(claim.lease);
        self.work.interrupted = taken_over.is_some();
        self.work.event.attempt = self.work.retry_count + 1;
        Some((Lease::new(self.work.event.id, self.fence, until(claim.lease)), self.work.clone()))
    }
}

#[async_trait]
impl<M: Machine + Send + Sync> WorkStore for Memory<M> {
    async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error> {
        let mut rows = self.rows();
        let mut turn = Turn::default();
        for (lease, settlement) in settled.drain(..) {
            let work = lease.work();
            if !rows.get_mut(&work).is_some_and(|entry| entry.settle(&lease, settlement)) {
                turn.lost.push(work);
            }
        }
        if let Some(claim) = claim {
            let mut due: Vec<_> = rows.values_mut().collect();
            due.sort_by_key(|entry| (entry.due, entry.work.event.id));
            turn.claimed =
                due.into_iter().filter_map(|entry| entry.claim(claim)).take(claim.limit as usize).collect();
            turn.claimed.sort_unstable_by_key(|(lease, _)| lease.work());
        }
        Ok(turn)
    }

    async fn extend(&self, leases: &mut [&mut Lease], lease: Duration) -> Result<Vec<WorkId>, Error> {
        let mut rows = self.rows();
        let mut lost = Vec::new();
        for held in leases {
            let entry = rows.get_mut(&held.work());
            match entry.filter(|row| row.fence == held.fence() && row.state.next(Step::Succeed).is_some()) {
                Some(entry) => {
                    entry.due = later(lease);
                    held.extend(until(lease));
                }
                None => lost.push(held.work()),
            }
        }
        Ok(lost)
    }

    async fn recall(&self, lease: &Lease) -> Result<Option<Work>, Error> {
        let rows = self.rows();
        let held = rows.get(&lease.work()).filter(|row| row.fence == lease.fence());
        let held = held.filter(|row| row.state.next(Step::Succeed).is_some());
        Ok(held.map(|row| Work { interrupted: false, ..row.work.clone() }))
    }

    async fn settle_unexpired(&self, lease: Lease, settlement: Settlement) -> Result<bool, Error> {
        let mut rows = self.rows();
        let row = rows.get_mut(&lease.work()).filter(|row| row.due > Instant::now());
        Ok(row.is_some_and(|row| row.settle(&lease, settlement)))
    }

    async fn extend_unexpired(&self, lease: &mut Lease, by: Duration) -> Result<bool, Error> {
        let expired = self.rows().get(&lease.work()).is_none_or(|row| row.due <= Instant::now());
        if expired {
            return Ok(false);
        }
        Ok(self.extend(&mut [lease], by).await?.is_empty())
    }

    async fn backlog(&self) -> Result<u64, Error> {
        let live = |entry: &&Entry<M>| {
            entry.state.next(Step::Claim).is_some() || entry.state.next(Step::TakeOver).is_some()
        };
        Ok(self.rows().values().filter(live).count() as u64)
    }
}

fn later(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or(now + Duration::from_secs(u32::MAX.into()))
}

fn until(lease: Duration) -> Timestamp {
    Timestamp::now().checked_add(lease).unwrap_or(Timestamp::MAX)
}
