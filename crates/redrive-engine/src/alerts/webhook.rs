//! A generic webhook: a POST of JSON.
//!
//! ```json
//! {
//!   "version": 1,
//!   "sent_at": "2025-10-21T07:28:00Z",
//!   "severity": "warning",
//!   "title": "Dead letter in orders",
//!   "kind": "dead_letter",
//!   "pipeline": "orders", "event_id": "42", "event_type": "OrderCreated",
//!   "aggregate_type": "Order", "aggregate_id": "42", "retry_count": 5,
//!   "error": "HttpStatus (http:422): …", "failed_at": "2025-10-21T07:27:59Z",
//!   "fingerprint": "3a9ef9f3946c14dc"
//! }
//! ```
//! `kind` is `dead_letter`, `more_letters`, `threshold_reached`, `threshold_recovered`, `handler_down`,
//! `handler_up`, `ladder_moved`, `dropped`, `report` or `held_back`; the fields after it are those of
//! [`Alert`]. New kinds and fields may come with the same version. With a secret, the request is signed as the `http` handler signs
//! (`redrive-signature`, see [`crate::handlers::signature`]). Any 2xx means that it was taken.

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Serialize;

use super::alert::{Alert, Severity};
use super::channel::{Channel, ChannelError};
use super::message::Message;
use super::post::Post;
use crate::handlers::{Secret, SetupError, signature};

/// Where a webhook is, and how it knows us.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Its address.
    pub url: Secret,
    /// The key of the signature, if requests are signed.
    pub secret: Option<Secret>,
}

/// A generic webhook. `Debug` shows the host only: the address is a secret.
#[derive(Debug)]
pub struct WebhookChannel {
    post: Post,
    secret: Option<Secret>,
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    sent_at: Timestamp,
    severity: &'static str,
    title: String,
    #[serde(flatten)]
    alert: &'a Alert,
}

impl WebhookChannel {
    /// A channel to this webhook.
    ///
    /// # Errors
    /// [`SetupError`] when the address is no http address.
    pub fn new(options: WebhookOptions) -> Result<Self, SetupError> {
        Ok(Self { post: Post::new(&options.url)?, secret: options.secret })
    }

    fn signature(&self, body: &[u8], now: Timestamp) -> Option<(HeaderName, HeaderValue)> {
        let secret = self.secret.as_ref()?;
        Some((signature::HEADER, signature::sign(secret, now, body)))
    }
}

#[async_trait]
impl Channel for WebhookChannel {
    fn name(&self) -> &str {
        "webhook"
    }

    async fn send(&self, alert: &Alert) -> Result<(), ChannelError> {
        let now = Timestamp::now();
        let body = serde_json::to_vec(&Document::of(alert, now))
            .map_err(|error| ChannelError::Refused { message: format!("the alert is no JSON: {error}") })?;
        let signature = self.signature(&body, now);
        self.post.json(body, signature).await
    }
}

impl<'a> Document<'a> {
    fn of(alert: &'a Alert, sent_at: Timestamp) -> Self {
        let severity = match alert.severity() {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        };
        Self { version: 1, sent_at, severity, title: Message::of(alert).title, alert }
    }
}

#[cfg(test)]
mod tests {
    use super::super::alert::{
        Dropped, Grouping, HandlerDown, HandlerUp, HeldBack, LadderMoved, Level, MoreLetters, Report,
    };
    use super::super::{DeadLetterAlert, Inert};
    use super::*;
    use crate::ladder::Rung;
    use redrive_core::fingerprint::Fingerprint;
    use std::time::Duration;

