//! Refusals: whether the journal in front of a pipeline takes what is handed in.
//!
//! While it does not, senders are refused, each with its own answer. The log and the people are told once
//! when that begins, and once when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_spool::Error;

use crate::alerts::{AlertService, HandlerDown, HandlerUp, Inert};

/// What people know it by.
const JOURNAL: &str = "journal";

/// Whether the journal of one pipeline refuses.
pub(crate) struct Refusals {
    pipeline: String,
    alerts: Arc<dyn AlertService>,
    refusing: AtomicBool,
}

impl Refusals {
    pub(crate) fn new(pipeline: &str, alerts: Arc<dyn AlertService>) -> Self {
        Self { pipeline: pipeline.to_owned(), alerts, refusing: AtomicBool::new(false) }
    }

    /// What an append came to.
    pub(crate) fn note<T>(&self, appended: &Result<T, Error>) {
        match appended {
            Ok(_) => self.over(),
            Err(error @ (Error::Full { .. } | Error::Io { .. })) => self.begun(error),
            // A record that is too large is its sender's affair.
            Err(_) => {}
        }
    }

    fn begun(&self, error: &Error) {
        if self.refusing.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::error!(pipeline = %self.pipeline, %error, "events are refused: the journal does not take them");
        self.alerts.handler_down(HandlerDown {
            pipeline: Inert::new(&self.pipeline),
            handler: Inert::new(JOURNAL),
            error: Inert::new(&format!("events are refused, their senders must send them again: {error}")),
        });
    }

    fn over(&self) {
        // Mostly nothing is to be told, and everybody comes by here.
        if !self.refusing.load(Ordering::Relaxed) || !self.refusing.swap(false, Ordering::Relaxed) {
            return;
        }
        tracing::info!(pipeline = %self.pipeline, "the journal takes events again");
        self.alerts
            .handler_up(HandlerUp { pipeline: Inert::new(&self.pipeline), handler: Inert::new(JOURNAL) });
    }
}
