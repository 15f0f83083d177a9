//! What the console has of one pipeline: its letters, and its workers if they are here.

use std::sync::Arc;

use redrive_core::dead_letter::{DeadLetterQueue, LetterId};
use redrive_core::fingerprint::Fingerprint;
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
        self.health.get().err().or_else(|| Some(down()).filter(|down| !down.is_empty()))
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

    pub(super) fn wake(&self) {
        if let Some(workers) = &self.workers {
            workers.bell.ring();
        }
    }
}
