//! A letter: what a record in a topic of letters is in the store, and back again.
//!
//! A letter is known by its origin, the group or connector that gave up, the topic it lies in and how often it was
//! redriven, so one that was published twice (a crash between publishing and committing) is one letter. When it was
//! written at its origin belongs to that: a topic that is made anew counts its offsets from 0 again. Which messages are
//! one letter, the store decides ([`ReadLetter`]). The body, key and headers are kept byte for byte; what a letter's
//! fields cannot say (no value, no key, a header without a value, or with a name that is not text) is said by headers
//! whose names start with `redrive:`.
//!
//! Whatever a header says, every store takes the letter: anybody may have written it, and one that is refused
//! would keep all that follow it from being read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use redrive_core::dead_letter::Origin;
use redrive_core::event::{MAX_KEY, MAX_TYPE};
use redrive_core::fingerprint::digest;
use redrive_store::{MAX_RECORD, NewLetter, Place, ReadLetter};

use crate::headers::{self, Reading};
use crate::record::{Header, HeaderName, Position, Record};

/// What only the store says about a letter.
const KEY: &str = "redrive:key";
const NO_VALUE: &str = "redrive:no-value";
const NO_HEADER_VALUE: &str = "redrive:no-header-value";
const LIES_AT: &str = "redrive:lies-at";
const HEADER_NAME: &str = "redrive:header-name";
/// What all of them start with.
const OURS: &str = "redrive:";

/// Kafka has no topic with a longer name: whoever says so made it up.
const LONGEST_TOPIC: usize = 249;
/// The most attempts that every store can count.
const MOST_ATTEMPTS: u32 = i32::MAX as u32;

/// A letter as the store keeps it; `is_parked` when it lies in a parking lot.
#[must_use]
pub fn letter(record: &Record, is_parked: bool) -> ReadLetter {
    let reading = headers::read(record);
    let said = reading.origin.clone().filter(|origin| origin.topic.len() <= LONGEST_TOPIC);
    let written = if said.is_some() { reading.written } else { record.timestamp.map(|at| at.millis) };
    let origin = said.unwrap_or_else(|| record.position.clone());
    let Position { topic, partition, offset } = &record.position;
    ReadLetter {
        at: Place::new(topic, *partition, *offset),
        record: name(reading.group.as_deref(), &origin),
        written,
        redrives: reading.redrives,
        is_parked,
        letter: new_letter(record, reading, &origin, written),
    }
}

fn new_letter(record: &Record, reading: Reading, origin: &Position, written: Option<i64>) -> NewLetter {
    let appended = record.timestamp.and_then(|at| Timestamp::from_millisecond(at.millis).ok());
    let appended = appended.filter(is_storable);
    let failed_at = reading.failed_at.filter(is_storable).or(appended).unwrap_or_else(Timestamp::now);
    let key = record.key.as_deref().unwrap_or_default();
    NewLetter {
        source: source(&record.position.topic, origin, written, reading.redrives),
        event_type: cut(&record.position.topic, MAX_TYPE),
        key: cut(&String::from_utf8_lossy(key), MAX_KEY),
        payload: record.value.clone().unwrap_or_default(),
        headers: kept_headers(record),
        origin: Origin::Topic {
            topic: origin.topic.to_string(),
            partition: origin.partition,
            offset: origin.offset,
        },
        target: None,
        failure: reading.failure,
        attempts: reading.attempts.min(MOST_ATTEMPTS),
        first_failed_at: reading.first_failed_at.filter(is_storable).unwrap_or(failed_at),
        failed_at,
    }
}

/// What a letter was in its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<Header>,
}

/// The key, value and headers that a stored letter had in its topic.
#[must_use]
pub fn restored(payload: Vec<u8>, kept: Vec<(String, Vec<u8>)>) -> Restored {
    let of = |name: &str| kept.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let (key, value) = (of(KEY), of(NO_VALUE).map_or(Some(payload), |_| None));
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok());
    let ours =
        |name: &'static str| kept.iter().filter(move |(other, _)| other == name).map(|(_, value)| value);
    let absent: BTreeSet<usize> = ours(NO_HEADER_VALUE).filter_map(|value| number(value)).collect();
    let named: BTreeMap<usize, Vec<u8>> = ours(HEADER_NAME)
        .filter_map(|value| {
            let colon = value.iter().position(|byte| *byte == b':')?;
            Some((number(&value[..colon])?, value[colon + 1..].to_vec()))
        })
        .collect();
    let header = |(at, (name, value)): (usize, (String, Vec<u8>))| {
        let name = named.get(&at).cloned().unwrap_or_else(|| name.into_bytes());
        Header { name: name.into(), value: (!absent.contains(&at)).then_some(value) }
    };
    let of_record = kept.iter().take_while(|(name, _)| !name.starts_with(OURS)).count();
    let headers = kept.into_iter().take(of_record).enumerate().map(header).collect();
    Restored { key, value, headers }
}

