//! Payloads on their way in and out.
//!
//! In: a JSON string is kept as its text, anything else as the JSON text that was sent, byte for byte, so
//! that `12345678901234567890.10` stays what it is. Out: text is a JSON string, and what is no text (other
//! programs may have put bytes into the table) is base64 under another name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A payload in a request; empty when there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PayloadIn(pub(crate) String);

impl<'de> Deserialize<'de> for PayloadIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            return serde_json::from_str(raw.get()).map(Self).map_err(de::Error::custom);
        }
        Ok(Self(String::from(Box::<str>::from(raw))))
    }
}

/// A payload that may be left out; `null` is one.
pub(crate) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PayloadIn>, D::Error> {
    PayloadIn::deserialize(deserializer).map(Some)
}

impl PartialSchema for PayloadIn {
    fn schema() -> RefOr<Schema> {
        let text = "Any JSON value. A string is kept as its text, anything else as the JSON that was sent.";
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(text)).into()
    }
}

impl ToSchema for PayloadIn {}

/// A payload in an answer: `{"payload": text}` or `{"payload_base64": bytes}`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) enum PayloadOut {
    #[serde(rename = "payload")]
    Text(String),
    #[serde(rename = "payload_base64", serialize_with = "base64")]
    Bytes(Vec<u8>),
}

impl PartialSchema for PayloadOut {
    /// One object with two properties, and not one of two objects: the schema of a job has its properties, too, and
    /// generators of clients join objects only.
    fn schema() -> RefOr<Schema> {
        let text = |said| ObjectBuilder::new().schema_type(Type::String).description(Some(said));
        ObjectBuilder::new()
            .property("payload", text("The body, if it is text."))
            .property("payload_base64", text("The body in base64, if it is no text."))
            .into()
    }
}

impl ToSchema for PayloadOut {}

impl From<Vec<u8>> for PayloadOut {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(json: &str) -> String {
        serde_json::from_str::<PayloadIn>(json).unwrap().0
    }

    #[test]
    fn a_string_is_kept_as_its_text() {
        assert_eq!(kept(r#""a \"b\" \u00e9""#), "a \"b\" é");
        assert_eq!(kept(r#""{\"a\": 1}""#), "{\"a\": 1}");
    }

    #[test]
    fn anything_else_is_kept_as_it_was_sent() {
        for json in [
            "12345678901234567890.10",
            "1e400",
            "-0.0",
            "null",
            "{ \"b\":1,\t\"a\" : [ 1.0 ] }",
            r#"{"nul":"\u0000"}"#,
        ] {
            assert_eq!(kept(json), json);
        }
    }

    #[test]
    fn text_goes_out_as_text_and_bytes_as_base64() {
        let out = |bytes: &[u8]| serde_json::to_string(&PayloadOut::from(bytes.to_vec())).unwrap();
        assert_eq!(out("é\"".as_bytes()), r#"{"payload":"é\""}"#);
        assert_eq!(out(b"\xff\x00"), r#"{"payload_base64":"/wA="}"#);
    }
}
