//! What the console has of one pipeline: its letters, and its workers if they are here.

use std::sync::Arc;

use redrive_core::dead_letter::{Acted, DeadLetterQueue, LetterId, Order, Unavailable};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::trouble::Trouble;
use redrive_store::NewLetter;

use crate::alerts::{AlertService, DeadLetterAlert, Inert};
use crate::pipeline::Pipeline;
use crate::routes::{Route, Routes};
use crate::watch::Nudge;
use crate::{Bell, Health, Switch};

/// What the console has of one pipeline.
#[derive(Clone)]
pub struct Desk {
    /// Its dead letters.
    pub queue: Arc<dyn DeadLetterQueue>,
    /// Its workers: woken when something was sent back, paused, resumed. None when nobody works on it here.
    pub workers: Option<Workers>,
}

/// The workers of a pipeline.
#[derive(Clone)]
pub struct Workers {
    /// Wakes them.
    pub bell: Bell,
    /// Stops and restarts them.
    pub switch: Switch,
    /// Whether their store answers.
    pub health: Health,
    /// Who handles its events, in the order of their names; nobody when others do.
    pub handlers: Vec<Route>,
    /// Who hears of dead letters.
    pub alerts: Arc<dyn AlertService>,
    /// Where the watch is told that something died.
    pub watch: Nudge,
}

impl Workers {
    /// The workers of this pipeline.
    #[must_use]
    pub fn of(pipeline: &Pipeline) -> Self {
        let mut handlers: Vec<Route> = pipeline.routes.iter().flat_map(Routes::iter).cloned().collect();
        handlers.sort_by(|one, other| one.name().cmp(other.name()));
        Self {
            handlers,
            bell: pipeline.bell.clone(),
            switch: pipeline.switch.clone(),
            health: pipeline.health.clone(),
            alerts: Arc::clone(&pipeline.alerts),
            watch: pipeline.watch.clone(),
        }
    }

    /// What keeps them from working: their store, or the handlers that are down.
    pub(super) fn trouble(&self) -> Option<String> {
        let down = || self.handlers.iter().filter_map(Route::trouble).collect::<Vec<_>>().join("; ");
        let store = self.health.get().err().map(|trouble| trouble.detail);
        store.or_else(|| Some(down()).filter(|down| !down.is_empty()))
    }

    /// Tells people of a letter that was handed in.
    pub(super) fn received(&self, id: &LetterId, letter: &NewLetter) {
        self.alerts.dead_letter(DeadLetterAlert {
            pipeline: Inert::new(&id.pipeline),
            event_id: Inert::new(&id.local),
            event_type: Inert::new(&letter.event_type),
            aggregate_type: Inert::new(""),
            aggregate_id: Inert::new(&letter.key),
            retry_count: letter.attempts.saturating_sub(1),
            error: DeadLetterAlert::error_of(&letter.failure),
            failed_at: letter.failed_at,
            fingerprint: Fingerprint::of(&id.pipeline, &letter.event_type, &letter.failure),
        });
        self.watch.nudge();
    }
}

impl Desk {
    /// The letters of a pipeline that works here.
    #[must_use]
    pub fn of(pipeline: &Pipeline) -> Self {
        Self { queue: Arc::clone(&pipeline.letters), workers: Some(Workers::of(pipeline)) }
    }

    /// Redrives letters; what the table refuses is noted in the health of the pipeline.
    pub(super) async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Unavailable> {
        let redriven = self.queue.redrive(ids, order).await;
        if let Some(workers) = &self.workers {
            match &redriven {
                Ok(_) => workers.health.redriven(Ok(())),
                Err(error) => {
                    if let Some(source) = refusal(error) {
                        let detail = format!("the table refuses what is redriven: {source}");
                        workers.health.redriven(Err(Trouble::new(source.reason(), detail)));
                    }
                }
            }
        }
        redriven
    }

    pub(super) fn wake(&self) {
        if let Some(workers) = &self.workers {
            workers.bell.ring();
        }
    }
}

/// What the store of a pipeline refuses, and will refuse again; nothing when it may take it later.
pub(super) fn refusal(error: &Unavailable) -> Option<&redrive_store::Error> {
    error.source.downcast_ref::<redrive_store::Error>().filter(|source| !source.is_unavailable())
}