/// Which record failed, and for whom.
fn name(group: Option<&str>, origin: &Position) -> String {
    let group = group.map(|group| format!("{group}:")).unwrap_or_default();
    fitting(&format!("{group}{origin}"), MAX_RECORD)
}

/// What the first version knew a letter by. A redriven record is written anew, twice if the redrive was cut off, so the
/// time says nothing about it.
fn source(topic: &str, origin: &Position, written: Option<i64>, redrives: u32) -> String {
    match written.filter(|_| redrives == 0) {
        Some(millis) => fitting(&format!("{topic}:{origin}@{millis}#{redrives}"), MAX_KEY),
        None => fitting(&format!("{topic}:{origin}#{redrives}"), MAX_KEY),
    }
}

/// So that it fits its column. Of one that is too long the end is kept, which holds the offset, behind a
/// digest of the whole.
fn fitting(whole: &str, max: usize) -> String {
    let Some(beyond) = whole.chars().count().checked_sub(max).filter(|beyond| *beyond > 0) else {
        return cut(whole, max);
    };
    let digest = format!("{:016x}~", digest(whole.as_bytes()));
    let end: String = whole.chars().skip(beyond + digest.len()).collect();
    cut(&format!("{digest}{end}"), max)
}

fn kept_headers(record: &Record) -> Vec<(String, Vec<u8>)> {
    let mut kept: Vec<(String, Vec<u8>)> = Vec::with_capacity(record.headers.len() + 3);
    for header in &record.headers {
        kept.push((shown(&header.name), header.value.clone().unwrap_or_default()));
    }
    // What is ours comes after all that is the record's.
    for (at, header) in record.headers.iter().enumerate() {
        if header.name != *kept[at].0 {
            let name = [format!("{at}:").as_bytes(), header.name.as_bytes()].concat();
            kept.push((HEADER_NAME.to_owned(), name));
        }
        if header.value.is_none() {
            kept.push((NO_HEADER_VALUE.to_owned(), at.to_string().into_bytes()));
        }
    }
    kept.push((LIES_AT.to_owned(), record.position.to_string().into_bytes()));
    kept.extend(record.key.clone().map(|key| (KEY.to_owned(), key)));
    if record.value.is_none() {
        kept.push((NO_VALUE.to_owned(), Vec::new()));
    }
    kept
}

/// A name as people see it. One that a producer made up to look like ours does not.
fn shown(name: &HeaderName) -> String {
    let text = name.text();
    if text.starts_with(OURS) { format!("({text})") } else { text.into_owned() }
}

/// Whether every store has this time: some begin with the year 1000, and Kafka is younger than that.
fn is_storable(time: &Timestamp) -> bool {
    *time >= Timestamp::UNIX_EPOCH
}

