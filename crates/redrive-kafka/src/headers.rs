//! What a dead letter says about itself, in its headers.
//!
//! The names are those of Spring Kafka, so that its tools read our letters; letters of Spring Kafka (also those of
//! `@RetryableTopic`, whose names lack the `dlt-`), Kafka Connect and Kafka Streams are understood. Beside them stand a
//! few of our own, for what Spring has no name for:
//!
//! ```text
//! kafka_dlt-original-topic             text        kafka_dlt-exception-fqcn     text: the kind of failure
//! kafka_dlt-original-partition         i32, big-endian   kafka_dlt-exception-message  text, cut
//! kafka_dlt-original-offset            i64, big-endian   redrive-class              transient, permanent …
//! kafka_dlt-original-timestamp         i64, big-endian   redrive-code               sqlstate:23505 …
//! kafka_dlt-original-timestamp-type    text        redrive-attempts             decimal, of all times
//! kafka_dlt-original-consumer-group    text        redrive-failed-at            RFC 3339
//! redrive-count   decimal              redrive-first-failed-at      RFC 3339
//! redrive-origin  topic/partition/offset, on a record that was redriven
//! redrive-seal    hexadecimal digits: proof of that
//! redrive-unreadable-headers   text: which headers of the record could not be read, and why
//! ```
//!
//! **They do not grow.** A letter that fails again keeps its first origin, its first and its latest
//! exception, and one of everything else (spring-kafka #1994). Headers of others are never touched.

use jiff::Timestamp;
use redrive_core::failure::{Class, Code, Failure};

use crate::exception::Exception;
use crate::record::{Header, ORIGIN, Position, Record, UNREADABLE};
use crate::seal::SEAL;

/// How often a record was redriven.
pub const REDRIVE_COUNT: &str = "redrive-count";
/// The longest message that a header keeps, in characters.
const MAX_MESSAGE: usize = 1_000;

const TOPIC: &str = "kafka_dlt-original-topic";
const PARTITION: &str = "kafka_dlt-original-partition";
const OFFSET: &str = "kafka_dlt-original-offset";
const TIMESTAMP: &str = "kafka_dlt-original-timestamp";
const TIMESTAMP_TYPE: &str = "kafka_dlt-original-timestamp-type";
const GROUP: &str = "kafka_dlt-original-consumer-group";
const KIND: &str = "kafka_dlt-exception-fqcn";
const MESSAGE: &str = "kafka_dlt-exception-message";
const CLASS: &str = "redrive-class";
const CODE: &str = "redrive-code";
const ATTEMPTS: &str = "redrive-attempts";
const FAILED_AT: &str = "redrive-failed-at";
const FIRST_FAILED_AT: &str = "redrive-first-failed-at";

/// What every header that speaks of the origin starts with.
const OF_ORIGIN: &str = "kafka_dlt-original-";
/// What the headers of Spring Kafka start with: of its dead-letter recoverer, and of `@RetryableTopic`.
const SPRING: [&str; 2] = ["kafka_dlt-", "kafka_"];
/// Names that belong to a letter, not to the record it was: all that start with one of these.
const OF_LETTERS: [&str; 7] = [
    "kafka_dlt-",
    "kafka_original-",
    "kafka_exception-",
    "kafka_key-exception-",
    "__connect.errors.",
    "__streams.errors.",
    "retry_topic-",
];
const OWN: [&str; 6] = [CLASS, CODE, ATTEMPTS, FAILED_AT, FIRST_FAILED_AT, UNREADABLE];

/// Why and when a record became a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What went wrong.
    pub failure: Failure,
    /// How many attempts failed, this time.
    pub attempts: u32,
    /// When the last of them failed.
    pub at: Timestamp,
    /// The consumer group that gave up.
    pub group: String,
}

