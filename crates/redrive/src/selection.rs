//! Which letters a command is about.

use clap::Args;
use serde_json::{Map, Value};

/// Which letters are meant. Every part that is given must hold.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Selection {
    /// Of this pipeline.
    #[arg(long, short, value_name = "NAME")]
    pipeline: Option<String>,
    /// In this state: open, retrying, redriven, resolved, failed.
    #[arg(long, short, value_name = "STATUS")]
    status: Option<String>,
    /// Of this event type.
    #[arg(long = "type", short, value_name = "TYPE")]
    event_type: Option<String>,
    /// With this key.
    #[arg(long, short, value_name = "KEY", allow_hyphen_values = true)]
    key: Option<String>,
    /// With a failure of this class: transient, throttled, permanent, malformed, unhandled, unclassified.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// With this code, such as sqlstate:23505 or just 23505.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// In the group of this fingerprint.
    #[arg(long, short, value_name = "FINGERPRINT")]
    group: Option<String>,
    /// With this text in the failure's message.
    #[arg(long, short = 'q', value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Failed at or after this: 2025-10-21T07:28:00Z, or 1h for an hour ago.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Failed before this.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

impl Selection {
    /// As parts of a query.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let parts = [
            ("pipeline", &self.pipeline),
            ("status", &self.status),
            ("type", &self.event_type),
            ("key", &self.key),
            ("class", &self.class),
            ("code", &self.code),
            ("group", &self.group),
            ("q", &self.text),
            ("since", &self.since),
            ("until", &self.until),
        ];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.clone()?))).collect()
    }

    /// As a filter of an operation.
    pub(crate) fn filter(&self) -> Value {
        let parts = self.query().into_iter().map(|(name, part)| (name.to_owned(), Value::String(part)));
        Value::Object(parts.collect::<Map<_, _>>())
    }

    /// Whether it means every letter.
    pub(crate) fn is_empty(&self) -> bool {
        self.query().is_empty()
    }
}
