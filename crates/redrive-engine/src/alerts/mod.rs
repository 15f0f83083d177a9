//! Alerts: telling people that something needs them.
//!
//! A pipeline speaks to an [`AlertService`]; [`Dispatcher`] is the one that ships, with a [`Channel`]
//! for each place that is told.
//!
//! ```text
//!   pipeline ──▶ AlertService ──▶ group · compare · deduplicate ──▶ a bounded queue per channel
//!                                                                     │ limit · send · try again
//!                                                                     ▼
//!                                                   log · Slack · mail · webhook
//! ```
//!
//! What it promises:
//! - **No call waits.** Telling is a lock, a look-up and a `try_send`. A channel that is slow or down
//!   delays neither the pipeline nor another channel.
//! - **No storm.** Dead letters of one group are one alert, and one count per window after it.
//! - **Nothing is held back in silence.** What a limit, a full queue or a dead channel swallowed is
//!   counted in `redrive_alerts_total{channel,outcome}` and mentioned in that channel once it works again.
//! - **What an event carried is inert.** Text from outside enters as [`Inert`]: one line, no control
//!   characters, no bidirectional tricks. Each channel adds the escaping of its own mark-up.
//! - **Secrets stay in.** The address of a webhook is a secret: `Debug`, errors and logs name its host.
//!
//! What it does not do: keep alerts across a restart. The letters themselves are durable, and the next
//! report counts them.

mod alert;
mod channel;
mod crossings;
mod delivery;
mod dispatcher;
mod email;
mod groups;
mod inert;
mod limiter;
mod log;
mod message;
mod outlet;
mod post;
mod slack;
mod tally;
mod webhook;

pub use alert::{
    Alert, DeadLetterAlert, Dropped, Grouping, HandlerDown, HandlerUp, HeldBack, LadderMoved, Level,
    MoreLetters, Report, Severity, TypeCount,
};
pub use channel::{Channel, ChannelError};
pub use crossings::{Crossing, Crossings};
pub use dispatcher::{Dispatcher, DispatcherOptions};
pub use email::{EmailChannel, EmailOptions};
pub use inert::{Inert, escape, escape_json, escape_lines};
pub use limiter::Rate;
pub use log::LogChannel;
pub use slack::SlackChannel;
pub use webhook::{WebhookChannel, WebhookOptions};

/// Who is told about dead letters.
///
/// Calls come from the middle of a pipeline: an implementation must not wait, neither for a lock that
/// is held during I/O nor for a network. The first two calls are the contract; the others may be
/// ignored.
pub trait AlertService: Send + Sync {
    /// An event became a dead letter.
    fn dead_letter(&self, letter: DeadLetterAlert);

    /// How many letters of a pipeline are unresolved.
    ///
    /// Said after every dead letter and at every check, so most calls bring nothing new; [`Crossings`]
    /// tells when the threshold was crossed, which is what people want to hear.
    fn unresolved(&self, level: Level);

    /// A handler is down: its events wait.
    fn handler_down(&self, handler: HandlerDown) {
        let _ = handler;
    }

    /// A handler that was down is back.
    fn handler_up(&self, handler: HandlerUp) {
        let _ = handler;
    }

    /// A pipeline's events go somewhere else than before: down the ladder, or up again.
    fn ladder_moved(&self, moved: LadderMoved) {
        let _ = moved;
    }

    /// Events were lost.
    fn dropped(&self, dropped: Dropped) {
        let _ = dropped;
    }

    /// How a pipeline's unresolved letters are made up.
    fn report(&self, report: Report) {
        let _ = report;
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence;

impl AlertService for Silence {
    fn dead_letter(&self, _: DeadLetterAlert) {}

    fn unresolved(&self, _: Level) {}
}
