//! Where the index is in its topics: what it has to remember, which grows with the partitions and with nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_store::{Place, Reading};

use crate::letter::letter;
use crate::record::Record;

/// A partition of a topic.
pub(crate) type Partition = (Arc<str>, i32);

/// Where the index is. Pure: what it says is done by others.
#[derive(Debug)]
pub(crate) struct Places {
    parking: Arc<str>,
    /// Where to go on.
    next: BTreeMap<Partition, i64>,
    /// Partitions of the parking topic that may have letters which are not closed.
    open: BTreeSet<i32>,
}

impl Places {
    /// Nothing is known; `parking` is the topic of the parking lot.
    pub(crate) fn new(parking: Arc<str>) -> Self {
        Self { parking, next: BTreeMap::new(), open: BTreeSet::new() }
    }

    /// A partition is going to be read, from here or from its beginning. Its letters from before may be open.
    pub(crate) fn begin(&mut self, partition: Partition, next: Option<i64>) {
        if partition.0 == self.parking {
            self.open.insert(partition.1);
        }
        match next {
            Some(next) => drop(self.next.insert(partition, next)),
            None => drop(self.next.remove(&partition)),
        }
    }

    /// The partitions of which these records come from before the place where they should go on: their topic was
    /// made anew.
    pub(crate) fn begun_again(&self, batch: &[Record]) -> BTreeSet<Partition> {
        let is_before = |(partition, offset): &(Partition, i64)| {
            self.next.get(partition).is_some_and(|next| offset < next)
        };
        batch.iter().map(at).filter(is_before).map(|(partition, _)| partition).collect()
    }

    /// The records as the store takes them.
    pub(crate) fn reading(&self, batch: &[Record]) -> Reading {
        let mut reading = Reading::default();
        let mut next: BTreeMap<Partition, i64> = BTreeMap::new();
        for record in batch {
            let (partition, offset) = at(record);
            reading.letters.push(letter(record, partition.0 == self.parking));
            next.insert(partition, offset + 1);
        }
        let place = |((topic, partition), next): (Partition, i64)| Place::new(&topic, partition, next);
        reading.next = next.into_iter().map(place).collect();
        reading
    }

    /// The records are stored.
    pub(crate) fn stored(&mut self, batch: &[Record]) {
        for (partition, offset) in batch.iter().map(at) {
            self.begin(partition, Some(offset + 1));
        }
    }

    /// Partitions of the parking topic that may have letters which are not closed.
    pub(crate) const fn open(&self) -> &BTreeSet<i32> {
        &self.open
    }

    /// A partition of the parking topic has no open letter.
    pub(crate) fn closed(&mut self, partition: i32) {
        self.open.remove(&partition);
    }
}

fn at(record: &Record) -> (Partition, i64) {
    let position = &record.position;
    ((Arc::clone(&position.topic), position.partition), position.offset)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::record::Position;

    const TOPICS: [&str; 3] = ["logs-dlq", "logs-parking", "logs-parking-dlq"];

    fn records() -> impl Strategy<Value = Vec<Vec<Record>>> {
        let record =
            (0..TOPICS.len(), 0..4_i32, 0..1_000_000_i64).prop_map(|(topic, partition, offset)| Record {
                position: Position::new(TOPICS[topic], partition, offset),
                timestamp: None,
                key: None,
                value: None,
                headers: Vec::new(),
            });
        proptest::collection::vec(proptest::collection::vec(record, 0..40), 0..10)
    }

    proptest! {
        /// It held a text for each parked letter, as long as the parking lot had not come to it.
        #[test]
        fn what_is_remembered_does_not_grow_with_the_records(batches in records()) {
            let mut places = Places::new("logs-parking".into());
            for batch in &batches {
                places.stored(batch);
                prop_assert!(places.next.len() <= TOPICS.len() * 4);
                prop_assert!(places.open.len() <= 4);
            }
            let parked = batches.iter().flatten().filter(|record| &*record.position.topic == "logs-parking");
            let partitions: BTreeSet<i32> = parked.map(|record| record.position.partition).collect();
            prop_assert_eq!(places.open(), &partitions);
        }

        #[test]
        fn a_reading_has_every_letter_and_goes_on_after_the_last_of_each_partition(batches in records()) {
            for mut batch in batches {
                batch.sort_by_key(|record| record.position.offset);
                let reading = Places::new("logs-parking".into()).reading(&batch);
                prop_assert_eq!(reading.letters.len(), batch.len());
                let parked = batch.iter().filter(|record| &*record.position.topic == "logs-parking");
                prop_assert_eq!(reading.letters.iter().filter(|letter| letter.is_parked).count(), parked.count());
                for record in &batch {
                    let at = &record.position;
                    let mut next = reading.next.iter();
                    let next = next.find(|next| *next.topic == *at.topic && next.partition == at.partition);
                    prop_assert!(next.is_some_and(|next| next.offset > at.offset));
                }
                for next in &reading.next {
                    let last = Position::new(next.topic.as_str(), next.partition, next.offset - 1);
                    prop_assert!(batch.iter().any(|record| record.position == last));
                }
            }
        }
    }

    #[test]
    fn a_record_from_before_its_place_says_that_the_topic_was_made_anew() {
        let record = |partition: i32, offset: i64| Record {
            position: Position::new("logs-dlq", partition, offset),
            timestamp: None,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let partition = |number: i32| (Arc::from("logs-dlq"), number);
        let mut places = Places::new("logs-parking".into());
        places.begin(partition(0), Some(7));
        places.begin(partition(1), None);
        assert!(places.begun_again(&[record(0, 7), record(0, 9), record(1, 0), record(2, 0)]).is_empty());
        places.stored(&[record(0, 7), record(0, 9), record(1, 0)]);
        assert_eq!(places.begun_again(&[record(0, 9), record(1, 1)]), [partition(0)].into());
        places.begin(partition(0), None);
        assert!(places.begun_again(&[record(0, 0)]).is_empty());
    }
}