/// The headers of the letter that this record becomes; `identity` is who it is. An origin that says
/// something else was written by somebody else, and is replaced.
#[must_use]
pub fn annotate(record: &Record, identity: &Position, cause: &Cause) -> Vec<Header> {
    let mut headers = kept(&record.headers);
    if origin(record).as_ref() != Some(identity) {
        headers.retain(|header| !header.name.starts_with(OF_ORIGIN));
    }
    let mut first = |name: &str, value: Vec<u8>| {
        if !headers.iter().any(|header| header.name == *name) {
            headers.push(Header::new(name, value));
        }
    };
    first(TOPIC, identity.topic.as_bytes().to_vec());
    first(PARTITION, identity.partition.to_be_bytes().to_vec());
    first(OFFSET, identity.offset.to_be_bytes().to_vec());
    if let Some(timestamp) = record.timestamp {
        first(TIMESTAMP, timestamp.millis.to_be_bytes().to_vec());
        first(TIMESTAMP_TYPE, timestamp.kind.name().as_bytes().to_vec());
    }
    first(GROUP, cause.group.as_bytes().to_vec());
    first(FIRST_FAILED_AT, cause.at.to_string().into_bytes());
    let failure = &cause.failure;
    headers.push(Header::new(KIND, failure.kind.as_bytes()));
    headers.push(Header::new(MESSAGE, cut(&failure.message)));
    headers.push(Header::new(CLASS, failure.class.name()));
    headers.extend(failure.code.as_ref().map(|code| Header::new(CODE, code.to_string())));
    let attempts = attempts_so_far(record).saturating_add(cause.attempts);
    headers.push(Header::new(ATTEMPTS, attempts.to_string()));
    headers.push(Header::new(FAILED_AT, cause.at.to_string()));
    headers
}

/// The same headers without what only explains the failure: the last resort for a letter that is too
/// large with them.
#[must_use]
pub fn shortened(headers: &[Header]) -> Vec<Header> {
    let explains = |header: &Header| header.name.starts_with("kafka_dlt-exception") || is_own(header);
    headers.iter().filter(|header| !explains(header)).cloned().collect()
}

/// The headers that the record had before it became a letter, with the count of its redrives gone too.
#[must_use]
pub fn original(headers: &[Header]) -> Vec<Header> {
    let is_original = |header: &&Header| {
        let name = &header.name;
        !OF_LETTERS.iter().any(|prefix| name.starts_with(prefix))
            && !is_own(header)
            && ![REDRIVE_COUNT, ORIGIN, SEAL].iter().any(|own| name == own)
    };
    headers.iter().filter(is_original).cloned().collect()
}

fn is_own(header: &Header) -> bool {
    OWN.iter().any(|own| header.name == *own)
}

/// What a letter says, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Where the record was first, as far as it says.
    pub origin: Option<Position>,
    /// The consumer group or connector that gave up, as far as it says.
    pub group: Option<String>,
    /// When it was written there, in milliseconds, as far as it says.
    pub written: Option<i64>,
    /// What went wrong.
    pub failure: Failure,
    /// How many attempts failed.
    pub attempts: u32,
    /// When the latest of them failed, as far as it says.
    pub failed_at: Option<Timestamp>,
    /// When the first of them failed.
    pub first_failed_at: Option<Timestamp>,
    /// How often it was redriven.
    pub redrives: u32,
}

/// Reads a letter.
#[must_use]
pub fn read(record: &Record) -> Reading {
    let text = |name: &str| record.header(name).and_then(Header::text);
    let time = |name: &str| text(name).and_then(|text| text.parse().ok());
    Reading {
        origin: origin(record),
        group: [GROUP, "__connect.errors.connector.name"].into_iter().find_map(text).map(str::to_owned),
        written: SPRING
            .iter()
            .find_map(|family| first(record, &format!("{family}original-timestamp")).and_then(number)),
        failure: failure(record),
        attempts: attempts_so_far(record).max(1),
        failed_at: time(FAILED_AT),
        first_failed_at: time(FIRST_FAILED_AT),
        redrives: text(REDRIVE_COUNT).and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// Where a letter says that its record was first.
#[must_use]
pub fn origin(record: &Record) -> Option<Position> {
    SPRING.iter().find_map(|family| origin_of_spring(record, family)).or_else(|| {
        let text = |name: &str| first(record, name).and_then(Header::text);
        ["__connect.errors.", "__streams.errors."].iter().find_map(|family| {
            let part = |name: &str| text(&format!("{family}{name}"));
            let partition = part("partition")?.parse().ok()?;
            Some(Position::new(part("topic")?, partition, part("offset")?.parse().ok()?))
        })
    })
}

fn origin_of_spring(record: &Record, family: &str) -> Option<Position> {
    let part = |name: &str| first(record, &format!("{family}original-{name}"));
    let partition = i32::try_from(number(part("partition")?)?).ok()?;
    Some(Position::new(part("topic")?.text()?, partition, number(part("offset")?)?))
}

fn first<'a>(record: &'a Record, name: &str) -> Option<&'a Header> {
    record.headers.iter().find(|header| header.name == *name)
}

