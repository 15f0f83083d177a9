//! A pipeline that works: a store of work, the handlers, and how failures are judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind};
use redrive_core::policy::Policy;
use redrive_store::WorkStore;
use tokio::sync::Notify;

use crate::aftermath::Aftermath;
use crate::alerts::{AlertService, Silence};
use crate::health::Health;
use crate::routes::Routes;
use crate::watch::Nudge;
use crate::witness::Labels;

/// How a pipeline works.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The most events that one claim takes.
    pub batch_size: u32,
    /// The most handlers that run at a time, in each worker.
    pub concurrency: usize,
    /// How many workers claim side by side.
    pub workers: usize,
    /// How long a claim holds; extended while a handler runs.
    pub lease: Duration,
    /// How often to look without being woken.
    pub poll_interval: Duration,
    /// How long a handler may take.
    pub handler_timeout: Duration,
    /// How long running handlers may finish when the pipeline stops.
    pub grace: Duration,
}

impl Default for Pace {
    /// The founding settings of the outbox: batches of 50, every 5 s.
    fn default() -> Self {
        Self {
            batch_size: 50,
            concurrency: 16,
            workers: 1,
            lease: Duration::from_secs(20),
            poll_interval: Duration::from_secs(5),
            handler_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(8),
        }
    }
}

/// A pipeline that works.
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PipelineKind,
    /// Where its work is.
    pub store: Arc<dyn WorkStore>,
    /// Where its dead letters are.
    pub letters: Arc<dyn DeadLetterQueue>,
    /// Who handles its events; nobody when other programs claim them over HTTP.
    pub routes: Option<Routes>,
    /// How failures are judged.
    pub policy: Policy,
    /// How it works.
    pub pace: Pace,
    /// Who is told.
    pub alerts: Arc<dyn AlertService>,
    /// Where its workers are woken.
    pub bell: Bell,
    /// Whether it claims.
    pub switch: Switch,
    /// Where its watch is told that something died.
    pub watch: Nudge,
    /// Whether its store answers.
    pub health: Health,
    /// What its store's last outage left behind.
    pub(crate) aftermath: Aftermath,
    /// Which types its metrics name.
    pub(crate) labels: Labels,
}

impl Pipeline {
    /// A pipeline that nobody works on yet, with the founding pace, and alerts that nobody hears.
    #[must_use]
    pub fn new(
        name: &str,
        kind: PipelineKind,
        store: Arc<dyn WorkStore>,
        letters: Arc<dyn DeadLetterQueue>,
        policy: Policy,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            store,
            letters,
            routes: None,
            policy,
            pace: Pace::default(),
            alerts: Arc::new(Silence),
            bell: Bell::default(),
            switch: Switch::default(),
            watch: Nudge::default(),
            health: Health::default(),
            aftermath: Aftermath::default(),
            labels: Labels::default(),
        }
    }

    /// The same pipeline with these handlers.
    #[must_use]
    pub fn handled_by(mut self, routes: Routes) -> Self {
        self.routes = Some(routes);
        self
    }

    /// The same pipeline at this pace.
    #[must_use]
    pub fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The same pipeline with somebody who is told.
    #[must_use]
    pub fn alerting(mut self, alerts: Arc<dyn AlertService>) -> Self {
        self.alerts = alerts;
        self
    }
}

/// Wakes the workers of a pipeline: there is something to do.
#[derive(Debug, Clone, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Wakes one worker; one that is busy looks again before it rests.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }
}

/// Stops and restarts claiming.
#[derive(Debug, Clone, Default)]
pub struct Switch {
    paused: Arc<AtomicBool>,
    resumed: Arc<Notify>,
}

impl Switch {
    /// Stops claiming; what is in hand is finished.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Claims again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.resumed.notify_waiters();
    }

    /// Waits until claiming goes on.
    pub(crate) async fn turned(&self) {
        let resumed = self.resumed.notified();
        if self.is_paused() {
            resumed.await;
        }
    }

    /// Whether claiming has stopped.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }
}
