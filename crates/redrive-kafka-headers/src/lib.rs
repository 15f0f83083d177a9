//! The headers of Kafka records as bytes, read from and written to librdkafka directly.
//!
//! Kafka lets a header's name be any bytes. The binding (rdkafka 0.39, `BorrowedHeaders::try_get`) reads it with
//! `CStr::to_str().unwrap()`: a name that is not UTF-8 panics, and one with a NUL is cut there. Its safe interface has
//! no other way to a name, so this crate calls librdkafka itself. It is the only crate of the workspace that may use
//! `unsafe`, and has nothing else in it.
//!
//! **What is relied on.**
//! - [`BorrowedMessage::ptr`] is the `rd_kafka_message_t` of the message, which lives as long as the borrow. Its headers
//!   belong to it. They are parsed when they are first asked for, which changes the message: a `BorrowedMessage` is
//!   `Sync`, but nobody shares one here.
//! - librdkafka (2.12, `rdkafka_header.h`) keeps a header in a single allocation: the name, a NUL, the value, a NUL. No
//!   function of its interface gives the length of a name; where there is a value, the distance between the two does.
//! - [`OwnedHeaders::as_borrowed`] is the `rd_kafka_headers_t` itself, which `OwnedHeaders` owns and may be added to.
//!
//! The tests send such headers through a broker and compare them byte for byte, so an upgrade of librdkafka that
//! changes any of this fails there.
//!
//! What it does not do: find the end of a name with a NUL whose header has no value. Such a name is cut at the NUL, and
//! [`RawHeader::is_cut`] says so as far as that can be known.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use rdkafka::bindings::{
    rd_kafka_header_add, rd_kafka_header_cnt, rd_kafka_header_get, rd_kafka_header_get_all,
    rd_kafka_headers_t, rd_kafka_message_headers,
};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, OwnedHeaders};
use rdkafka::types::RDKafkaRespErr;

/// A header, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawHeader {
    /// Its name; several headers may share one.
    pub name: Vec<u8>,
    /// Its value. None is not the same as an empty one.
    pub value: Option<Vec<u8>>,
    /// Whether the name is longer than what is here.
    pub is_cut: bool,
}

/// Headers that librdkafka cannot parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(RDKafkaErrorCode);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the headers cannot be read: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The headers of a message, in order.
///
/// # Errors
/// [`Unreadable`] when the bytes of the record are no headers, or there are more than librdkafka takes (100,000).
pub fn read(message: &BorrowedMessage<'_>) -> Result<Vec<RawHeader>, Unreadable> {
    let mut headers = ptr::null_mut();
    // SAFETY: the message is valid while it is borrowed, and `headers` is a place for the answer.
    let error = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut headers) };
    match error {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR if !headers.is_null() => {}
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR | RDKafkaRespErr::RD_KAFKA_RESP_ERR__NOENT => {
            return Ok(Vec::new());
        }
        error => return Err(Unreadable(error.into())),
    }
    // SAFETY: they belong to the message, which outlives this call; nobody adds to them meanwhile.
    Ok(unsafe { all(headers) })
}

/// Adds a header.
pub fn push(headers: OwnedHeaders, name: &[u8], value: Option<&[u8]>) -> OwnedHeaders {
    let list = ptr::from_ref(headers.as_borrowed()).cast_mut().cast::<rd_kafka_headers_t>();
    let (start, length) =
        value.map_or((ptr::null(), 0), |value| (value.as_ptr().cast::<c_void>(), size(value)));
    // SAFETY: the list is owned by `headers`, which is not shared; name and value are as long as is said, and copied.
    let _ = unsafe { rd_kafka_header_add(list, name.as_ptr().cast(), size(name), start, length) };
    headers
}

/// A slice is never longer than `isize::MAX`.
fn size(bytes: &[u8]) -> isize {
    isize::try_from(bytes.len()).unwrap_or(isize::MAX)
}

