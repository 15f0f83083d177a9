#![expect(clippy::single_range_in_vec_init, reason = "one range is what a whole batch reports")]

use std::collections::{BTreeSet, HashSet};
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use proptest::collection::{btree_set, vec};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;

/// Runs a future that is never kept waiting by anything but its own yields.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Gives way once, as a try over a network does.
async fn give_way() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn refused(record: usize) -> Failure {
    Failure::permanent("Check", format!("record {record} is refused"))
}

/// A sink that stores slices whole or not at all and remembers what it was asked.
#[derive(Default)]
struct Sink {
    poison: BTreeSet<usize>,
    /// Pairs that fail in one slice and pass in two.
    quarrels: Vec<(usize, usize)>,
    /// The try at which it stops answering.
    outage: Option<usize>,
    stored: Vec<usize>,
    tries: usize,
}

impl Sink {
    fn store(&mut self, slice: &[usize]) -> Result<Attempt, &'static str> {
        self.tries += 1;
        if self.outage == Some(self.tries) {
            // Both kinds of interruption, in turn.
            let transient = Failure::transient("Timeout", "no answer");
            return if self.tries.is_multiple_of(2) {
                Err("store down")
            } else {
                Ok(Attempt::Failed(transient))
            };
        }
        if let Some(record) = slice.iter().find(|record| self.refuses(**record, slice)) {
            return Ok(Attempt::Failed(refused(*record)));
        }
        self.stored.extend(slice);
        Ok(Attempt::Stored)
    }

    fn refuses(&self, record: usize, slice: &[usize]) -> bool {
        let quarrel = |&(a, b): &(usize, usize)| a == record && a != b && slice.contains(&b);
        self.poison.contains(&record) || self.quarrels.iter().any(quarrel)
    }
}

fn search(len: usize, sink: &mut Sink) -> Result<Report, Interrupted<&'static str>> {
    let records: Vec<_> = (0..len).collect();
    block_on(bisect(&records, |slice| {
        let answer = sink.store(slice);
        async {
            give_way().await;
            answer
        }
    }))
}

fn flat(ranges: Vec<Range<usize>>) -> Vec<usize> {
    ranges.into_iter().flatten().collect()
}

fn bound(len: usize, poison: usize) -> f64 {
    let (n, k) = (len as f64, poison as f64);
    if poison == 0 { 1.0 } else { 2.0 * k * (n / k).log2() + 2.0 * k }
}

/// What must hold for every sink whose records fail or pass on their own.
fn assert_exact(len: usize, poison: &BTreeSet<usize>) {
    let mut sink = Sink { poison: poison.clone(), ..Sink::default() };
    let report = search(len, &mut sink).unwrap();
    let good: Vec<_> = (0..len).filter(|record| !poison.contains(record)).collect();
    // Equal as lists: nothing twice, nothing out of order.
    assert_eq!(sink.stored, good);
    assert_eq!(flat(report.stored()), good);
    assert!(report.poison().all(|(record, failure)| *failure == refused(record)));
    assert!(report.poison().map(|(record, _)| record).eq(poison.iter().copied()));
    assert_eq!(report.undecided(), []);
    assert_eq!(report.tries(), sink.tries);
    assert!(sink.tries as f64 <= bound(len, poison.len()) + 1e-9, "{} tries:\n{report}", sink.tries);
    assert!(report.tree().iter().all(|node| node.depth <= len.next_power_of_two().ilog2() as usize));
}

#[test]
fn a_good_batch_costs_one_try_and_an_empty_one_none() {
    let mut sink = Sink::default();
    assert_eq!(search(500, &mut sink).unwrap().tries(), 1);
    assert_eq!(search(0, &mut sink).unwrap(), Report::default());
    assert_eq!(sink.tries, 1);
}

#[test]
fn every_poison_set_of_a_small_batch_is_found_within_the_bound() {
    for len in 1..=10 {
        for set in 0..1_u32 << len {
            assert_exact(len, &(0..len).filter(|record| set >> record & 1 == 1).collect());
        }
    }
}

#[test]
fn the_report_draws_the_tree_of_what_failed() {
    let mut sink = Sink { poison: BTreeSet::from([3]), ..Sink::default() };
    let report = search(4, &mut sink).unwrap();
    let drawn = "\
0..4 failed: Check: record 3 is refused
  0..2 stored
  2..4 split without a try
    2..3 stored
    3..4 poison: Check: record 3 is refused
";
    assert_eq!(report.to_string(), drawn);
    assert_eq!(report.tries(), 4);
    assert_eq!(report.into_poison(), [(3, refused(3))]);
}

#[test]
fn an_outage_is_never_mistaken_for_poison() {
    for class in [Failure::transient("Timeout", ""), Failure::unclassified("Error", "")] {
        let stopped = block_on(bisect(&[0], |_| ready(Ok::<_, ()>(Attempt::Failed(class.clone())))));
        let stopped = stopped.unwrap_err();
        assert_eq!(stopped.report.poison().count(), 0);
        assert_eq!(stopped.report.undecided(), [0..1]);
        assert_eq!(stopped.cause, Cause::Retryable(class));
    }
}

#[test]
fn an_interrupted_search_says_what_it_knows() {
    // Tries: whole, 0..4, 0..2, then 0..1 (poison), 1..2, then 2..4 meets the outage.
    let mut sink = Sink { poison: BTreeSet::from([0]), outage: Some(6), ..Sink::default() };
    let stopped = search(8, &mut sink).unwrap_err();
    assert_eq!(stopped.cause, Cause::Error("store down"));
    assert_eq!(stopped.report.stored(), [1..2]);
    assert_eq!(stopped.report.undecided(), [2..8]);
    assert_eq!(stopped.report.into_poison(), [(0, refused(0))]);
}

