//! Which letters are meant.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Status;
use crate::fingerprint::Fingerprint;

/// Which letters are meant. Every part that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of this pipeline. A queue has the letters of one pipeline only: whoever has several queues
    /// chooses by this.
    pub pipeline: Option<String>,
    /// In this state.
    pub status: Option<Status>,
    /// Of this event type.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// With a failure of this class, by name.
    pub class: Option<String>,
    /// With this code: `sqlstate:23505`, or just `23505`.
    pub code: Option<String>,
    /// In this group.
    pub group: Option<Fingerprint>,
    /// With this text in the failure's message, in whatever case.
    #[serde(rename = "q")]
    pub text: Option<String>,
    /// Failed at or after this.
    pub since: Option<Timestamp>,
    /// Failed before this.
    pub until: Option<Timestamp>,
    /// Came here at or after this, whenever they failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_since: Option<Timestamp>,
    /// Redriven fewer times than this, and such that they can be redriven: for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redriven_below: Option<u32>,
}

impl Filter {
    /// Whether it means every letter; bulk actions refuse that unless `all` is said. Every message has a blank text
    /// in it, so looking for one is looking for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let text = self.text.clone().filter(|text| !text.trim().is_empty());
        Self { text, ..self.clone() } == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filter_without_any_part_is_empty() {
        assert!(Filter::default().is_empty());
        assert!(!Filter { status: Some(Status::Open), ..Filter::default() }.is_empty());
    }

    /// `retry -q ""` sent every letter that waits.
    #[test]
    fn a_text_without_a_letter_in_it_chooses_nothing() {
        let with = |text: &str| Filter { text: Some(text.to_owned()), ..Filter::default() };
        assert!(with("").is_empty() && with(" \t").is_empty());
        assert!(!with("a").is_empty());
    }
}
