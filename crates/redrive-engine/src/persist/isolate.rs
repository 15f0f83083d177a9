//! Isolate: which records of a batch are saved, which are poison, and which is nobody's fault.
//!
//! Driven by `redrive_core::bisect`, with two additions. A sink may name records that can never be
//! saved beside the others (a key that is taken), which spares the search for them. And when *nothing*
//! of a batch can be saved, and no failure blames a record (a missing table, a lost right), it is the
//! sink that is at fault: an outage, by another name.

use redrive_core::bisect::{Attempt, Search};
use redrive_core::classify::blame::blames_record;
use redrive_core::failure::{Class, Failure};
use redrive_store::Record;

use super::sink::{Sink, save_in_time};

/// After so many tries in vain that blame no record, the others are not tried.
const IN_VAIN: usize = 16;

/// What became of each record, by index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    pub(super) saved: Vec<usize>,
    pub(super) poison: Vec<(usize, Failure)>,
    /// Saved or not: nobody knows.
    pub(super) open: Vec<usize>,
    /// Why they are open.
    pub(super) cause: Option<Failure>,
}

/// Saves what can be saved.
pub(super) async fn isolate(sink: &dyn Sink, records: &[Record]) -> Sorted {
    let mut search = Search::over(records.len());
    let mut taken: Vec<(usize, Failure)> = Vec::new();
    let mut doubt = Doubt::default();
    let mut cause = None;
    while let Some(range) = search.next_slice() {
        let first = range.start;
        let attempt = match save_in_time(sink, &records[range]).await {
            Ok(conflicts) => {
                taken.extend(conflicts.into_iter().map(|(index, failure)| (first + index, failure)));
                Attempt::Stored
            }
            Err(failure) => Attempt::Failed(failure),
        };
        doubt.note(&attempt);
        cause = search.settle(attempt).err();
        if cause.is_some() || doubt.is_sure() {
            break;
        }
    }
    if !doubt.cleared {
        let open = (0..records.len()).collect();
        return Sorted { open, cause: cause.or(doubt.latest), ..Sorted::default() };
    }
    let report = search.into_report();
    let is_taken = |index: &usize| taken.iter().any(|(other, _)| other == index);
    let saved = report.stored().into_iter().flatten().filter(|index| !is_taken(index)).collect();
    let open = report.undecided().into_iter().flatten().collect();
    let mut poison = report.into_poison();
    poison.extend(taken);
    poison.sort_by_key(|(index, _)| *index);
    Sorted { saved, poison, open, cause }
}

/// Whether the sink itself may be at fault.
#[derive(Debug, Default)]
struct Doubt {
    /// Something was saved, or a record was blamed: the sink works.
    cleared: bool,
    in_vain: usize,
    /// What the sink said last; not the fault of a record.
    latest: Option<Failure>,
}

impl Doubt {
    fn note(&mut self, attempt: &Attempt) {
        match attempt {
            Attempt::Stored => self.cleared = true,
            Attempt::Failed(failure) if failure.class.is_retryable() => {}
            // A failure without a code is the word of a sink of the user's own, and counts.
            Attempt::Failed(failure) if failure.code.as_ref().is_none_or(blames_record) => {
                self.cleared = true;
            }
            Attempt::Failed(failure) => {
                self.in_vain += 1;
                self.latest = Some(Failure { class: Class::Unclassified, ..failure.clone() });
            }
        }
    }

    const fn is_sure(&self) -> bool {
        !self.cleared && self.in_vain >= IN_VAIN
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use jiff::Timestamp;
    use redrive_core::failure::Code;

    use super::*;

    /// Answers by the payloads it is given, and counts the tries.
    #[derive(Default)]
    struct Table {
        tries: AtomicUsize,
    }

    #[async_trait]
    impl Sink for Table {
        async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
            self.tries.fetch_add(1, Ordering::Relaxed);
            let has = |what: &str| records.iter().any(|record| record.payload == what);
            let coded = |code: &str| {
                let code: Code = code.parse().unwrap();
                Failure::permanent("Database", "no").with_code(code)
            };
            if has("away") {
                return Err(Failure::transient("Database", "away"));
            }
            if has("rights") {
                return Err(coded("sqlstate:42501"));
            }
            if has("long") {
                return Err(coded("sqlstate:22001"));
            }
            let taken = records.iter().enumerate().filter(|(_, record)| record.payload == "taken");
            Ok(taken.map(|(index, _)| (index, coded("sqlstate:23505"))).collect())
        }
    }

    fn batch(payloads: &[&str]) -> Vec<Record> {
        let record = |payload: &&str| Record {
            key: "k".into(),
            payload: (*payload).to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        payloads.iter().map(record).collect()
    }

    async fn sorted(payloads: &[&str]) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
        let sorted = isolate(&Table::default(), &batch(payloads)).await;
        assert_eq!(sorted.cause.is_some(), !sorted.open.is_empty());
        (sorted.saved, sorted.poison.into_iter().map(|(index, _)| index).collect(), sorted.open)
    }

    #[tokio::test]
    async fn poison_is_found_and_the_rest_is_saved() {
        let expected = (vec![0, 2, 5], vec![1, 3, 4], vec![]);
        assert_eq!(sorted(&["", "long", "", "taken", "long", ""]).await, expected);
    }

    #[tokio::test]
    async fn an_outage_leaves_everything_open() {
        assert_eq!(sorted(&["", "away", "long"]).await, (vec![], vec![], vec![0, 1, 2]));
    }

    #[tokio::test]
    async fn one_row_that_a_right_forbids_is_poison_among_others() {
        assert_eq!(sorted(&["", "rights", "", ""]).await, (vec![0, 2, 3], vec![1], vec![]));
    }

    #[tokio::test]
    async fn when_everything_is_refused_alike_no_row_is_to_blame() {
        for size in [1, 2, 7, 500] {
            let table = Table::default();
            let sorted = isolate(&table, &batch(&vec!["rights"; size])).await;
            assert_eq!((sorted.open.len(), sorted.saved.len(), sorted.poison.len()), (size, 0, 0));
            assert!(sorted.cause.unwrap().class.is_retryable());
            assert!(table.tries.load(Ordering::Relaxed) <= IN_VAIN);
        }
    }

    #[tokio::test]
    async fn a_batch_of_poison_only_is_poison() {
        assert_eq!(sorted(&["long", "long", "long"]).await, (vec![], vec![0, 1, 2], vec![]));
    }
}
