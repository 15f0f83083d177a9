//! Decoding: a record in, a row out, or a failure that names the path and the reason.

use redrive_core::column::Column;
use redrive_core::extract::Extractor;
use redrive_core::failure::Failure;

use crate::record::Record;
use crate::row::Row;

/// Reads records into rows of these columns.
#[derive(Debug, Clone)]
pub struct Decoder(Extractor);

impl Decoder {
    /// A decoder for these columns.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self(Extractor::new(columns))
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        self.0.columns()
    }

    /// The row that this record is, under the place where it lies; a record that was somewhere else
    /// first keeps that name, which whoever reads it knows.
    ///
    /// # Errors
    /// A malformed failure that names the path and the reason.
    pub fn decode<'a>(&self, record: &'a Record) -> Result<Row<'a>, Failure> {
        let cells = self.0.extract(text_of(record)?)?;
        Ok(Row { identity: record.position.clone(), cells })
    }
}

/// The first byte of what a producer with a schema registry writes: then come four bytes, the number of the schema, and
/// the value in Avro, Protobuf or JSON Schema's own form.
const CONFLUENT: u8 = 0;

fn text_of(record: &Record) -> Result<&str, Failure> {
    let Some(value) = &record.value else {
        return Err(Failure::malformed(
            "Tombstone",
            "$ is missing: the record has no value (a tombstone), which no column can take",
        ));
    };
    if value.is_empty() {
        return Err(Failure::malformed("NotJson", "$ is not JSON: the value is empty"));
    }
    if let [CONFLUENT, a, b, c, d, ..] = value[..] {
        let schema = u32::from_be_bytes([a, b, c, d]);
        return Err(Failure::malformed(
            "ConfluentWireFormat",
            format!(
                "$ is not JSON: the value is in the Confluent wire format (it begins with a zero byte and schema id \
                 {schema}), which is not decoded: produce JSON without a schema registry's serializer"
            ),
        ));
    }
    std::str::from_utf8(value).map_err(|error| {
        Failure::malformed(
            "NotUtf8",
            format!("$ is not UTF-8 text: see byte {} of {}", error.valid_up_to(), value.len()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Position;

    fn failure_of(value: Option<&[u8]>) -> Failure {
        let record = Record {
            position: Position::new("decision-logs", 0, 7),
            timestamp: None,
            key: None,
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
        };
        Decoder::new(vec![Column::new("c", "$").unwrap()]).decode(&record).unwrap_err()
    }

    #[test]
    fn what_is_no_text_is_malformed() {
        assert_eq!(failure_of(Some(b"\"\xff\"")).message, "$ is not UTF-8 text: see byte 1 of 3");
        assert_eq!(failure_of(Some(b"")).message, "$ is not JSON: the value is empty");
        assert_eq!(failure_of(None).kind, "Tombstone");
    }

    #[test]
    fn the_confluent_wire_format_is_named() {
        let failure = failure_of(Some(b"\0\0\0\x01\x07\x02{}"));
        assert_eq!(failure.kind, "ConfluentWireFormat");
        assert!(failure.message.contains("schema id 263"), "{failure}");
        assert_ne!(failure_of(Some(b"\0{}")).kind, "ConfluentWireFormat");
    }
}
