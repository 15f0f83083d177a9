//! Slots: so many handlers run at a time, each panic and time-out contained in its own events.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

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
}

impl Slots {
    pub(crate) fn new(count: usize, timeout: Duration) -> Self {
        // Unbounded queues: the worker never has more in hand than its capacity.
        let (queue, waiting) = async_channel::unbounded();
        let (done, outcomes) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        for _ in 0..count.max(1) {
            running.spawn(slot(waiting.clone(), done.clone(), timeout));
        }
        Self { queue, waiting, outcomes, done, running, timeout }
    }

    /// Runs a task at once, in a slot of its own.
    pub(crate) fn start_at_once(&mut self, task: Task) {
        let (done, timeout) = (self.done.clone(), self.timeout);
        // Those that have ended are of no more interest.
        while self.running.try_join_next().is_some() {}
        self.running.spawn(async move { drop(done.send(run(task, timeout).await)) });
    }

    /// Queues a task for the next free slot.
    pub(crate) fn start(&self, task: Task) {
        // Fails only when every slot is gone, and then the worker is gone, too.
        drop(self.queue.try_send(task));
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

async fn slot(queue: async_channel::Receiver<Task>, done: mpsc::UnboundedSender<Outcome>, timeout: Duration) {
    while let Ok(task) = queue.recv().await {
        if done.send(run(task, timeout).await).is_err() {
            return;
        }
    }
}

async fn run(task: Task, timeout: Duration) -> Outcome {
    let started = Instant::now();
    let Task { route, events, seat } = task;
    let handling = AssertUnwindSafe(route.handler().handle(&events)).catch_unwind();
    let results = match tokio::time::timeout(timeout, handling).await {
        Ok(Ok(results)) => complete(results, events.len()),
        Ok(Err(panic)) => vec![Err(panicked(&*panic)); events.len()],
        Err(_) => vec![Err(timed_out(timeout)); events.len()],
    };
    Outcome { route, events, results, took: started.elapsed(), seat }
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