/// What stays of the headers when a letter is written: of ours the first origin and the first
/// exception, of others all.
fn kept(headers: &[Header]) -> Vec<Header> {
    let mut kept: Vec<Header> = Vec::with_capacity(headers.len() + 12);
    for header in headers {
        let name = &header.name;
        let is_first_time = *name == FIRST_FAILED_AT;
        let once = name.starts_with("kafka_dlt-") || is_first_time || *name == UNREADABLE;
        let replaced = is_own(header) && !once;
        let is_repeated = once && kept.iter().any(|other| other.name == *name);
        if !replaced && !is_repeated {
            kept.push(header.clone());
        }
    }
    kept
}

fn failure(record: &Record) -> Failure {
    let text = |name: &str| record.header(name).and_then(Header::text).filter(|text| !text.is_empty());
    let class = text(CLASS).map_or(Class::Unclassified, Class::from_name);
    let ours = || Some((text(KIND)?.to_owned(), text(MESSAGE).map(str::to_owned)));
    let others = || springs(&text).or_else(|| of_family(&text, "__connect.errors.", "exception.class.name"));
    let others = || others().or_else(|| of_family(&text, "__streams.errors.", "exception"));
    let found = text(CLASS).and_then(|_| ours()).or_else(others);
    let (kind, message) = found.unwrap_or_else(|| ("Unknown".to_owned(), None));
    let message = message.unwrap_or_else(|| "the letter does not say why it failed".to_owned());
    let failure = Failure::new(class, kind, message);
    match text(CODE).and_then(|code| code.parse::<Code>().ok()) {
        Some(code) => failure.with_code(code),
        None => failure,
    }
}

/// What Kafka Connect and Kafka Streams say of a failure.
fn of_family<'a>(
    text: &impl Fn(&str) -> Option<&'a str>,
    family: &str,
    kind: &str,
) -> Option<(String, Option<String>)> {
    let kind = text(&format!("{family}{kind}"));
    let messages = ["exception.message", "message"];
    let message = messages.iter().find_map(|name| text(&format!("{family}{name}"))).map(str::to_owned);
    (kind.is_some() || message.is_some()).then(|| (kind.unwrap_or("Unknown").to_owned(), message))
}

/// What Spring says of a failure.
fn springs<'a>(text: &impl Fn(&str) -> Option<&'a str>) -> Option<(String, Option<String>)> {
    SPRING.iter().find_map(|family| {
        let part = |name: &str| text(&format!("{family}{name}"));
        let exception = Exception {
            class: part("exception-fqcn").or_else(|| part("key-exception-fqcn")),
            cause: part("exception-cause-fqcn"),
            message: part("exception-message").or_else(|| part("key-exception-message")),
            trace: part("exception-stacktrace").or_else(|| part("key-exception-stacktrace")),
        };
        exception.failure()
    })
}

fn attempts_so_far(record: &Record) -> u32 {
    let ours = record.header(ATTEMPTS).and_then(Header::text).and_then(|text| text.parse().ok());
    // Spring writes the number of the attempt that would come next.
    let springs = || record.header("retry_topic-attempts").and_then(number).map(|next| (next - 1).max(1));
    ours.or_else(|| springs().and_then(|attempts| u32::try_from(attempts).ok())).unwrap_or(0)
}

/// A number as Spring writes it (big-endian), or as text.
fn number(header: &Header) -> Option<i64> {
    let value = header.value.as_deref()?;
    match value.len() {
        1 if !is_decimal(value) => Some(value[0].into()),
        4 if !is_decimal(value) => value.try_into().ok().map(i32::from_be_bytes).map(i64::from),
        8 if !is_decimal(value) => value.try_into().ok().map(i64::from_be_bytes),
        _ => header.text()?.parse().ok(),
    }
}

fn is_decimal(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_digit)
}

