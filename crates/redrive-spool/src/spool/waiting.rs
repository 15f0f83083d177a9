//! The files that wait, as people look at them: listed, counted, found by name.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Spool;
use super::index::{Index, Key};
use super::name::{second, time};

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub file: String,
    /// Since when.
    pub since: Timestamp,
    /// Its size and that of its meta file, once they were measured.
    pub bytes: Option<u64>,
}

impl Spool {
    /// The files after the one of this name, oldest first.
    #[must_use]
    pub fn list(&self, after: Option<&str>, most: usize) -> Vec<Waiting> {
        let state = self.state();
        let after = after.and_then(|name| state.index.key(name));
        state.index.after(after).take(most).map(|file| waiting(&state.index, file)).collect()
    }

    /// The file of this name, if it waits.
    #[must_use]
    pub fn waiting(&self, name: &str) -> Option<Waiting> {
        let state = self.state();
        state.index.find(name).map(|file| waiting(&state.index, file))
    }

    /// The files of this second and before, newest first: at least so many, if there are, and all of the
    /// last second among them.
    #[must_use]
    pub fn newest(&self, until: Timestamp, least: usize) -> Vec<Waiting> {
        let state = self.state();
        some(&state.index, state.index.until(second(until)), least)
    }

    /// The files of this second and later, oldest first: at least so many, if there are, and all of the
    /// last second among them.
    #[must_use]
    pub fn oldest(&self, from: Timestamp, least: usize) -> Vec<Waiting> {
        let state = self.state();
        some(&state.index, state.index.from(second(from)), least)
    }

    /// How many files there are from this time on, and before that one.
    #[must_use]
    pub fn count(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> u64 {
        let state = self.state();
        if since.is_none() && until.is_none() {
            return state.index.len() as u64;
        }
        let is_before = |unix: u32| until.is_none_or(|until| time(unix) < until);
        let files = state.index.from(since.map_or(0, second_after));
        files.take_while(|(key, _)| is_before(key.unix)).count() as u64
    }

    /// How many files there are of each hour, from this time on: the hours are counted since 1970.
    #[must_use]
    pub fn hours(&self, since: Timestamp) -> BTreeMap<i64, u64> {
        let mut hours = BTreeMap::new();
        for (key, _) in self.state().index.from(second_after(since)) {
            *hours.entry(i64::from(key.unix) / 3600).or_default() += 1;
        }
        hours
    }
}

/// The first files of these: at least so many, and all of the last second among them.
fn some(index: &Index, files: impl Iterator<Item = (Key, Option<u64>)>, least: usize) -> Vec<Waiting> {
    let mut some: Vec<Waiting> = Vec::new();
    for file in files {
        if some.len() >= least && some.last().is_some_and(|last| last.since != time(file.0.unix)) {
            break;
        }
        some.push(waiting(index, file));
    }
    some
}

fn waiting(index: &Index, (key, bytes): (Key, Option<u64>)) -> Waiting {
    Waiting { file: index.name(key), since: time(key.unix), bytes }
}

/// The first second that is not before this time.
fn second_after(time: Timestamp) -> u32 {
    second(time).saturating_add(u32::from(time.subsec_nanosecond() > 0))
}