#[test]
fn a_slice_that_fails_though_its_halves_pass_loses_nothing() {
    let mut sink = Sink { quarrels: vec![(0, 7)], ..Sink::default() };
    let report = search(8, &mut sink).unwrap();
    assert_eq!(sink.stored, (0..8).collect::<Vec<_>>());
    assert_eq!(report.stored(), [0..8]);
    assert_eq!(report.poison().count(), 0);
}

/// Whoever spawns a worker needs a future that may move between threads; checked by the compiler.
#[test]
fn the_search_may_run_on_any_thread() {
    #[async_trait::async_trait]
    trait Store: Send + Sync {
        async fn store(&self, slice: &[String]) -> Result<Attempt, String>;
    }
    struct Accepting;
    #[async_trait::async_trait]
    impl Store for Accepting {
        async fn store(&self, _: &[String]) -> Result<Attempt, String> {
            give_way().await;
            Ok(Attempt::Stored)
        }
    }
    async fn generic<S: Store>(store: S, tries: &AtomicUsize) -> usize {
        let records = vec![String::new(); 3];
        let attempt = |slice| {
            tries.fetch_add(1, Ordering::Relaxed);
            store.store(slice)
        };
        bisect(&records, attempt).await.unwrap().tries()
    }
    fn movable<F: Future + Send>(future: F) -> F {
        future
    }
    let tries = AtomicUsize::new(0);
    assert_eq!(block_on(movable(async { generic(Accepting, &tries).await })), tries.load(Ordering::Relaxed));
    let boxed: Box<dyn Store> = Box::new(Accepting);
    let inline = async {
        let records = [String::new()];
        bisect(&records, |slice| async { boxed.store(slice).await }).await.unwrap().tries()
    };
    assert_eq!(block_on(movable(inline)), 1);
}

#[test]
fn a_slice_without_an_answer_is_handed_out_again() {
    let mut search = Search::over(2);
    assert_eq!(search.settle(Attempt::Failed(Failure::transient("T", ""))), Err(Failure::transient("T", "")));
    assert_eq!([search.next_slice(), search.next_slice()], [Some(0..2), Some(0..2)]);
    assert!(search.settle(Attempt::Failed(Failure::transient("T", ""))).is_err());
    assert_eq!(search.next_slice(), Some(0..2));
    assert_eq!(search.settle(Attempt::Stored), Ok(()));
    assert_eq!(search.next_slice(), None);
    // Too late, and without effect.
    assert_eq!(search.settle(Attempt::Failed(refused(0))), Ok(()));
    assert_eq!(search.into_report().stored(), [0..2]);
}

/// A batch and some of its records.
fn batches() -> impl Strategy<Value = (usize, BTreeSet<usize>)> {
    (1..400_usize).prop_flat_map(|len| {
        let sets = btree_set(0..len, 0..=len.min(60));
        sets.prop_map(move |set| (len, set))
    })
}

proptest! {
    #[test]
    fn exactly_the_poison_is_found_within_the_bound((len, poison) in batches()) {
        assert_exact(len, &poison);
    }

    #[test]
    fn an_interrupted_search_leaves_an_exact_partition(
        (len, poison) in batches(),
        outage in 1..40_usize,
    ) {
        let mut sink = Sink { poison: poison.clone(), outage: Some(outage), ..Sink::default() };
        let (report, finished) = match search(len, &mut sink) {
            Ok(report) => (report, true),
            Err(stopped) => (stopped.report, false),
        };
        prop_assert_eq!(finished, sink.tries < outage);
        prop_assert_eq!(report.undecided().is_empty(), finished);
        prop_assert_eq!(flat(report.stored()), sink.stored);
        prop_assert!(report.poison().all(|(record, _)| poison.contains(&record)));
        let mut all = [flat(report.stored()), flat(report.undecided())].concat();
        all.extend(report.poison().map(|(record, _)| record));
        all.sort_unstable();
        prop_assert_eq!(all, (0..len).collect::<Vec<_>>());
        prop_assert_eq!(report.tries(), sink.tries);
    }

    #[test]
    fn records_that_fail_only_in_company_are_all_stored_once(
        (len, poison) in batches(),
        quarrels in vec((0..400_usize, 0..400_usize), 0..6),
    ) {
        let mut sink = Sink { poison: poison.clone(), quarrels, ..Sink::default() };
        let report = search(len, &mut sink).unwrap();
        let good: Vec<_> = (0..len).filter(|record| !poison.contains(record)).collect();
        prop_assert_eq!(&sink.stored, &good);
        prop_assert_eq!(flat(report.stored()), good);
        prop_assert!(report.poison().map(|(record, _)| record).eq(poison));
        prop_assert!(sink.tries < 2 * len);
    }

    /// A unique key: which of two is refused depends on which was stored before.
    #[test]
    fn duplicates_are_found_as_the_obvious_loop_finds_them(keys in vec(any::<u8>(), 1..200)) {
        let mut seen = HashSet::new();
        let expected: Vec<_> = (0..keys.len()).filter(|index| !seen.insert(keys[*index])).collect();

        let mut table = HashSet::new();
        let mut search = Search::over(keys.len());
        while let Some(range) = search.next_slice() {
            let mut next = table.clone();
            let unique = keys[range].iter().all(|key| next.insert(*key));
            let refused = Attempt::Failed(Failure::permanent("Unique", "duplicate key"));
            search.settle(if unique { table = next; Attempt::Stored } else { refused }).unwrap();
        }
        prop_assert!(search.into_report().poison().map(|(index, _)| index).eq(expected));
    }
}
