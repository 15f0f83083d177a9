//! Whose turn it is: the oldest file that is not passed over.
//!
//! # Whose fault is it?
//! A file that the store does not take now may be the first sign of an outage, or the only file that it does
//! not take (a name too long for it, a key it has no right to). One failure cannot tell. So the file is
//! doubted, and another one is tried next. If that fails, too, it is the store. If the store takes anything
//! at all, then whatever was doubted is suspect: it has its turn again, and when it fails once more, it is
//! the file, which is put off so that it delays nobody.
//!
//! Each step costs the same, however many files are passed over.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::index::{Index, Key};

/// How long a file is passed over that will not go by itself.
const PUT_OFF: Duration = Duration::from_secs(300);

/// Whose fault it seems to be that the store did not take a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    /// Nobody can tell yet: another file is tried next.
    Unclear,
    /// The file's: it is put off, and the others go on.
    File,
    /// The store's: several in a row failed.
    Store,
}

/// Who is passed over, and until when.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Up to here files had their turn, but for those in `back`.
    had_turn: Option<Key>,
    /// Files before that place which have their turn again.
    back: BTreeSet<Key>,
    /// Files that are passed over, with the time of those that come back by themselves.
    passed_over: HashMap<Key, Option<Timestamp>>,
    by_time: BTreeSet<(Timestamp, Key)>,
    /// Passed over since the store last took anything.
    doubted: BTreeSet<Key>,
    failures_in_a_row: u32,
    /// They failed, and others did not: their next failure says nothing about the store.
    suspects: HashSet<Key>,
    /// They had their chance since the store was last away: it answered, and did not take them.
    refused: BTreeSet<Key>,
}

impl Turns {
    /// The oldest file that is not passed over. When all the others are, those that are only doubted have
    /// their turn again.
    pub(super) fn next(&mut self, index: &Index, now: Timestamp) -> Option<Key> {
        self.bring_back(now);
        self.find(index).or_else(|| {
            let doubted = std::mem::take(&mut self.doubted);
            doubted.into_iter().for_each(|key| self.release(key));
            self.find(index)
        })
    }

    /// A file was found: it may be older than those that had their turn.
    pub(super) fn add(&mut self, key: Key) {
        if self.had_turn.is_some_and(|last| key <= last) && !self.passed_over.contains_key(&key) {
            self.back.insert(key);
        }
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, key: Key) {
        self.release(key);
        self.back.remove(&key);
        self.suspects.remove(&key);
        self.doubted.remove(&key);
        self.refused.remove(&key);
    }

    /// Passes a file over for a while that the store, or the disk, does not let go by itself.
    pub(super) fn refuse(&mut self, key: Key, now: Timestamp) {
        self.put_off(key, now);
        self.refused.insert(key);
    }

    /// The oldest of the files that had their chance since the store was last away.
    pub(super) fn oldest_refused(&self) -> Option<Key> {
        self.refused.first().copied()
    }

    /// How many files had their chance since the store was last away.
    pub(super) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// The store was away and is back: whatever it did not take before has its chance again.
    pub(super) fn store_came_back(&mut self) {
        self.refused.clear();
    }

    /// Passes a file over for a while.
    pub(super) fn put_off(&mut self, key: Key, now: Timestamp) {
        self.put_off_until(key, now + PUT_OFF);
    }

    pub(super) fn put_off_until(&mut self, key: Key, until: Timestamp) {
        self.pass_over(key, Some(until));
    }

    /// The store did not take a file now.
    pub(super) fn failed(&mut self, key: Key, now: Timestamp) -> Culprit {
        if self.suspects.contains(&key) {
            self.refuse(key, now);
            return Culprit::File;
        }
        self.pass_over(key, None);
        self.doubted.insert(key);
        self.failures_in_a_row += 1;
        if self.failures_in_a_row > 1 { Culprit::Store } else { Culprit::Unclear }
    }

    /// The store took something.
    pub(super) fn store_took(&mut self) {
        if self.failures_in_a_row > 1 {
            self.store_came_back();
        }
        self.failures_in_a_row = 0;
        for key in std::mem::take(&mut self.doubted) {
            self.suspects.insert(key);
            self.release(key);
        }
    }

