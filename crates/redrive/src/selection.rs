//! Which letters a command is about.

use clap::Args;
use jiff::Timestamp;
use redrive_server::duration;
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
        let set = parts.into_iter().filter_map(|(name, part)| Some((name, part.clone()?)));
        // Every message has a blank text in it, such as that of a variable that was never set: it chooses nothing.
        set.filter(|(name, part)| *name != "q" || !part.trim().is_empty()).collect()
    }

    /// Whether it asks for a text that has no letter in it.
    pub(crate) fn has_blank_text(&self) -> bool {
        self.text.as_ref().is_some_and(|text| text.trim().is_empty())
    }

    /// As a filter of an operation.
    pub(crate) fn filter(&self) -> Value {
        let parts = self.query().into_iter().map(|(name, part)| (name.to_owned(), Value::String(part)));
        Value::Object(parts.collect::<Map<_, _>>())
    }

    /// As a filter of the letters that it meant at this moment: those that fail later stay out, and an hour ago is
    /// an hour before then.
    pub(crate) fn filter_as_of(&self, as_of: Timestamp) -> Value {
        let until = self.until.as_deref().map_or(as_of, |text| moment(text, as_of).min(as_of));
        let since = self.since.as_deref().map(|text| moment(text, as_of).to_string());
        Self { since, until: Some(until.to_string()), ..self.clone() }.filter()
    }

    /// Whether it means every letter.
    pub(crate) fn is_empty(&self) -> bool {
        self.query().is_empty()
    }
}

/// A time, or so long before that moment. What is neither has been refused when the letters were counted.
fn moment(text: &str, now: Timestamp) -> Timestamp {
    let ago = duration::parse(text).and_then(|ago| now.checked_sub(ago).ok());
    ago.or_else(|| text.parse().ok()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_blank_text_chooses_nothing() {
        let with = |text: &str| Selection { text: Some(text.to_owned()), ..Selection::default() };
        assert!(with("").is_empty() && with(" ").is_empty());
        assert_eq!(with("refused").filter(), json!({"q": "refused"}));
    }

    /// What died while a person was asked went along.
    #[test]
    fn what_was_counted_is_what_is_meant_however_long_a_person_thinks() {
        let as_of: Timestamp = "2026-11-16T14:02:00Z".parse().unwrap();
        let frozen = |since: Option<&str>, until: Option<&str>| {
            let (since, until) = (since.map(str::to_owned), until.map(str::to_owned));
            Selection { since, until, ..Selection::default() }.filter_as_of(as_of)
        };
        assert_eq!(frozen(None, None), json!({"until": "2026-11-16T14:02:00Z"}));
        assert_eq!(
            frozen(Some("1h"), Some("30m")),
            json!({"since": "2026-11-16T13:02:00Z", "until": "2026-11-16T13:32:00Z"})
        );
        let later = frozen(Some("2026-11-15T00:00:00Z"), Some("2100-01-01T00:00:00Z"));
        assert_eq!(later, json!({"since": "2026-11-15T00:00:00Z", "until": "2026-11-16T14:02:00Z"}));
    }
}
