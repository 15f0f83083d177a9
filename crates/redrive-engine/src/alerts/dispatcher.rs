//! The dispatcher: from what pipelines say to what channels are told.
//!
//! Every call does its work under one short lock (look up, count, `try_send`) and returns. Counting in
//! the call itself, rather than behind a queue, keeps the count of a storm exact however fast it comes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::AlertService;
use super::alert::{
    Alert, DeadLetterAlert, Dropped, HandlerDown, HandlerUp, HeldBack, LadderMoved, Level, Report,
};
use super::channel::Channel;
use super::crossings::{Crossing, Crossings};
use super::delivery::{Delivery, Health};
use super::groups::Groups;
use super::inert::Inert;
use super::limiter::{Limiter, Rate};
use super::outlet::{Ledger, Outlet};
use super::tally::{Outcome, count};

/// How alerts are grouped, limited and tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatcherOptions {
    /// How long letters of one group are counted before the count is told.
    pub window: Duration,
    /// How many groups are kept apart.
    pub max_groups: usize,
    /// How many alerts can wait for one channel.
    pub queue: usize,
    /// How many alerts one channel is sent.
    pub rate: Rate,
    /// How long to wait before each further try.
    pub retries: Vec<Duration>,
    /// How long one try may take.
    pub timeout: Duration,
}

impl Default for DispatcherOptions {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(600),
            max_groups: 1000,
            queue: 256,
            rate: Rate::default(),
            retries: [1, 5, 25].map(Duration::from_secs).into(),
            timeout: Duration::from_secs(15),
        }
    }
}

/// The [`AlertService`] that ships.
///
/// Dropping it stops its tasks at once; [`Dispatcher::shutdown`] lets them finish.
#[derive(Debug)]
pub struct Dispatcher {
    shared: Arc<Shared>,
    ledgers: Vec<Arc<Ledger>>,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    sweeper: JoinSet<()>,
    deliveries: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A group was opened, so there is a window to wait for.
    opened: Notify,
}

#[derive(Debug)]
struct State {
    groups: Groups,
    crossings: Crossings,
    down: HashSet<(Inert, Inert)>,
    /// Empty once the dispatcher has shut down.
    outlets: Vec<Outlet>,
}

impl Dispatcher {
    /// Starts telling these channels. Needs a tokio runtime.
    #[must_use]
    pub fn start(channels: Vec<Arc<dyn Channel>>, options: &DispatcherOptions) -> Self {
        let mut tasks = Tasks::default();
        let outlets: Vec<_> =
            channels.into_iter().map(|channel| open(channel, options, &mut tasks.deliveries)).collect();
        let ledgers = outlets.iter().map(|outlet| outlet.ledger.clone()).collect();
        let groups = Groups::new(options.window, options.max_groups.max(1));
        let state = State { groups, crossings: Crossings::default(), down: HashSet::new(), outlets };
        let shared = Arc::new(Shared { state: Mutex::new(state), opened: Notify::new() });
        tasks.sweeper.spawn(sweep(shared.clone()));
        Self { shared, ledgers, tasks: Mutex::new(tasks) }
    }

    /// Tells what was only counted so far, waits until the channels are done, at most this long, and
    /// stops. What is said afterwards is not told.
    pub async fn shutdown(&self, within: Duration) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.sweeper.shutdown().await;
        self.shared.close();
        if timeout(within, join(&mut tasks.deliveries)).await.is_err() {
            tasks.deliveries.shutdown().await;
            self.ledgers.iter().for_each(|ledger| give_up(ledger));
        }
    }
}

impl AlertService for Dispatcher {
    fn dead_letter(&self, letter: DeadLetterAlert) {
        let mut state = self.shared.lock();
        if let Some(alert) = state.groups.observe(letter, Instant::now()) {
            state.emit(alert);
            self.shared.opened.notify_one();
        }
    }

    fn unresolved(&self, level: Level) {
        let mut state = self.shared.lock();
        match state.crossings.observe(&level) {
            Some(Crossing::Reached) => state.emit(Alert::ThresholdReached(level)),
            Some(Crossing::Recovered) => state.emit(Alert::ThresholdRecovered(level)),
            None => {}
        }
    }

    fn handler_down(&self, handler: HandlerDown) {
        let mut state = self.shared.lock();
        if state.down.insert((handler.pipeline.clone(), handler.handler.clone())) {
            state.emit(Alert::HandlerDown(handler));
        }
    }

    fn handler_up(&self, handler: HandlerUp) {
        let mut state = self.shared.lock();
        if state.down.remove(&(handler.pipeline.clone(), handler.handler.clone())) {
            state.emit(Alert::HandlerUp(handler));
        }
    }

    fn ladder_moved(&self, moved: LadderMoved) {
        self.shared.lock().emit(Alert::LadderMoved(moved));
    }

    fn dropped(&self, dropped: Dropped) {
        self.shared.lock().emit(Alert::Dropped(dropped));
    }

    /// A report without letters has nothing to say and is not sent.
    fn report(&self, report: Report) {
        if report.unresolved > 0 {
            self.shared.lock().emit(Alert::Report(report));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        let counts = state.groups.flush(Instant::now());
        counts.into_iter().for_each(|alert| state.emit(alert));
        state.outlets.clear();
    }
}

impl State {
    fn emit(&self, alert: Alert) {
        let alert = Arc::new(alert);
        self.outlets.iter().for_each(|outlet| outlet.put(&alert));
    }
}

fn open(channel: Arc<dyn Channel>, options: &DispatcherOptions, deliveries: &mut JoinSet<()>) -> Outlet {
    let ledger = Arc::new(Ledger::new(channel.name()));
    let (sender, receiver) = mpsc::channel(options.queue.max(1));
    let delivery = Delivery {
        channel,
        queue: receiver,
        ledger: ledger.clone(),
        limiter: Limiter::new(options.rate, Instant::now()),
        retries: options.retries.clone(),
        timeout: options.timeout,
        held: HeldBack::default(),
        health: Health::Up,
    };
    deliveries.spawn(delivery.run());
    Outlet { queue: sender, ledger }
}

/// Tells the counts when their windows close.
async fn sweep(shared: Arc<Shared>) {
    loop {
        let next = shared.lock().groups.next_due();
        tokio::select! {
            () = shared.opened.notified() => {}
            () = until(next) => {
                let mut state = shared.lock();
                let counts = state.groups.due(Instant::now());
                counts.into_iter().for_each(|alert| state.emit(alert));
            }
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn join(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

fn give_up(ledger: &Ledger) {
    let (channel, alerts) = (ledger.channel(), ledger.waiting());
    if alerts > 0 {
        count(channel, Outcome::Dropped, alerts);
        tracing::error!(channel, alerts, "the end came before these alerts could be sent");
    }
}
