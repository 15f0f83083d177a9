//! A few letters first, each followed to its outcome: `true`, or a ramp of one's own.

use std::fmt;

use redrive_engine::console::Canary;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::span::Span;

/// A ramp: `true` for the usual one.
#[derive(Debug)]
pub(super) enum CanaryIn {
    Usual(bool),
    Ramp(Ramp),
}

/// A ramp of one's own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ramp {
    /// How many letters each step sends (1, 5, 20).
    #[schema(min_items = 1, max_items = 20)]
    steps: Option<Vec<u32>>,
    /// How long a step may take until every letter of it has an outcome (5 min).
    patience: Option<Span>,
    /// How long a letter that was handed over is watched for coming back (5 s).
    observe: Option<Span>,
}

impl CanaryIn {
    /// The ramp that is asked for, if one is.
    pub(super) fn ramp(self) -> Option<Canary> {
        let usual = Canary::default();
        match self {
            Self::Usual(wanted) => wanted.then_some(usual),
            Self::Ramp(ramp) => Some(Canary {
                steps: ramp.steps.unwrap_or(usual.steps),
                patience: ramp.patience.map_or(usual.patience, |Span(span)| span),
                observe: ramp.observe.map_or(usual.observe, |Span(span)| span),
            }),
        }
    }
}

impl<'de> Deserialize<'de> for CanaryIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagOrRamp)
    }
}

/// By hand: what is derived says of a mistake only that nothing fits, in words of ours.
struct FlagOrRamp;

impl<'de> Visitor<'de> for FlagOrRamp {
    type Value = CanaryIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"true, false, or a ramp such as {"steps": [1, 5, 20]}"#)
    }

    fn visit_bool<E: de::Error>(self, wanted: bool) -> Result<CanaryIn, E> {
        Ok(CanaryIn::Usual(wanted))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CanaryIn, A::Error> {
        Ramp::deserialize(MapAccessDeserializer::new(map)).map(CanaryIn::Ramp)
    }
}

impl PartialSchema for CanaryIn {
    fn schema() -> RefOr<Schema> {
        let usual = ObjectBuilder::new().schema_type(Type::Boolean);
        let description = "A ramp: `true` for the usual one.";
        OneOfBuilder::new().item(usual).item(Ramp::schema()).description(Some(description)).into()
    }
}

impl ToSchema for CanaryIn {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Ramp::schemas(schemas);
    }
}
