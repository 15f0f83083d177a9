//! Which messages of topics are letters of their own, and which are one with a letter that is here. Pure.
//!
//! A record that fails may be in a topic of letters twice: a crash between publishing and committing publishes it again.
//! It may also fail again later, when it is redriven or when its group reads the topic once more. So:
//!
//! - A record is known by its place, and by who could not handle it: two consumer groups that share a topic of letters
//!   have a letter each ([`ReadLetter::record`]).
//! - A message *merges* into a letter of the same record that waits, if it lies in the same topic, was written at the
//!   same time and was redriven as often.
//! - A message that was taken in before stays what it was.
//! - Otherwise it is a new letter. The latest letter of the same record, if there is one, is the letter that it was
//!   before.
//!
//! A message comes to this once per store: the places of an index say which ones were here.
//!
//! ```text
//! source = record @ written # redrives : digest of the topic > partition / offset @ failed
//!          ───────────── the same for all that merge ─────── ─ one of each message ────────
//! ```
//! Letters of versions before this have another source, and no record: they are found by that
//! ([`NewLetter::source`] of what is read), and otherwise treated alike.

use std::collections::HashMap;

use redrive_core::fingerprint::digest;

use crate::index::{Place, ReadLetter};

/// A letter that is here already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) source: String,
    /// Whether it waits, or is on its way back.
    pub(crate) is_open: bool,
}

/// Letters that are here already, by their record and, for those of earlier versions, by their source; the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) by_record: HashMap<String, Vec<Found>>,
    pub(crate) by_source: HashMap<String, Found>,
}

/// What becomes of messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged<'a> {
    /// Those that are new letters, with their sources.
    pub(crate) new: Vec<(&'a ReadLetter, String)>,
    /// New letters with the letters that they were before, both by their source.
    pub(crate) links: Vec<(String, String)>,
    /// Where letters lie in a parking lot, by their source.
    pub(crate) parked: Vec<(String, &'a Place)>,
}

/// What becomes of these messages, in their order.
pub(crate) fn merge<'a>(read: &[&'a ReadLetter], mut known: Known) -> Merged<'a> {
    let mut merged = Merged::default();
    for letter in read {
        let source = match into(letter, &known) {
            Into::Letter(source) => source,
            Into::New { previous } => {
                let source = letter.new_source();
                merged.links.extend(previous.map(|previous| (source.clone(), previous)));
                merged.new.push((letter, source.clone()));
                let found = Found { source: source.clone(), is_open: true };
                known.by_record.entry(letter.record.clone()).or_default().push(found);
                source
            }
        };
        if letter.is_parked {
            merged.parked.push((source, &letter.at));
        }
    }
    merged
}

/// Where a message goes.
enum Into {
    Letter(String),
    New { previous: Option<String> },
}

fn into(letter: &ReadLetter, known: &Known) -> Into {
    let of_record = known.by_record.get(&letter.record).map_or(&[][..], Vec::as_slice);
    let earlier = known.by_source.get(&letter.letter.source);
    let (occurrence, source) = (letter.occurrence(), letter.new_source());
    if of_record.iter().any(|found| found.source == source) {
        return Into::Letter(source);
    }
    let is_same = |found: &&Found| found.is_open && occurrence_of(&found.source) == occurrence;
    let open = of_record.iter().rev().find(is_same).or(earlier.filter(|found| found.is_open));
    if let Some(open) = open {
        return Into::Letter(open.source.clone());
    }
    let is_of_it = |found: &&Found| is_written(letter, written_of(&letter.record, &found.source));
    let previous = of_record.iter().rev().find(is_of_it).or(earlier);
    Into::New { previous: previous.map(|found| found.source.clone()) }
}

/// Whether the record was written then. A topic that is made anew counts its offsets from 0 again; of what was redriven
/// nobody knows when it was written first.
fn is_written(letter: &ReadLetter, at: Option<i64>) -> bool {
    letter.written().is_none() || at.is_none() || letter.written() == at
}

fn occurrence_of(source: &str) -> &str {
    source.rsplit_once('>').map_or(source, |(occurrence, _)| occurrence)
}

fn written_of(record: &str, source: &str) -> Option<i64> {
    source.strip_prefix(record)?.strip_prefix('@')?.split('#').next()?.parse().ok()
}

impl ReadLetter {
    /// When its record was written. A redriven record is written anew, twice if the redrive was cut off: the time says
    /// nothing about it.
    fn written(&self) -> Option<i64> {
        self.written.filter(|_| self.redrives == 0)
    }

    fn occurrence(&self) -> String {
        let Self { record, redrives, at, .. } = self;
        let written = self.written().map(|millis| format!("@{millis}")).unwrap_or_default();
        format!("{record}{written}#{redrives}:{:016x}", digest(at.topic.as_bytes()))
    }

