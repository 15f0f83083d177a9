//! Slots: N handlers run at a time, each panic and time-out contained in its own events.
//!
//! What waited for a slot for longer than its lease lasts is not begun: another worker may have it by now.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::leases::HeldLeases;
use crate::routes::Route;
use crate::trial::Seat;

/// Events for one call of one handler.
pub(crate) struct Task {
    pub(crate) route: Route,
    pub(crate) events: Vec<Event>,
    /// For what is tried alone: kept while the handler runs.
    pub(crate) seat: Option<Seat>,
}

/// What came of a task: one result per event.
pub(crate) struct Outcome {
    pub(crate) route: Route,
    pub(crate) events: Vec<Event>,
    pub(crate) results: Vec<Result<(), Failure>>,
    /// Events whose leases had run out before the handler was called: it was not, for these.
    pub(crate) late: Vec<Event>,
    pub(crate) took: Duration,
    pub(crate) seat: Option<Seat>,
}

/// The slots of one worker. Dropping them stops every handler that still runs.
pub(crate) struct Slots {
    queue: async_channel::Sender<Task>,
    waiting: async_channel::Receiver<Task>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    done: mpsc::UnboundedSender<Outcome>,
    running: JoinSet<()>,
    timeout: Duration,
    leases: HeldLeases,
}

impl Slots {
    pub(crate) fn new(count: usize, timeout: Duration, leases: HeldLeases) -> Self {
        // Unbounded queues: the worker never has more in hand than its capacity.
        let (queue, waiting) = async_channel::unbounded();
        let (done, outcomes) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        for _ in 0..count.max(1) {
            running.spawn(slot(waiting.clone(), done.clone(), timeout, leases.clone()));
        }
        Self { queue, waiting, outcomes, done, running, timeout, leases }
    }

    /// Runs a task at once, in a slot of its own.
    pub(crate) fn start_at_once(&mut self, task: Task) {
        let (done, timeout, leases) = (self.done.clone(), self.timeout, self.leases.clone());
        // Those that have ended are of no more interest.
        while self.running.try_join_next().is_some() {}
        self.running.spawn(async move { drop(done.send(run(task, timeout, &leases).await)) });
    }

    /// Queues a task for the next free slot.
    pub(crate) fn start(&self, task: Task) {
        // Fails only when every slot is gone, and then the worker is gone, too.
        drop(self.queue.try_send(task));
    }

    /// How many calls wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next outcome, as soon as there is one.
    pub(crate) async fn finished(&mut self) -> Option<Outcome> {
        self.outcomes.recv().await
    }

    /// A further outcome, if there is one already.
    pub(crate) fn also_finished(&mut self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }

    /// Stops every handler that still runs, so that what it had begun with can be handed back.
    pub(crate) fn stop(&mut self) {
        self.running.abort_all();
    }

    /// Takes back what no slot has begun with.
    pub(crate) fn take_waiting(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.waiting.try_recv().ok()).flat_map(|task| task.events).collect()
    }
}

async fn slot(
    queue: async_channel::Receiver<Task>,
    done: mpsc::UnboundedSender<Outcome>,
    timeout: Duration,
    leases: HeldLeases,
) {
    while let Ok(task) = queue.recv().await {
        if done.send(run(task, timeout, &leases).await).is_err() {
            return;
        }
    }
}

async fn run(task: Task, timeout: Duration, leases: &HeldLeases) -> Outcome {
    let started = Instant::now();
    let Task { route, events, seat } = task;
    let (events, late): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| leases.is_good(event.id));
    if events.is_empty() {
        return Outcome { route, events, results: Vec::new(), late, took: Duration::ZERO, seat };
    }
    let handling = AssertUnwindSafe(route.handler().handle(&events)).catch_unwind();
    let results = match tokio::time::timeout(timeout, handling).await {
        Ok(Ok(results)) => complete(results, events.len()),
        Ok(Err(panic)) => vec![Err(panicked(&*panic)); events.len()],
        Err(_) => vec![Err(timed_out(timeout)); events.len()],
    };
    Outcome { route, events, results, late, took: started.elapsed(), seat }
}

/// A handler that answers for fewer events than it was given has failed the others.
fn complete(mut results: Vec<Result<(), Failure>>, events: usize) -> Vec<Result<(), Failure>> {
    if results.len() != events {
        let message = format!("the handler gave {} outcomes for {events} events", results.len());
        results.resize(events, Err(Failure::unclassified("WrongCount", message)));
    }
    results
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::unclassified("Panic", text.unwrap_or_else(|| "the handler panicked".to_owned()))
}

/// A failure like any other: it says nothing about whether the handler is up.
fn timed_out(timeout: Duration) -> Failure {
    Failure::unclassified("Timeout", format!("the handler did not finish within {timeout:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use jiff::Timestamp;
    use redrive_core::event::WorkId;
    use redrive_core::handler::Handler;
    use redrive_core::lease::{Lease, Work};

    #[derive(Default)]
    struct Seen(Mutex<Vec<WorkId>>);

    #[async_trait]
    impl Handler for Seen {
        async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
            self.0.lock().unwrap().extend(batch.iter().map(|event| event.id));
            vec![Ok(()); batch.len()]
        }
    }

    fn event(id: i64) -> Event {
        Event {
            id: WorkId(id),
            origin: WorkId(id),
            event_type: String::new(),
            aggregate_type: String::new(),
            key: String::new(),
            payload: Vec::new(),
            created_at: Timestamp::MIN,
            attempt: 1,
        }
    }

    /// The clock stands for a machine that was suspended between the claim and the call.
    #[tokio::test]
    async fn what_waited_past_its_lease_is_not_begun() {
        let time = Arc::new(Mutex::new(Duration::ZERO));
        let clock = Arc::clone(&time);
        let leases = HeldLeases::by(Arc::new(move || *clock.lock().unwrap()));
        let claim = |id: i64| {
            let work = Work {
                event: event(id),
                retry_count: 0,
                max_retries: None,
                interrupted: false,
                history: Default::default(),
            };
            [(Lease::new(WorkId(id), 1, Timestamp::MAX), work)]
        };
        let length = Duration::from_secs(20);
        leases.claimed(&claim(1), Duration::ZERO, length);
        *time.lock().unwrap() = length;
        leases.claimed(&claim(2), length, length);
        let handler = Arc::new(Seen::default());
        let seen = || handler.0.lock().unwrap().clone();
        let mut slots = Slots::new(1, Duration::from_secs(60), leases);
        let task = |events| Task { route: Route::new("seen", handler.clone()), events, seat: None };

        slots.start(task(vec![event(1), event(2)]));
        let outcome = slots.finished().await.unwrap();
        assert_eq!((outcome.events, outcome.late), (vec![event(2)], vec![event(1)]));
        assert_eq!((outcome.results.len(), seen()), (1, vec![WorkId(2)]));

        slots.start(task(vec![event(1)]));
        let outcome = slots.finished().await.unwrap();
        assert_eq!((outcome.events, outcome.results, outcome.late), (vec![], vec![], vec![event(1)]));
        assert_eq!(seen(), [WorkId(2)], "the handler was not called");
    }
}
