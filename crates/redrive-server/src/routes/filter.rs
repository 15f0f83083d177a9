//! Which letters are meant, in a query or in a body.

use redrive_core::dead_letter::Filter;
use redrive_core::event::{MAX_KEY, MAX_TYPE, storable};
use redrive_core::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Problem;
use crate::moment::Moment;
use crate::view::{ClassName, StatusName};

/// The longest text to look for.
const MAX_TEXT: usize = 1_000;

/// Which letters are meant. Every part that is set must hold.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterIn {
    /// Of this pipeline.
    pub(super) pipeline: Option<String>,
    /// In this state.
    #[param(inline)]
    pub(super) status: Option<StatusName>,
    /// Of this event type.
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    /// With this key.
    pub(super) key: Option<String>,
    /// With a failure of this class.
    #[param(inline)]
    pub(super) class: Option<ClassName>,
    /// With this code: `sqlstate:23505`, or just `23505`.
    pub(super) code: Option<String>,
    /// In the group of this fingerprint.
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    pub(super) group: Option<Fingerprint>,
    /// With this text in the failure's message, in whatever case.
    pub(super) q: Option<String>,
    /// Failed at or after this.
    #[param(inline)]
    pub(super) since: Option<Moment>,
    /// Failed before this.
    #[param(inline)]
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
            text: self.q,
            since: self.since.map(|Moment(at)| at),
            until: self.until.map(|Moment(at)| at),
            redriven_below: None,
        })
    }
}

/// How much of a list of operations or of the audit log.
#[derive(Debug, Default, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Slice {
    /// Only those before this number.
    before: Option<i64>,
    /// How many.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

impl Slice {
    /// Before which, and how many.
    pub(super) fn check(&self) -> Result<(Option<i64>, u32), Problem> {
        Ok((self.before, limit(self.limit)?))
    }
}

/// How many are asked for: 1 to 500, or 50.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    const DEFAULT: u32 = 50;
    match asked {
        Some(limit) if !(1..=redrive_core::dead_letter::MAX_PAGE).contains(&limit) => {
            Err(Problem::field("limit", "is not accepted: expected a whole number from 1 to 500"))
        }
        asked => Ok(asked.unwrap_or(DEFAULT)),
    }
}

/// Where the next slice starts, when this one is full.
pub(super) fn next_of(found: usize, limit: u32, last: Option<i64>) -> Option<i64> {
    last.filter(|_| found >= limit as usize)
}
