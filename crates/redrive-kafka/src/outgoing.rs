//! A record on its way to a topic, and its form on disk.
//!
//! On disk, in a record of the journal; numbers are little-endian, `bytes` is a u32 length and that many
//! bytes, and an absent value has the length `0xffff_ffff`:
//! ```text
//! u8 1 (format) · bytes topic · i32 partition (-1: by key) · i64 timestamp (-1: none) · bytes key ·
//! bytes value · u32 number of headers · (bytes name · bytes value)…
//! ```

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::record::Header;

const FORMAT: u8 = 1;
const ABSENT: u32 = u32::MAX;

/// A record on its way to a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The topic.
    pub topic: String,
    /// The partition it should go to, if the topic has it; otherwise the key decides.
    pub partition: Option<i32>,
    /// When it was first written, in milliseconds since 1970.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<Header>,
}

/// Bytes on disk that are no record on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry is not one that redrive wrote, or it is cut short")]
pub struct Unreadable;

impl Outgoing {
    /// Its form on disk.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(FORMAT);
        put(&mut bytes, Some(self.topic.as_bytes()));
        bytes.put_i32_le(self.partition.unwrap_or(-1));
        bytes.put_i64_le(self.timestamp.unwrap_or(-1));
        put(&mut bytes, self.key.as_deref());
        put(&mut bytes, self.value.as_deref());
        bytes.put_u32_le(u32::try_from(self.headers.len()).unwrap_or(ABSENT));
        for header in &self.headers {
            put(&mut bytes, Some(header.name.as_bytes()));
            put(&mut bytes, header.value.as_deref());
        }
        bytes.freeze()
    }

    /// Reads its form on disk.
    ///
    /// # Errors
    /// [`Unreadable`] when it is none.
    pub fn decode(mut bytes: Bytes) -> Result<Self, Unreadable> {
        if bytes.try_get_u8() != Ok(FORMAT) {
            return Err(Unreadable);
        }
        let topic = text(&mut bytes)?;
        let partition = bytes.try_get_i32_le().map_err(|_| Unreadable)?;
        let timestamp = bytes.try_get_i64_le().map_err(|_| Unreadable)?;
        let (key, value) = (take(&mut bytes)?, take(&mut bytes)?);
        let many = bytes.try_get_u32_le().map_err(|_| Unreadable)?;
        let mut headers = Vec::new();
        for _ in 0..many {
            let name = take(&mut bytes)?.ok_or(Unreadable)?;
            headers.push(Header { name: name.into(), value: take(&mut bytes)? });
        }
        let (partition, timestamp) =
            ((partition >= 0).then_some(partition), (timestamp >= 0).then_some(timestamp));
        Ok(Self { topic, partition, timestamp, key, value, headers })
    }
}

fn put(bytes: &mut BytesMut, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            bytes.put_u32_le(u32::try_from(value.len()).unwrap_or(ABSENT));
            bytes.put_slice(value);
        }
        None => bytes.put_u32_le(ABSENT),
    }
}

fn take(bytes: &mut Bytes) -> Result<Option<Vec<u8>>, Unreadable> {
    match bytes.try_get_u32_le() {
        Ok(ABSENT) => Ok(None),
        Ok(len) if len as usize <= bytes.len() => Ok(Some(bytes.split_to(len as usize).to_vec())),
        _ => Err(Unreadable),
    }
}

fn text(bytes: &mut Bytes) -> Result<String, Unreadable> {
    String::from_utf8(take(bytes)?.ok_or(Unreadable)?).map_err(|_| Unreadable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    /// What is on disks out there must stay readable.
    #[test]
    fn the_form_on_disk_is_pinned() {
        let outgoing = Outgoing {
            topic: "t".into(),
            partition: Some(3),
            timestamp: None,
            key: None,
            value: Some(b"v".to_vec()),
            headers: vec![Header { name: "h".into(), value: None }],
        };
        let expected = b"\x01\x01\0\0\0t\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0v\x01\0\0\0\x01\0\0\0h\xff\xff\xff\xff";
        assert_eq!(&outgoing.encode()[..], &expected[..]);
    }

    proptest! {
        #[test]
        fn a_record_survives_the_disk(
            topic in "[a-z.]{1,9}",
            partition in proptest::option::of(0..9_i32),
            timestamp in proptest::option::of(0..9_i64),
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
            headers in proptest::collection::vec(any::<(Vec<u8>, Option<Vec<u8>>)>(), 0..3),
        ) {
            let headers = headers.into_iter().map(|(name, value)| Header { name: name.into(), value }).collect();
            let outgoing = Outgoing { topic, partition, timestamp, key, value, headers };
            prop_assert_eq!(Outgoing::decode(outgoing.encode()), Ok(outgoing));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Outgoing::decode(bytes.into());
        }
    }
}
