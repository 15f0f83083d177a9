//! The ladder: where events go when the place they belong in cannot take them.
//!
//! ```text
//!   1 target ──▶ 2 dead-letter store ──▶ 3 journal on disk ──▶ 4 nowhere: held, refused at the door,
//!     ▲                                        │                  and at a stop dropped: counted, alerted
//!     └──────── drains back, in order ─────────┘
//! ```
//! A pipeline stands on the rung that took its last batch. Each change is a metric
//! (`redrive_ladder_rung{pipeline}`), a line in the log and an alert: nobody learns of it by accident.
//!
//! Who uses it: persist, whose events are in its hands alone. An outbox event or a job that cannot be
//! settled is still a row in its table, so their workers keep the settlement and try again instead.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Gauge, gauge};
pub use redrive_core::ladder::Rung;
use redrive_core::trouble::{Reason, Trouble};

use crate::alerts::{AlertService, Dropped, Inert, LadderMoved};
use crate::health::Health;

/// The ladder of one pipeline.
pub(crate) struct Ladder {
    pipeline: String,
    alerts: Arc<dyn AlertService>,
    health: Health,
    gauge: Gauge,
    rung: Mutex<Rung>,
}

impl Ladder {
    pub(crate) fn new(pipeline: &str, alerts: Arc<dyn AlertService>, health: Health) -> Self {
        let gauge = gauge!("redrive_ladder_rung", "pipeline" => pipeline.to_owned());
        gauge.set(Rung::Target.level());
        Self { pipeline: pipeline.to_owned(), alerts, health, gauge, rung: Mutex::new(Rung::Target) }
    }

    /// The rung in use.
    pub(crate) fn rung(&self) -> Rung {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events go to this rung now; `why` says what the one above answered.
    pub(crate) fn stand(&self, rung: Rung, why: &str) {
        let was = std::mem::replace(&mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner), rung);
        if was == rung {
            return;
        }
        self.gauge.set(rung.level());
        self.health.set(if rung < Rung::Disk {
            Ok(())
        } else {
            Err(Trouble::new(Reason::EventsOnDisk, why))
        });
        let (to, from) = (rung.name(), was.name());
        if rung > was {
            tracing::error!(pipeline = %self.pipeline, to, from, error = why, "down the ladder");
        } else {
            tracing::info!(pipeline = %self.pipeline, to, from, "up the ladder");
        }
        self.alerts.ladder_moved(LadderMoved {
            pipeline: Inert::new(&self.pipeline),
            from: was,
            to: rung,
            why: Inert::new(why),
        });
    }

    /// Events fell off the last rung.
    pub(crate) fn dropped(&self, events: u64, why: &str) {
        tracing::error!(pipeline = %self.pipeline, events, error = why, "events dropped: nothing could take them");
        let (pipeline, why) = (Inert::new(&self.pipeline), Inert::new(why));
        self.alerts.dropped(Dropped { pipeline, events, files: 0, why });
    }
}
