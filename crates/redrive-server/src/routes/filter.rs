//! Which letters are meant, in a query or in a body.

use redrive_core::dead_letter::Filter;
use redrive_core::event::{MAX_KEY, MAX_TYPE, storable};
use redrive_core::fingerprint::Fingerprint;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::Problem;
use crate::moment::Moment;
use crate::view::{ClassName, StatusName};

/// The longest text to look for.
const MAX_TEXT: usize = 1_000;

/// Which letters are meant. Every part that is set must hold.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(super) struct FilterIn {
    /// Of this pipeline.
    pub(super) pipeline: Option<String>,
    /// In this state.
    pub(super) status: Option<StatusName>,
    /// Of this event type.
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    /// With this key.
    pub(super) key: Option<String>,
    /// With a failure of this class.
    pub(super) class: Option<ClassName>,
    /// With this code: `sqlstate:23505`, or just `23505`.
    pub(super) code: Option<String>,
    /// In the group of this fingerprint.
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    pub(super) group: Option<Fingerprint>,
    /// With this text in the failure's message, in whatever case.
    pub(super) q: Option<String>,
    /// Failed at or after this.
    pub(super) since: Option<Moment>,
    /// Failed before this.
    pub(super) until: Option<Moment>,
}

impl FilterIn {
    /// The filter, if everything in it can be looked for.
    pub(super) fn check(self) -> Result<Filter, Problem> {
        for (field, text, max) in [
            ("type", &self.event_type, MAX_TYPE),
            ("key", &self.key, MAX_KEY),
            ("code", &self.code, MAX_TYPE),
            ("q", &self.q, MAX_TEXT),
        ] {
            let text = text.as_deref().unwrap_or_default();
            storable(field, text, max).map_err(|refused| Problem::field(field, refused.why))?;
        }
        Ok(Filter {
            pipeline: self.pipeline,
            status: self.status.map(Into::into),
            event_type: self.event_type,
            key: self.key,
            class: self.class.map(|class| class.name().to_owned()),
            code: self.code,
            group: self.group,
            // Every message has a blank text in it: to look for one is to look for nothing.
            text: self.q.filter(|text| !text.trim().is_empty()),
            since: self.since.map(|Moment(at)| at),
            until: self.until.map(|Moment(at)| at),
            arrived_since: None,
            redriven_below: None,
        })
    }
}
