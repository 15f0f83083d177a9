//! What becomes of work that was just claimed: most of it goes to a handler, some needs none.

use std::time::{Duration, Instant};

use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::lease::{Lease, Settlement, Work};

use super::{Held, Worker};
use crate::aftermath::Terms;
use crate::breaker::Admission;
use crate::judge::{self, Record};
use crate::routes::Route;
use crate::slots::Task;
use crate::trial::Seat;
use crate::witness::About;

/// How long an event that must be tried alone waits while another one is.
const TRIAL_PAUSE: Duration = Duration::from_millis(500);

impl Worker {
    /// Begins with what was claimed on these terms.
    pub(super) fn begin(&mut self, claimed: Vec<(Lease, Work)>, terms: Terms) {
        let excused = self.pipeline.aftermath.excuses(terms);
        let mut tasks: Vec<Task> = Vec::new();
        for (lease, mut work) in claimed {
            work.interrupted &= !excused;
            let Some((route, event, seat)) = self.admit(lease, work) else { continue };
            if seat.is_some() {
                self.on_trial = Some(Task { route, events: vec![event], seat });
                continue;
            }
            let fits = |task: &&mut Task| {
                task.route.name() == route.name() && task.events.len() < route.handler().max_batch()
            };
            match tasks.last_mut().filter(fits) {
                Some(task) => task.events.push(event),
                None => tasks.push(Task { route, events: vec![event], seat: None }),
            }
        }
        tasks.into_iter().for_each(|task| self.slots.start(task));
    }

    /// Tries what is on trial, once nobody in this process would die beside it who need not.
    pub(super) fn start_trial(&mut self) {
        if self.on_trial.is_none() || !self.isolation.is_alone() {
            return;
        }
        let held = |task: &Task| task.events.iter().all(|event| self.hand.contains_key(&event.id));
        if let Some(task) = self.on_trial.take().filter(held) {
            task.seat.iter().for_each(Seat::begin);
            self.slots.start_at_once(task);
        }
    }

    /// Takes work in hand, unless it can be judged without being handled.
    fn admit(&mut self, lease: Lease, work: Work) -> Option<(Route, Event, Option<Seat>)> {
        if let Some(held) = self.hand.get_mut(&lease.work()) {
            // Our own lease had run out before we could extend it, and the handler is still at it.
            held.lease = lease;
            return None;
        }
        let interrupted = work.interrupted;
        let (event, record) = Record::split(work);
        if interrupted {
            self.suspicion.confirm();
            self.fail_interrupted(lease, event, record);
            return None;
        }
        let route = match self.routes.find(&event).cloned() {
            Ok(route) => route,
            Err(failure) => {
                self.fail(lease, event, record, failure);
                return None;
            }
        };
        let on_trial = judge::is_on_trial(&self.pipeline.policy, &record);
        if on_trial {
            self.suspicion.confirm();
        }
        let seat = on_trial.then(|| self.isolation.enter()).flatten();
        if on_trial && seat.is_none() {
            self.put_off(lease, event, &record, TRIAL_PAUSE);
            return None;
        }
        let admission = route.breaker().admit(event.id, Instant::now());
        if let Admission::After(after) = admission {
            self.put_off(lease, event, &record, after);
            return None;
        }
        self.hand.insert(event.id, Held { lease, record });
        Some((route, event, seat))
    }

    fn put_off(&mut self, lease: Lease, event: Event, record: &Record, after: Duration) {
        let after = judge::spread(after, event.id.0);
        self.settle_later(lease, Settlement::Release { after }, About::of(event, record.retry_count));
    }

    fn fail_interrupted(&mut self, lease: Lease, event: Event, record: Record) {
        let retry_count = record.retry_count;
        let settlement = judge::interrupted(&self.pipeline.name, &self.pipeline.policy, &event, record);
        self.settle_later(lease, settlement, About::of(event, retry_count));
    }

    fn fail(&mut self, lease: Lease, event: Event, record: Record, failure: Failure) {
        let retry_count = record.retry_count;
        let settlement = judge::sentence(&self.pipeline.name, &self.pipeline.policy, &event, record, failure);
        self.settle_later(lease, settlement, About::of(event, retry_count));
    }
}