    fn find(&mut self, index: &Index) -> Option<Key> {
        if let Some(key) = self.back.first() {
            return Some(*key);
        }
        let passed_over = &self.passed_over;
        for (key, _) in index.after(self.had_turn) {
            if !passed_over.contains_key(&key) {
                return Some(key);
            }
            self.had_turn = Some(key);
        }
        None
    }

    fn pass_over(&mut self, key: Key, until: Option<Timestamp>) {
        self.release(key);
        self.back.remove(&key);
        self.by_time.extend(until.map(|until| (until, key)));
        self.passed_over.insert(key, until);
    }

    fn release(&mut self, key: Key) {
        let Some(until) = self.passed_over.remove(&key) else { return };
        if let Some(until) = until {
            self.by_time.remove(&(until, key));
        }
        self.add(key);
    }

    fn bring_back(&mut self, now: Timestamp) {
        while let Some((until, key)) = self.by_time.first().copied()
            && until <= now
        {
            self.release(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// Files of which each is a second younger than the one before.
    fn files(count: u32) -> (Index, Vec<Key>) {
        let mut index = Index::default();
        let name = |unix| format!("{unix}_a_000001.jsonl.gz");
        let keys = (1..=count).map(|unix| index.add(&name(unix), 0)).collect();
        (index, keys)
    }

    /// With a list that was searched once per file this took hours.
    #[test]
    fn each_of_many_files_that_are_put_off_has_its_turn_at_the_same_price() {
        let (index, keys) = files(50_000);
        let mut turns = Turns::default();
        for later in [NOW, NOW + PUT_OFF] {
            for key in &keys {
                assert_eq!(turns.next(&index, later), Some(*key));
                turns.put_off(*key, later);
            }
            assert_eq!(turns.next(&index, later), None);
        }
    }

    #[test]
    fn an_older_file_that_is_found_later_comes_first() {
        let (mut index, keys) = files(3);
        let mut turns = Turns::default();
        turns.put_off(keys[0], NOW);
        turns.put_off(keys[1], NOW);
        assert_eq!(turns.next(&index, NOW), Some(keys[2]));
        let older = index.add("1_b_000001.jsonl.gz", 0);
        turns.add(older);
        assert_eq!(turns.next(&index, NOW), Some(older));
        turns.put_off(older, NOW);
        assert_eq!(turns.next(&index, NOW), Some(keys[2]));
        assert_eq!(turns.next(&index, NOW + PUT_OFF), Some(keys[0]), "its time is over");
        index.remove(keys[0]);
        turns.forget(keys[0]);
        assert_eq!(turns.next(&index, NOW + PUT_OFF), Some(older));
    }

    #[test]
    fn what_fails_alone_is_to_blame_and_what_fails_with_others_is_not() {
        let (index, keys) = files(3);
        let mut turns = Turns::default();
        assert_eq!(turns.failed(keys[0], NOW), Culprit::Unclear);
        assert_eq!(turns.next(&index, NOW), Some(keys[1]), "another one is tried");
        turns.store_took();
        assert_eq!(turns.next(&index, NOW), Some(keys[0]), "it has its turn again");
        assert_eq!(turns.failed(keys[0], NOW), Culprit::File);
        assert_eq!(turns.next(&index, NOW), Some(keys[1]));
        assert_eq!(
            turns.failed(keys[1], NOW),
            Culprit::Unclear,
            "the file before says nothing about the store"
        );
        assert_eq!(turns.failed(keys[2], NOW), Culprit::Store);
        assert_eq!(turns.next(&index, NOW), Some(keys[1]), "all others were tried");
        turns.store_took();
        assert_eq!(turns.next(&index, NOW), Some(keys[1]), "after the outage the oldest comes first");
        assert_eq!(turns.next(&index, NOW + PUT_OFF), Some(keys[0]));
    }

    #[test]
    fn one_file_that_fails_twice_with_nobody_beside_it_counts_as_an_outage() {
        let (index, keys) = files(1);
        let mut turns = Turns::default();
        assert_eq!(turns.failed(keys[0], NOW), Culprit::Unclear);
        assert_eq!(turns.next(&index, NOW), Some(keys[0]));
        assert_eq!(turns.failed(keys[0], NOW), Culprit::Store);
    }
}