/// A text that fits its column: no NUL, so many characters.
fn cut(text: &str, max: usize) -> String {
    text.chars().map(|letter| if letter == '\0' { '\u{FFFD}' } else { letter }).take(max).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;
    use crate::record::RecordTime;

    proptest! {
        #[test]
        fn what_a_letter_was_survives_the_store(
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
            headers in proptest::collection::vec(any::<(Vec<u8>, Option<Vec<u8>>)>(), 0..5),
            ours in proptest::collection::vec(("(redrive:(key|no-value|header-name|no-header-value|)|a\0b|)", any::<Option<Vec<u8>>>()), 0..3),
        ) {
            let ours = ours.into_iter().map(|(name, value)| (name.into_bytes(), value));
            let headers: Vec<Header> =
                headers.into_iter().chain(ours).map(|(name, value)| Header { name: name.into(), value }).collect();
            let position = Position::new("decision-logs-dlq", 1, 2);
            let record = Record { position, timestamp: None, key, value, headers };
            let stored = letter(&record, false).letter;
            // As it is stored.
            let json = serde_json::to_string(&stored.headers).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Vec<(String, Vec<u8>)>>(&json).unwrap(), &stored.headers);
            let restored = restored(stored.payload, stored.headers);
            prop_assert_eq!(restored, Restored { key: record.key, value: record.value, headers: record.headers });
        }
    }

    /// The end was cut, which holds the offset: all letters of a topic with a long name were one.
    #[test]
    fn letters_of_topics_with_long_names_are_told_apart() {
        // 249 characters are the most that Kafka takes.
        for length in [100, 119, 120, 121, 122, 130, 200, 249] {
            let topic = "t".repeat(length);
            let record = |offset: i64, redrives: &str| Record {
                position: Position::new(format!("{}-dlq", &topic[..length - 4]).as_str(), 0, 9),
                timestamp: None,
                key: None,
                value: None,
                headers: vec![
                    Header::new("kafka_dlt-original-topic", topic.as_str()),
                    Header::new("kafka_dlt-original-partition", "3"),
                    Header::new("kafka_dlt-original-offset", offset.to_string()),
                    Header::new(headers::REDRIVE_COUNT, redrives),
                ],
            };
            let source = |offset: i64, redrives: &str| letter(&record(offset, redrives), false).letter.source;
            let different = [source(41, "0"), source(42, "0"), source(4_200, "0"), source(42, "1")];
            let unique: std::collections::BTreeSet<&String> = different.iter().collect();
            assert_eq!(unique.len(), 4, "{different:?}");
            assert!(different.iter().all(|source| source.chars().count() <= MAX_KEY));
            assert_eq!(source(42, "0"), source(42, "0"));
            assert!(different[2].ends_with("/3/4200#0"), "{}", different[2]);
        }
        let (one, other) = ("a".repeat(300), format!("b{}", "a".repeat(299)));
        assert_ne!(fitting(&one, MAX_KEY), fitting(&other, MAX_KEY), "also at the other end");
    }

    /// A letter at this offset of its topic, of one and the same record.
    fn record(offset: i64, redrives: &str) -> Record {
        Record {
            position: Position::new("logs-dlq", 0, offset),
            timestamp: Some(RecordTime::created(0)),
            key: None,
            value: None,
            headers: vec![
                Header::new("kafka_dlt-original-topic", "logs"),
                Header::new("kafka_dlt-original-partition", "3"),
                Header::new("kafka_dlt-original-offset", "42"),
                Header::new(headers::REDRIVE_COUNT, redrives),
            ],
        }
    }

    /// The letters of a topic that was made anew were taken for those of the old one, and were not indexed.
    #[test]
    fn a_topic_made_anew_has_letters_of_its_own() {
        let source = |written: i64, redrives: &str| {
            let mut record = record(7, redrives);
            let written = written.to_be_bytes().to_vec();
            record.headers.push(Header::new("kafka_dlt-original-timestamp", written));
            letter(&record, false).letter.source
        };
        assert_eq!(source(1_000, "0"), "logs-dlq:logs/3/42@1000#0");
        assert_ne!(source(1_000, "0"), source(2_000, "0"));
        assert_eq!(source(1_000, "1"), source(2_000, "1"), "the same record, redriven twice by a crash");
    }

    /// A number that no column takes, in a header that any producer can write, stopped the index for good.
    #[test]
    fn whatever_its_headers_say_every_store_takes_a_letter() {
        let mut record = record(1, "0");
        record.headers.extend([
            Header::new("redrive-attempts", u32::MAX.to_string()),
            Header::new("redrive-failed-at", "-009998-01-01T00:00:00Z"),
            Header::new("redrive-first-failed-at", "0999-12-31T00:00:00Z"),
        ]);
        record.headers[0] = Header::new("kafka_dlt-original-topic", "t".repeat(100_000));
        let letter = letter(&record, false).letter;
        assert_eq!(i64::from(letter.attempts), i64::from(i32::MAX));
        assert_eq!([letter.first_failed_at, letter.failed_at], [Timestamp::UNIX_EPOCH; 2]);
        let lies_at = Origin::Topic { topic: "logs-dlq".to_owned(), partition: 0, offset: 1 };
        assert_eq!(letter.origin, lies_at, "nobody has a topic of such a name");
    }

    #[test]
    fn the_same_letter_published_twice_is_of_one_record_and_a_redriven_one_too() {
        let source = |offset: i64, redrives: &str| letter(&record(offset, redrives), false).letter.source;
        assert_eq!(source(1, "0"), "logs-dlq:logs/3/42#0");
        assert_eq!(source(1, "0"), source(2, "0"));
        assert_ne!(source(1, "0"), source(2, "1"));
        let (first, again) = (letter(&record(1, "0"), false), letter(&record(2, "1"), true));
        assert_eq!((&*first.record, first.redrives, first.is_parked), ("logs/3/42", 0, false));
        assert_eq!((&*again.record, again.redrives, again.is_parked), ("logs/3/42", 1, true));
    }

    /// Two groups, or two connectors, that share a topic of letters and failed the same record were one letter.
    #[test]
    fn whose_letter_it_is_belongs_to_what_it_is_known_by() {
        let record = |name: &str, group: &str| {
            let mut record = record(1, "0");
            record.headers.push(Header::new(name, group));
            letter(&record, false).record
        };
        assert_eq!(record("kafka_dlt-original-consumer-group", "shipping"), "shipping:logs/3/42");
        assert_eq!(record("__connect.errors.connector.name", "to-s3"), "to-s3:logs/3/42");
        let long = record("kafka_dlt-original-consumer-group", &"g".repeat(300));
        assert!(long.len() <= MAX_RECORD && long.ends_with(":logs/3/42"), "{long}");
    }
}
