//! Requests that a pipeline refuses: counted by their cause, and logged now and then. When the cause is ours, people
//! hear of it when it begins and when it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};
use tokio::time::Instant;

use super::NotAccepted;
use crate::alerts::{AlertService, HandlerDown, HandlerUp, Inert};

/// What people know it by.
const INTAKE: &str = "intake";
/// At most so often the log says how many were refused.
const LOGGED_EVERY: Duration = Duration::from_secs(10);
/// It is over when nobody was refused for so long.
const OVER_AFTER: Duration = Duration::from_secs(30);

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Events come faster than they are uploaded.
    QueueFull,
    /// There is no room on disk.
    DiskFull,
    /// The disk fails.
    DiskFailed,
    /// The pipeline is stopping.
    Stopping,
    /// More bodies than can be read at a time.
    ServerBusy,
    /// The body is too large.
    BodyTooLarge,
    /// The body is declared as something else than events.
    MediaType,
    /// The body is not JSON, or cannot be unpacked.
    BodyInvalid,
}

impl Cause {
    const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::DiskFull,
        Self::DiskFailed,
        Self::Stopping,
        Self::ServerBusy,
        Self::BodyTooLarge,
        Self::MediaType,
        Self::BodyInvalid,
    ];

    /// Its name as a label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::DiskFull => "disk-full",
            Self::DiskFailed => "disk-failed",
            Self::Stopping => "stopping",
            Self::ServerBusy => "server-busy",
            Self::BodyTooLarge => "body-too-large",
            Self::MediaType => "media-type",
            Self::BodyInvalid => "body-invalid",
        }
    }

    /// Whether the sender did nothing wrong, and an operator should look.
    const fn is_ours(self) -> bool {
        matches!(self, Self::QueueFull | Self::DiskFull | Self::DiskFailed | Self::ServerBusy)
    }
}

impl From<&NotAccepted> for Cause {
    fn from(error: &NotAccepted) -> Self {
        match error {
            NotAccepted::QueueFull => Self::QueueFull,
            NotAccepted::DiskFull(_) => Self::DiskFull,
            NotAccepted::Disk(_) => Self::DiskFailed,
            NotAccepted::Stopping => Self::Stopping,
        }
    }
}

/// The refusals of one pipeline.
pub(super) struct Intake {
    pipeline: String,
    alerts: Arc<dyn AlertService>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests since the last line in the log.
    unlogged: u64,
    logged: Option<Instant>,
    /// When the last request was refused, while people know that some are.
    refused: Option<Instant>,
}

impl Intake {
    pub(super) fn new(pipeline: &str, alerts: Arc<dyn AlertService>) -> Self {
        let intake = Self { pipeline: pipeline.to_owned(), alerts, state: Mutex::default() };
        // Shown from the start: an alert on a number that is not there yet never fires.
        Cause::ALL.iter().for_each(|cause| intake.count(*cause, 0));
        intake.show(false);
        intake
    }

    /// A request was refused.
    pub(super) fn refused(&self, cause: Cause, detail: &str) {
        self.count(cause, 1);
        let now = Instant::now();
        let mut state = self.state();
        state.unlogged += 1;
        let unlogged = state.unlogged;
        let is_logged = state.logged.is_none_or(|logged| now >= logged + LOGGED_EVERY);
        if is_logged {
            (state.logged, state.unlogged) = (Some(now), 0);
        }
        let begins = cause.is_ours() && state.refused.replace(now).is_none();
        drop(state);
        if is_logged {
            tracing::warn!(pipeline = %self.pipeline, cause = cause.name(), detail, requests = unlogged, "requests are refused");
        }
        if begins {
            self.begun(cause, detail);
        }
    }

    /// Reports that nobody is refused any more, when that is so.
    pub(super) fn look(&self) {
        let now = Instant::now();
        let mut state = self.state();
        if state.refused.is_some_and(|refused| now >= refused + OVER_AFTER) {
            state.refused = None;
            drop(state);
            self.show(false);
            tracing::info!(pipeline = %self.pipeline, "no request was refused for {OVER_AFTER:?}");
            let (pipeline, handler) = (Inert::new(&self.pipeline), Inert::new(INTAKE));
            self.alerts.handler_up(HandlerUp { pipeline, handler });
        }
    }

    fn begun(&self, cause: Cause, detail: &str) {
        self.show(true);
        let error =
            format!("requests are refused ({}), their senders must send again: {detail}", cause.name());
        self.alerts.handler_down(HandlerDown {
            pipeline: Inert::new(&self.pipeline),
            handler: Inert::new(INTAKE),
            error: Inert::new(&error),
        });
    }

    fn count(&self, cause: Cause, requests: u64) {
        counter!("redrive_refused_total", "pipeline" => self.pipeline.clone(), "reason" => cause.name())
            .increment(requests);
    }

    fn show(&self, is_down: bool) {
        gauge!("redrive_handler_down", "pipeline" => self.pipeline.clone(), "handler" => INTAKE)
            .set(f64::from(u8::from(is_down)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{DeadLetterAlert, Level};

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl AlertService for Heard {
        fn dead_letter(&self, _: DeadLetterAlert) {}
        fn unresolved(&self, _: Level) {}
        fn handler_down(&self, down: HandlerDown) {
            self.0.lock().unwrap().push(down.error.to_string());
        }
        fn handler_up(&self, _: HandlerUp) {
            self.0.lock().unwrap().push("up".to_owned());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn people_hear_once_that_requests_are_refused_and_once_that_it_is_over() {
        let heard = Arc::new(Heard::default());
        let intake = Intake::new("events", heard.clone());
        intake.refused(Cause::BodyInvalid, "line 1");
        assert!(heard.0.lock().unwrap().is_empty(), "that is its sender's affair");
        for _ in 0..100 {
            intake.refused(Cause::QueueFull, "the queue is full");
            tokio::time::advance(Duration::from_secs(1)).await;
            intake.look();
        }
        tokio::time::advance(OVER_AFTER).await;
        intake.look();
        intake.look();
        let heard = heard.0.lock().unwrap();
        assert_eq!(heard.len(), 2);
        assert!(heard[0].contains("queue-full") && heard[1] == "up", "{heard:?}");
    }
}
