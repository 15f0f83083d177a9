//! Where the batches of a pipeline go: into the store, onto the disk, or nowhere. Nowhere means that senders will be
//! refused and that a stop loses events, so people hear of it.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Gauge, gauge};

use crate::alerts::{AlertService, Inert, LadderMoved};
use crate::ladder::Rung;

/// Where the batches of one pipeline go.
pub(super) struct Fallback {
    pipeline: String,
    alerts: Arc<dyn AlertService>,
    gauge: Gauge,
    /// And why they go nowhere, if they do.
    level: Mutex<(Rung, String)>,
}

impl Fallback {
    pub(super) fn new(pipeline: &str, alerts: Arc<dyn AlertService>, level: Rung) -> Self {
        let gauge = gauge!("redrive_ladder_rung", "pipeline" => pipeline.to_owned());
        gauge.set(level.level());
        Self { pipeline: pipeline.to_owned(), alerts, gauge, level: Mutex::new((level, String::new())) }
    }

    /// A batch went there.
    pub(super) fn went(&self, level: Rung) {
        self.set(level, "");
    }

    /// Neither the store nor the disk took a batch.
    pub(super) fn nowhere(&self, why: &str) {
        self.set(Rung::Nowhere, why);
    }

    /// Why batches go nowhere, while they do.
    pub(super) fn why_nowhere(&self) -> Option<String> {
        let level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        (level.0 == Rung::Nowhere).then(|| level.1.clone())
    }

    fn set(&self, to: Rung, why: &str) {
        let was = std::mem::replace(
            &mut *self.level.lock().unwrap_or_else(PoisonError::into_inner),
            (to, why.to_owned()),
        );
        self.gauge.set(to.level());
        let from = was.0;
        // That batches wait on disk is known from the alert about the store.
        if from == to || (from != Rung::Nowhere && to != Rung::Nowhere) {
            return;
        }
        let (pipeline, why) = (Inert::new(&self.pipeline), Inert::new(why));
        self.alerts.ladder_moved(LadderMoved { pipeline, from, to, why });
    }
}