    fn new_source(&self) -> String {
        let failed = self.letter.failed_at.as_millisecond();
        format!("{}>{}/{}@{failed}", self.occurrence(), self.at.partition, self.at.offset)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use redrive_core::dead_letter::Origin;
    use redrive_core::failure::Failure;

    use super::*;
    use crate::letters::NewLetter;

    fn message(record: &str, written: i64, redrives: u32, offset: i64) -> ReadLetter {
        let letter = NewLetter {
            source: format!("logs-dlq:{record}@{written}#{redrives}"),
            event_type: "logs-dlq".into(),
            key: String::new(),
            payload: Vec::new(),
            headers: Vec::new(),
            origin: Origin::Topic { topic: "logs".into(), partition: 0, offset: 7 },
            target: None,
            failure: Failure::permanent("Database", "no"),
            attempts: 1,
            first_failed_at: Timestamp::UNIX_EPOCH,
            failed_at: Timestamp::UNIX_EPOCH,
        };
        ReadLetter {
            letter,
            at: Place::new("logs-dlq", 0, offset),
            record: record.to_owned(),
            written: Some(written),
            redrives,
            is_parked: false,
        }
    }

    fn known(letters: &[(&ReadLetter, bool)]) -> Known {
        let mut known = Known::default();
        for (letter, is_open) in letters {
            let found = Found { source: letter.new_source(), is_open: *is_open };
            known.by_record.entry(letter.record.clone()).or_default().push(found);
        }
        known
    }

    fn count(merged: &Merged<'_>) -> (usize, usize) {
        (merged.new.len(), merged.links.len())
    }

    #[test]
    fn a_message_merges_into_a_letter_of_its_record_that_waits_and_is_new_once_that_is_closed() {
        let (first, again) = (message("w:logs/0/7", 5, 0, 0), message("w:logs/0/7", 5, 0, 1));
        assert_eq!(count(&merge(&[&first, &again], Known::default())), (1, 0), "published twice by a crash");
        assert_eq!(count(&merge(&[&again], known(&[(&first, true)]))), (0, 0));
        let merged = merge(&[&again], known(&[(&first, false)]));
        assert_eq!(merged.links, [(again.new_source(), first.new_source())]);
        assert_ne!(again.new_source(), first.new_source());
        assert_eq!(count(&merge(&[&first], known(&[(&first, false)]))), (0, 0), "it is that letter");
    }

    #[test]
    fn groups_records_and_topics_that_were_made_anew_have_letters_of_their_own() {
        let one = message("w:logs/0/7", 5, 0, 0);
        for other in
            [message("v:logs/0/7", 5, 0, 1), message("w:logs/0/8", 5, 0, 1), message("w:logs/0/7", 6, 0, 1)]
        {
            assert_eq!(count(&merge(&[&one, &other], Known::default())), (2, 0), "{other:?}");
        }
        let mut parked = message("w:logs/0/7", 5, 0, 1);
        parked.at = Place::new("logs-parking", 0, 1);
        assert_eq!(count(&merge(&[&one, &parked], Known::default())), (2, 1), "one was the other before");
    }

    #[test]
    fn a_record_that_fails_again_after_a_redrive_is_linked_to_the_letter_it_was() {
        let (first, again) = (message("w:logs/0/7", 5, 0, 0), message("w:logs/0/7", 9, 1, 1));
        for is_open in [true, false] {
            let merged = merge(&[&again], known(&[(&first, is_open)]));
            assert_eq!(
                merged.links,
                [(again.new_source(), first.new_source())],
                "its redrive may not be settled yet"
            );
        }
        let twice = message("w:logs/0/7", 10, 1, 2);
        assert_eq!(count(&merge(&[&twice], known(&[(&first, false), (&again, true)]))), (0, 0));
        let third = message("w:logs/0/7", 11, 2, 3);
        let merged = merge(&[&third], known(&[(&first, false), (&again, false)]));
        assert_eq!(merged.links, [(third.new_source(), again.new_source())], "the latest");
    }

    #[test]
    fn letters_of_earlier_versions_are_found_by_their_source() {
        let message = message("w:logs/0/7", 5, 0, 3);
        for is_open in [true, false] {
            let source = message.letter.source.clone();
            let found = Found { source: source.clone(), is_open };
            let known = Known { by_source: [(source.clone(), found)].into(), ..Known::default() };
            let merged = merge(&[&message], known);
            assert_eq!(merged.new.is_empty(), is_open);
            let links = if is_open { Vec::new() } else { vec![(message.new_source(), source)] };
            assert_eq!(merged.links, links);
        }
    }

    #[test]
    fn a_parked_letter_is_known_by_the_letter_that_it_merged_into() {
        let (mut first, mut again) = (message("w:logs/0/7", 5, 0, 0), message("w:logs/0/7", 5, 0, 9));
        (first.is_parked, again.is_parked) = (true, true);
        let merged = merge(&[&first, &again], Known::default());
        let source = first.new_source();
        assert_eq!(merged.parked, [(source.clone(), &first.at), (source, &again.at)]);
    }
}