/// # Safety
/// `headers` points to a list of headers that nobody changes during the call.
unsafe fn all(headers: *const rd_kafka_headers_t) -> Vec<RawHeader> {
    // SAFETY: as the caller promises.
    let many = unsafe { rd_kafka_header_cnt(headers) };
    let mut read = Vec::with_capacity(many);
    for at in 0..many {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: as the caller promises; the other three are places for the answer.
        let error =
            unsafe { rd_kafka_header_get_all(headers, at, &raw mut name, &raw mut value, &raw mut length) };
        if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && !name.is_null() {
            // SAFETY: librdkafka has just said where name and value of this header are, and how long the value is.
            read.push(unsafe { header(headers, name, value, length) });
        }
    }
    read
}

/// # Safety
/// `name` and `value` are those of a header of `headers`, and the value is so long.
unsafe fn header(
    headers: *const rd_kafka_headers_t,
    name: *const c_char,
    value: *const c_void,
    length: usize,
) -> RawHeader {
    // SAFETY: a name ends with a NUL.
    let until_nul = unsafe { CStr::from_ptr(name) };
    if value.is_null() {
        // SAFETY: `headers` is valid, and the name is a C string.
        let is_cut = !unsafe { has(headers, until_nul) };
        return RawHeader { name: until_nul.to_bytes().to_vec(), value: None, is_cut };
    }
    let whole = value.addr().saturating_sub(name.addr() + 1).max(until_nul.count_bytes());
    // SAFETY: name, NUL and value are one allocation, in this order.
    let name = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), whole) };
    // SAFETY: as the caller promises.
    let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) };
    RawHeader { name: name.to_vec(), value: Some(value.to_vec()), is_cut: false }
}

/// Whether a header has exactly this name: librdkafka compares the lengths, too.
///
/// # Safety
/// `headers` points to a list of headers that nobody changes during the call.
unsafe fn has(headers: *const rd_kafka_headers_t, name: &CStr) -> bool {
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: as the caller promises; the last two are places for the answer.
    let error = unsafe { rd_kafka_header_get(headers, 0, name.as_ptr(), &raw mut value, &raw mut length) };
    error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdkafka::config::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
    use rdkafka::{Offset, TopicPartitionList};

    use super::*;

    fn raw(name: &[u8], value: Option<&[u8]>) -> RawHeader {
        RawHeader { name: name.to_vec(), value: value.map(<[u8]>::to_vec), is_cut: false }
    }

    async fn through_a_broker(sent: &[RawHeader]) -> Vec<RawHeader> {
        let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        broker.create_topic("t", 1, 1).unwrap();
        let config = {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", broker.bootstrap_servers()).set("group.id", "g");
            config
        };
        let producer: FutureProducer = config.create().unwrap();
        let headers = sent.iter().fold(OwnedHeaders::new(), |headers, header| {
            push(headers, &header.name, header.value.as_deref())
        });
        let record = FutureRecord::<[u8], [u8]>::to("t").payload(&[]).headers(headers);
        producer.send(record, redrive_testkit::PATIENCE).await.unwrap();
        let consumer: BaseConsumer = config.create().unwrap();
        let mut from = TopicPartitionList::new();
        from.add_partition_offset("t", 0, Offset::Beginning).unwrap();
        consumer.assign(&from).unwrap();
        loop {
            if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
                return read(&message).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn headers_come_back_byte_for_byte_whatever_their_names() {
        let sent = [
            raw(b"trace", Some(b"7")),
            raw(b"\xff\xfe", Some(b"\x00\xff")),
            raw(b"a\0b", Some(b"x\0y")),
            raw(b"\0", Some(b"")),
            raw(b"", Some(b"no name")),
            raw(b"", None),
            raw(b"none", None),
            raw(b"\xc3", None),
            raw("größe".as_bytes(), Some(b"1")),
            raw(b"trace", Some(b"again")),
        ];
        assert_eq!(through_a_broker(&sent).await, sent);
        assert_eq!(through_a_broker(&[]).await, []);
    }

    #[tokio::test]
    async fn a_name_that_could_not_be_read_to_its_end_says_so() {
        let read = through_a_broker(&[raw(b"a\0b", None), raw(b"plain", None)]).await;
        assert_eq!(read, [RawHeader { is_cut: true, ..raw(b"a", None) }, raw(b"plain", None)]);
    }
}
