//! What writer and readers of a journal share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::acknowledged::Acknowledged;
use super::segment::Segment;
use super::{JournalOptions, Stats};
use crate::filesystem::Filesystem;

/// What writer and readers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) filesystem: Arc<dyn Filesystem>,
    pub(super) dir: PathBuf,
    pub(super) options: JournalOptions,
    pub(super) state: Mutex<State>,
    /// The number of the last durable record.
    pub(super) durable: watch::Sender<u64>,
}

/// What is known of the folder.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Oldest first. While a writer has one open, it is the last.
    pub(super) segments: VecDeque<Segment>,
    pub(super) acknowledged: Acknowledged,
    /// The next number to give.
    pub(super) next: u64,
    /// Whether something was acknowledged that no frame says yet.
    pub(super) untold: bool,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How much of the disk is used.
    pub(super) fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            records: self.acknowledged.missing(self.next - 1),
            bytes: self.size(),
            segments: self.segments.len(),
        }
    }

    /// The oldest segment, if nothing in it is needed any more and a later one keeps the numbers.
    pub(super) fn spent(&self) -> Option<&Segment> {
        let oldest = self.segments.front()?;
        (self.segments.len() > 1 && oldest.last <= self.acknowledged.up_to()).then_some(oldest)
    }

    pub(super) fn acknowledge(&mut self, first: u64, last: u64) -> bool {
        let new = self.acknowledged.add(first, last.min(self.next - 1));
        self.untold |= new;
        new
    }
}
