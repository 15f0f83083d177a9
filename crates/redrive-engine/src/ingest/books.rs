//! The books of an ingest pipeline, since the process started: what it accepted is somewhere.
//!
//! Files that an earlier process left on disk are taken into the books when something becomes of them. A batch that
//! is replayed from the journal is in the books from then on, though it has the name that an earlier process gave
//! it: a file of that name is that batch, and not another one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::books::Balance;

/// Counts events.
#[derive(Debug, Default)]
pub(super) struct Books {
    accepted: AtomicU64,
    delivered: AtomicU64,
    /// On disk, of those that were accepted.
    spooled: AtomicU64,
    resolved: AtomicU64,
    expired: AtomicU64,
    dropped: AtomicU64,
    /// What the name of a file has in it that this process has cut.
    ours: String,
    /// The batches that came from the journal, by name.
    replayed: Mutex<HashMap<String, Replayed>>,
}

/// Where a batch from the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replayed {
    /// In memory, or on its way there.
    Held,
    /// In the store.
    Delivered,
    /// In a file.
    Spooled,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Delivered,
    Resolved,
    Expired,
}

impl Books {
    /// Of a process whose files have this in their names.
    pub(super) fn new(instance: &str) -> Self {
        Self { ours: format!("_{instance}_"), ..Self::default() }
    }

    pub(super) fn accepted(&self, events: u64) {
        self.accepted.fetch_add(events, Ordering::Relaxed);
    }

    /// The journal has a batch of this name, which comes again.
    pub(super) fn replays(&self, name: &str) {
        self.replayed().insert(name.to_owned(), Replayed::Held);
    }

    /// Its events come again, but under another name.
    pub(super) fn replays_no_more(&self, name: &str) {
        self.replayed().remove(name);
    }

    pub(super) fn delivered(&self, events: u64, name: &str) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
        self.note(name, Replayed::Delivered);
    }

    pub(super) fn dropped(&self, events: u64) {
        self.dropped.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn spooled(&self, events: u64, name: &str) {
        self.spooled.fetch_add(events, Ordering::Relaxed);
        self.note(name, Replayed::Spooled);
    }

    /// All files are gone: so many events of those that were accepted.
    pub(super) fn folder_gone(&self) -> u64 {
        let events = self.spooled.swap(0, Ordering::Relaxed);
        self.dropped.fetch_add(events, Ordering::Relaxed);
        events
    }

    /// A file left the disk. Whether its events are counted by that: a file that was left from before the crash
    /// may hold a batch that is counted otherwise.
    pub(super) fn left_disk(&self, fate: Fate, events: u64, name: &str) -> bool {
        let replayed = self.replayed().get(name).copied();
        if matches!(replayed, Some(Replayed::Held | Replayed::Delivered)) {
            return false;
        }
        if replayed.is_some() || name.contains(&self.ours) {
            self.spooled.fetch_sub(events, Ordering::Relaxed);
        } else {
            self.accepted.fetch_add(events, Ordering::Relaxed);
        }
        self.replayed().remove(name);
        let place = match fate {
            Fate::Delivered => &self.delivered,
            Fate::Resolved => &self.resolved,
            Fate::Expired => &self.expired,
        };
        place.fetch_add(events, Ordering::Relaxed);
        true
    }

    fn note(&self, name: &str, now: Replayed) {
        if let Some(replayed) = self.replayed().get_mut(name) {
            *replayed = now;
        }
    }

    fn replayed(&self) -> MutexGuard<'_, HashMap<String, Replayed>> {
        self.replayed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With so many events in memory.
    pub(super) fn balance(&self, in_flight: u64) -> Balance {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Balance {
            accepted: of(&self.accepted),
            in_flight,
            delivered: of(&self.delivered),
            open: of(&self.spooled),
            parked: 0,
            resolved: of(&self.resolved),
            expired: of(&self.expired),
            dropped: of(&self.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1700000001_i-before_000001.jsonl.gz";

    /// After a crash in an outage: accepted 200, delivered 100, open 100, with an empty spool.
    #[test]
    fn a_replayed_batch_that_went_to_disk_is_counted_once() {
        let books = Books::new("i-now");
        books.replays(OLD);
        books.accepted(100);
        books.spooled(100, OLD);
        assert_eq!(books.balance(0), Balance { accepted: 100, open: 100, ..Balance::default() });
        assert!(books.left_disk(Fate::Delivered, 100, OLD));
        assert_eq!(books.balance(0), Balance { accepted: 100, delivered: 100, ..Balance::default() });
    }

    /// The crash was after the batch had been saved, and before the journal knew.
    #[test]
    fn a_replayed_batch_whose_file_is_still_there_is_counted_once() {
        for file_first in [false, true] {
            let books = Books::new("i-now");
            books.replays(OLD);
            books.accepted(100);
            if file_first {
                assert!(!books.left_disk(Fate::Delivered, 100, OLD));
            }
            books.delivered(100, OLD);
            if !file_first {
                assert!(!books.left_disk(Fate::Delivered, 100, OLD));
            }
            assert_eq!(books.balance(0), Balance { accepted: 100, delivered: 100, ..Balance::default() });
        }
    }

    #[test]
    fn files_of_others_come_into_the_books_when_something_becomes_of_them() {
        let books = Books::new("i-now");
        assert!(books.left_disk(Fate::Expired, 7, OLD));
        assert_eq!(books.balance(0), Balance { accepted: 7, expired: 7, ..Balance::default() });
    }
}