    fn kinds() -> Vec<(Alert, serde_json::Value)> {
        let letter = DeadLetterAlert {
            pipeline: "orders".into(),
            event_id: "42".into(),
            event_type: "OrderCreated".into(),
            aggregate_type: "Order".into(),
            aggregate_id: "7".into(),
            retry_count: 5,
            error: Inert::new("HttpStatus (http:422): no"),
            failed_at: Timestamp::UNIX_EPOCH,
            fingerprint: Fingerprint::from_bits(1),
        };
        let written = serde_json::json!({
            "pipeline": "orders", "event_id": "42", "event_type": "OrderCreated", "aggregate_type": "Order",
            "aggregate_id": "7", "retry_count": 5, "error": "HttpStatus (http:422): no",
            "failed_at": "1970-01-01T00:00:00Z", "fingerprint": "0000000000000001",
        });
        let mut first = written.clone();
        first["kind"] = "dead_letter".into();
        let level = Level { pipeline: "orders".into(), count: 10, threshold: 10 };
        let more = MoreLetters {
            latest: letter.clone(),
            count: 9_999,
            within: Duration::from_secs(600),
            groups: Grouping::Same,
        };
        let (pipeline, handler): (Inert, Inert) = ("orders".into(), "http".into());
        vec![
            (Alert::DeadLetter(letter), first),
            (
                Alert::MoreLetters(more),
                serde_json::json!({ "kind": "more_letters", "latest": written, "count": 9999, "within": 600, "groups": "same" }),
            ),
            (
                Alert::ThresholdReached(level.clone()),
                serde_json::json!({ "kind": "threshold_reached", "pipeline": "orders", "count": 10, "threshold": 10 }),
            ),
            (
                Alert::ThresholdRecovered(level),
                serde_json::json!({ "kind": "threshold_recovered", "pipeline": "orders", "count": 10, "threshold": 10 }),
            ),
            (
                Alert::HandlerDown(HandlerDown {
                    pipeline: pipeline.clone(),
                    handler: handler.clone(),
                    error: "refused".into(),
                }),
                serde_json::json!({ "kind": "handler_down", "pipeline": "orders", "handler": "http", "error": "refused" }),
            ),
            (
                Alert::HandlerUp(HandlerUp { pipeline: pipeline.clone(), handler }),
                serde_json::json!({ "kind": "handler_up", "pipeline": "orders", "handler": "http" }),
            ),
            (
                Alert::LadderMoved(LadderMoved {
                    pipeline: pipeline.clone(),
                    from: Rung::DeadLetters,
                    to: Rung::Disk,
                    why: "refused".into(),
                }),
                serde_json::json!({
                    "kind": "ladder_moved", "pipeline": "orders", "from": "dead_letters", "to": "disk", "why": "refused",
                }),
            ),
            (
                Alert::Dropped(Dropped { pipeline, events: 3, files: 1, why: "full".into() }),
                serde_json::json!({ "kind": "dropped", "pipeline": "orders", "events": 3, "files": 1, "why": "full" }),
            ),
            (
                Alert::Report(Report::new("orders", [("A".to_owned(), 2)], Some(Timestamp::UNIX_EPOCH))),
                serde_json::json!({
                    "kind": "report", "pipeline": "orders", "unresolved": 2,
                    "by_type": [{ "event_type": "A", "count": 2 }], "oldest": "1970-01-01T00:00:00Z",
                }),
            ),
            (
                Alert::HeldBack(HeldBack { limited: 1, dropped: 2, failed: 3, letters: 4 }),
                serde_json::json!({ "kind": "held_back", "limited": 1, "dropped": 2, "failed": 3, "letters": 4 }),
            ),
        ]
    }

    /// Receivers are written against these names.
    #[test]
    fn every_kind_of_alert_has_its_documented_shape() {
        for (alert, mut expected) in kinds() {
            let document = serde_json::to_value(Document::of(&alert, Timestamp::UNIX_EPOCH)).unwrap();
            expected["version"] = 1.into();
            expected["sent_at"] = "1970-01-01T00:00:00Z".into();
            expected["severity"] = document["severity"].clone();
            expected["title"] = Message::of(&alert).title.into();
            assert_eq!(document, expected);
        }
    }
}
