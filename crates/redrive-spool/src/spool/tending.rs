//! Tending a spool: its folder is read for files of somebody else's, and those that were there at the start
//! are measured.
//!
//! That takes longer the more there are, so it is done in portions of `scan`, and beside the steps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use super::index::Key;
use super::name::{Entry, META};
use super::{Spool, State};

/// How long after the end of a look at the whole folder the next one begins.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How many names are added to the index before others have their turn.
const ADDED_AT_A_TIME: usize = 100;

impl Spool {
    /// Looks at the next entries of the folder, and measures the next files: at most `scan` of each.
    pub(super) fn tend(&self, now: Timestamp) {
        self.look(now);
        self.measure_some();
    }

    /// The same, while the step goes on.
    pub(super) fn tend_aside(self: &Arc<Self>, now: Timestamp) {
        if !self.state().wants_tending(now) || self.is_tended.swap(true, Ordering::AcqRel) {
            return;
        }
        let tended = Tended(Arc::clone(self));
        drop(tokio::task::spawn_blocking(move || tended.0.tend(now)));
    }

    /// Measures the next files. At the start only names are read: a look at each of a million files takes
    /// many seconds.
    pub(super) fn measure_some(&self) {
        let unmeasured = {
            let mut state = self.state();
            if state.index.unmeasured() == 0 {
                return;
            }
            let after = state.index.after(state.measured).take(self.options.scan);
            let looked_at: Vec<(Key, Option<u64>)> = after.collect();
            state.measured = looked_at.last().map(|(key, _)| *key);
            let unmeasured = looked_at.into_iter().filter(|(_, size)| size.is_none());
            unmeasured.map(|(key, _)| (key, state.index.name(key))).collect::<Vec<_>>()
        };
        for (key, name) in unmeasured {
            let size = self.size(&name) + self.size(&format!("{name}{META}"));
            self.state().index.measure(key, size);
        }
    }

    /// Looks for files that somebody else put here.
    fn look(&self, now: Timestamp) {
        let going_on = {
            let mut state = self.state();
            let begins = state.looking.is_none() && now >= state.next_look;
            if begins { self.filesystem.names(&self.dir).ok() } else { state.looking.take() }
        };
        let Some(mut names) = going_on else {
            self.make_folder_again();
            return;
        };
        let read: Vec<_> = names.by_ref().take(self.options.scan).map_while(Result::ok).collect();
        // Others want the index meanwhile.
        for some in read.chunks(ADDED_AT_A_TIME) {
            let mut state = self.state();
            for name in some {
                state.note_other(name);
                if let Some(Entry::Data(name)) = name.as_file().map(Entry::of) {
                    state.add(name, now);
                }
            }
        }
        let mut state = self.state();
        if read.len() < self.options.scan {
            state.next_look = now + LOOK_EVERY;
        } else {
            state.looking = Some(names);
        }
    }

    /// How large a file is; one that is gone takes no room.
    fn size(&self, name: &str) -> u64 {
        self.filesystem.size(&self.dir.join(name)).unwrap_or_default()
    }
}

impl State {
    fn wants_tending(&self, now: Timestamp) -> bool {
        self.looking.is_some() || now >= self.next_look || self.index.unmeasured() > 0
    }
}

/// A spool that is being tended: by one at a time.
struct Tended(Arc<Spool>);

impl Drop for Tended {
    fn drop(&mut self) {
        self.0.is_tended.store(false, Ordering::Release);
    }
}
