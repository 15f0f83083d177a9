//! Random histories of a journal on a disk that loses its power, is full, fails or is killed at any
//! operation. After every restart: what was answered for and not acknowledged is delivered, in order,
//! content-equal; and nothing else than what somebody appended.

#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use redrive_spool::journal::{Damaged, Position, Span};
use redrive_spool::model::{Fault, ModelDisk};
use redrive_spool::{Journal, JournalOptions};

const DIR: &str = "/journal";
const OPTIONS: JournalOptions = JournalOptions { segment_size: 600, max_size: 6_000, max_record: 500 };

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<usize>),
    /// The n-th of what waits.
    Acknowledge(usize),
    AcknowledgeUpTo(usize),
    /// What waits is read, and the first so many of it are acknowledged.
    Drain(usize),
    Fault(Fault),
    /// The process ends as it should.
    Restart,
    /// The process is killed; what it wrote is there.
    Kill,
    /// The power fails; what was not synced may not be there.
    PowerLoss(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(ErrorKind::Other), Just(ErrorKind::StorageFull)];
    let fault = prop_oneof![
        (1_u64..12).prop_map(Fault::KilledAt),
        (1_u64..12, kind).prop_map(|(at, kind)| Fault::FailsAt(at, kind)),
        (1_u64..12).prop_map(Fault::FullAt),
    ];
    prop_oneof![
        8 => prop::collection::vec(0_usize..200, 1..6).prop_map(Step::Append),
        3 => (0_usize..20).prop_map(Step::Acknowledge),
        1 => (0_usize..20).prop_map(Step::AcknowledgeUpTo),
        1 => (0_usize..20).prop_map(Step::Drain),
        2 => fault.prop_map(Step::Fault),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::PowerLoss),
    ]
}

/// What the journal owes.
#[derive(Default)]
struct Debts {
    /// Appended and answered for, not acknowledged.
    owed: BTreeMap<Position, Bytes>,
    /// Everything that anybody ever tried to append. Each is unlike every other.
    tried: Vec<Bytes>,
}

struct History {
    disk: ModelDisk,
    journal: Option<Journal>,
    debts: Debts,
    counter: u64,
}

impl History {
    fn new() -> Self {
        let mut history =
            Self { disk: ModelDisk::default(), journal: None, debts: Debts::default(), counter: 0 };
        history.open();
        history
    }

    fn journal(&self) -> &Journal {
        self.journal.as_ref().unwrap()
    }

    fn open(&mut self) {
        self.journal = None;
        self.disk.arm(None);
        let opened = Journal::open_on(Arc::new(self.disk.clone()), Path::new(DIR), OPTIONS);
        let journal = opened.unwrap();
        let found = &journal.recovery().damaged;
        assert!(!found.iter().any(Damaged::is_damage), "nothing was damaged: {found:?}");
        self.journal = Some(journal);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Append(sizes) => self.append(&sizes),
            Step::Acknowledge(nth) => self.acknowledge(nth),
            Step::AcknowledgeUpTo(nth) => self.acknowledge_up_to(nth),
            Step::Drain(most) => self.drain(most),
            Step::Fault(fault) => self.disk.arm(Some(fault)),
            Step::Restart => self.restart(),
            Step::Kill => self.kill(),
            Step::PowerLoss(seed) => self.lose_power(seed),
        }
    }

    fn append(&mut self, sizes: &[usize]) {
        let records: Vec<Bytes> = sizes.iter().map(|size| self.record(*size)).collect();
        self.debts.tried.extend(records.iter().cloned());
        if let Ok(span) = self.journal().append_blocking(records.clone()) {
            assert_eq!(span.last.0 - span.first.0 + 1, records.len() as u64);
            self.debts.owed.extend((span.first.0..).map(Position).zip(records));
        }
    }

    fn record(&mut self, size: usize) -> Bytes {
        self.counter += 1;
        let mut record = self.counter.to_le_bytes().to_vec();
        record.resize(8 + size, 0xA5);
        record.into()
    }

    fn acknowledge(&mut self, nth: usize) {
        let position = self.debts.owed.keys().nth(nth).copied();
        if let Some(position) = position {
            self.journal().acknowledge(Span::from(position));
            self.debts.owed.remove(&position);
        }
    }

    fn acknowledge_up_to(&mut self, nth: usize) {
        let position = self.debts.owed.keys().nth(nth).copied();
        if let Some(position) = position {
            self.journal().acknowledge(Span { first: Position(1), last: position });
            self.debts.owed.retain(|other, _| *other > position);
        }
    }

    fn drain(&mut self, most: usize) {
        let Ok(records) = self.journal().reader().read(most, 700) else { return };
        for record in records {
            self.journal().acknowledge(record.position.into());
            self.debts.owed.remove(&record.position);
        }
    }

    fn restart(&mut self) {
        self.disk.arm(None);
        self.journal = None;
        self.open();
        let delivered = self.delivered();
        self.check(&delivered);
    }

    fn kill(&mut self) {
        self.disk.arm(Some(Fault::KilledAt(1)));
        self.journal = None;
        self.disk.restart();
        self.reopen();
    }

    fn lose_power(&mut self, seed: u64) {
        self.disk.arm(Some(Fault::KilledAt(1)));
        self.journal = None;
        self.disk.lose_power(seed);
        self.reopen();
    }

    /// After a crash, what is delivered beyond what is owed must be something that was appended. It is owed
    /// from now on: it has been seen.
    fn reopen(&mut self) {
        self.open();
        let delivered = self.delivered();
        self.check(&delivered);
        self.debts.owed = delivered;
    }

    fn delivered(&self) -> BTreeMap<Position, Bytes> {
        let records = self.journal().reader().read(usize::MAX, usize::MAX).unwrap();
        let positions: Vec<_> = records.iter().map(|record| record.position).collect();
        assert!(positions.is_sorted_by(|left, right| left < right), "in order: {positions:?}");
        assert_eq!(self.journal().stats().records, records.len() as u64);
        records.into_iter().map(|record| (record.position, record.payload)).collect()
    }

    fn check(&self, delivered: &BTreeMap<Position, Bytes>) {
        for (position, record) in &self.debts.owed {
            assert_eq!(delivered.get(position), Some(record), "what was answered for is delivered");
        }
        for record in delivered.values() {
            assert!(self.debts.tried.contains(record), "nothing is made up");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_was_answered_for_is_lost(steps in prop::collection::vec(step(), 1..40), seed: u64) {
        let mut history = History::new();
        for step in steps {
            history.run(step);
        }
        history.lose_power(seed);
        history.restart();
    }
}

#[test]
fn after_a_proper_end_nothing_is_delivered_twice() {
    let mut history = History::new();
    history.append(&[10; 30]);
    for nth in [20, 3, 3, 0, 0, 0] {
        history.acknowledge(nth);
    }
    let owed = history.debts.owed.clone();
    history.restart();
    assert_eq!(history.delivered(), owed);
}