fn cut(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{} […cut]", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::record::{HeaderName, RecordTime, TimeKind};

    fn record(headers: Vec<Header>) -> Record {
        Record {
            position: Position::new("decision-logs", 3, 42),
            timestamp: Some(RecordTime::created(1_700_000_000_000)),
            key: Some(b"k".to_vec()),
            value: Some(b"not json".to_vec()),
            headers,
        }
    }

    fn cause(message: &str, second: i64) -> Cause {
        Cause {
            failure: Failure::permanent("Database", message).with_code(Code::SqlState("23514".into())),
            attempts: 1,
            at: Timestamp::from_second(second).unwrap(),
            group: "writer".into(),
        }
    }

    #[test]
    fn a_letter_says_where_it_was_and_what_went_wrong() {
        let record = record(vec![Header::new("trace", [0, 255])]);
        let letter = Record {
            headers: annotate(&record, &record.position, &cause("amount < 0", 5)),
            ..record.clone()
        };
        assert_eq!(letter.headers[0], record.headers[0], "headers of others stay as they are");
        assert_eq!(letter.header(TOPIC).unwrap().text(), Some("decision-logs"));
        assert_eq!(letter.header(PARTITION).unwrap().value.as_deref(), Some(&3_i32.to_be_bytes()[..]));
        assert_eq!(letter.header(OFFSET).unwrap().value.as_deref(), Some(&42_i64.to_be_bytes()[..]));
        let reading = read(&letter);
        assert_eq!(reading.origin, Some(record.position.clone()));
        assert_eq!(reading.failure, cause("amount < 0", 5).failure);
        assert_eq!(reading.attempts, 1);
        assert_eq!(reading.failed_at, Timestamp::from_second(5).ok());
        assert_eq!(original(&letter.headers), record.headers);
    }

    #[test]
    fn a_letter_that_fails_again_and_again_keeps_the_first_and_the_latest_cause() {
        let mut letter = record(vec![]);
        let identity = letter.position.clone();
        for round in 0..50 {
            letter.headers = annotate(&letter, &identity, &cause(&format!("round {round}"), round));
            letter.position = Position::new("decision-logs-parking", 0, round);
        }
        let messages: Vec<_> =
            letter.headers.iter().filter(|header| header.name == MESSAGE).filter_map(Header::text).collect();
        assert_eq!(messages, ["round 0", "round 49"]);
        let reading = read(&letter);
        assert_eq!(reading.origin.unwrap().to_string(), "decision-logs/3/42");
        assert_eq!((reading.attempts, reading.failure.message.as_str()), (50, "round 49"));
        assert_eq!(reading.first_failed_at, Timestamp::from_second(0).ok());
        assert!(letter.headers.len() <= 16, "{}", letter.headers.len());
    }

    /// A record of the stream whose producer says that it came from elsewhere: parked, it would be taken
    /// for that other record.
    #[test]
    fn an_origin_that_a_producer_made_up_does_not_get_into_the_letter() {
        for made_up in [
            vec![Header::new(TOPIC, "orders")],
            vec![Header::new(TOPIC, "decision-logs"), Header::new(PARTITION, "3"), Header::new(OFFSET, "7")],
        ] {
            let record = record(made_up);
            let letter = Record { headers: annotate(&record, &record.position, &cause("boom", 1)), ..record };
            assert_eq!(read(&letter).origin, Some(letter.position));
        }
    }

    #[test]
    fn letters_of_spring_kafka_are_understood() {
        let reading = read(&record(vec![
            Header::new("kafka_dlt-original-topic", "orders"),
            Header::new("kafka_dlt-original-partition", [0, 0, 0, 1]),
            Header::new("kafka_dlt-original-offset", [0, 0, 0, 0, 0, 0, 1, 0]),
            Header::new(
                "kafka_dlt-exception-fqcn",
                "org.springframework.kafka.listener.ListenerExecutionFailedException",
            ),
            Header::new("kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException"),
            Header::new("kafka_dlt-exception-message", "Listener failed; no stock"),
            Header::new("retry_topic-attempts", [0, 0, 0, 4]),
        ]));
        assert_eq!(reading.origin.unwrap().to_string(), "orders/1/256");
        assert_eq!(reading.failure.kind, "java.lang.IllegalStateException");
        assert_eq!(reading.failure.message, "no stock");
        assert_eq!(reading.attempts, 3, "the header is the number of the next attempt");
    }

    /// Its names lack the `dlt-`: such letters had no origin, and could not be redriven.
    #[test]
    fn letters_of_springs_retryable_topics_are_understood() {
        let headers = vec![
            Header::new("trace", "7"),
            Header::new("kafka_original-topic", "orders"),
            Header::new("kafka_original-partition", 1_i32.to_be_bytes()),
            Header::new("kafka_original-offset", 256_i64.to_be_bytes()),
            Header::new("kafka_original-timestamp", 1_700_000_000_000_i64.to_be_bytes()),
            Header::new("kafka_original-timestamp-type", "CreateTime"),
            Header::new("kafka_dlt-original-consumer-group", "shipping"),
            Header::new(
                "kafka_exception-fqcn",
                "org.springframework.kafka.listener.ListenerExecutionFailedException",
            ),
            Header::new("kafka_exception-cause-fqcn", "com.acme.OutOfStock"),
            Header::new(
                "kafka_exception-message",
                "Listener method 'public void com.acme.Shipping.on(java.lang.String)' threw exception; no stock",
            ),
            Header::new("kafka_exception-stacktrace", "…"),
            Header::new("retry_topic-attempts", [0, 0, 0, 5]),
            Header::new("retry_topic-original-timestamp", [1, 139, 207, 229, 104, 0]),
        ];
        let letter = record(headers);
        let reading = read(&letter);
        assert_eq!(reading.origin.unwrap().to_string(), "orders/1/256");
        assert_eq!(reading.group.as_deref(), Some("shipping"));
        assert_eq!(reading.written, Some(1_700_000_000_000));
        assert_eq!(reading.failure.kind, "com.acme.OutOfStock");
        assert_eq!(reading.failure.message, "no stock");
        assert_eq!(reading.attempts, 4);
        assert_eq!(original(&letter.headers), letter.headers[..1], "Spring would keep a stale origin");
    }

    #[test]
    fn a_letter_says_who_wrote_the_time_of_its_record() {
        let mut record = record(vec![]);
        record.timestamp = Some(RecordTime { millis: 7, kind: TimeKind::LogAppendTime });
        let headers = annotate(&record, &record.position, &cause("boom", 1));
        let kind = headers.iter().find(|header| header.name == TIMESTAMP_TYPE).and_then(Header::text);
        assert_eq!(kind, Some("LogAppendTime"));
    }

    #[test]
    fn letters_of_kafka_connect_are_understood() {
        let reading = read(&record(vec![
            Header::new("__connect.errors.topic", "orders"),
            Header::new("__connect.errors.partition", "2"),
            Header::new("__connect.errors.offset", "17"),
            Header::new(
                "__connect.errors.exception.class.name",
                "org.apache.kafka.connect.errors.DataException",
            ),
            Header::new("__connect.errors.exception.message", "no field id"),
            Header::new("__connect.errors.exception.stacktrace", "at …"),
        ]));
        assert_eq!(reading.origin.unwrap().to_string(), "orders/2/17");
        assert_eq!(reading.failure.kind, "org.apache.kafka.connect.errors.DataException");
        assert_eq!(reading.failure.message, "no field id");
    }

    #[test]
    fn letters_of_kafka_streams_are_understood() {
        let reading = read(&record(vec![
            Header::new(
                "__streams.errors.exception",
                "org.apache.kafka.common.errors.SerializationException",
            ),
            Header::new("__streams.errors.message", "bad bytes"),
            Header::new("__streams.errors.topic", "clicks"),
            Header::new("__streams.errors.partition", "0"),
            Header::new("__streams.errors.offset", "3"),
        ]));
        assert_eq!(reading.origin.unwrap().to_string(), "clicks/0/3");
        assert_eq!(reading.failure.kind, "org.apache.kafka.common.errors.SerializationException");
    }

    #[test]
    fn a_record_that_says_nothing_is_a_letter_all_the_same() {
        let reading = read(&record(vec![Header { name: TOPIC.into(), value: None }]));
        assert_eq!(reading.origin, None);
        assert_eq!(reading.failure.kind, "Unknown");
        assert_eq!(reading.attempts, 1);
    }

    #[test]
    fn a_long_message_is_cut_and_the_cut_is_marked() {
        let headers = annotate(&record(vec![]), &record(vec![]).position, &cause(&"é".repeat(5_000), 0));
        let message = headers.iter().find(|header| header.name == MESSAGE).and_then(Header::text).unwrap();
        assert!(message.ends_with("[…cut]") && message.chars().count() < MAX_MESSAGE + 10);
        assert!(shortened(&headers).iter().all(|header| header.name != MESSAGE && header.name != CODE));
    }

    proptest! {
        #[test]
        fn no_headers_make_it_panic_and_headers_of_others_survive(
            names in proptest::collection::vec("(kafka_dlt-original-offset|redrive-attempts|x|[a-z-]{0,6})", 0..6),
            odd in proptest::collection::vec(proptest::num::u8::ANY, 0..9),
            values in proptest::collection::vec(proptest::option::of(proptest::collection::vec(proptest::num::u8::ANY, 0..9)), 7),
        ) {
            let names = names.into_iter().map(HeaderName::from).chain([odd.into()]);
            let headers: Vec<Header> =
                names.zip(values).map(|(name, value)| Header { name, value }).collect();
            let record = record(headers.clone());
            let letter = Record { headers: annotate(&record, &record.position, &cause("boom", 1)), ..record.clone() };
            prop_assert_eq!(read(&letter).failure.message, "boom");
            prop_assert_eq!(original(&letter.headers), original(&headers));
            prop_assert!(letter.size() < record.size() + 3_000);
        }
    }
}
