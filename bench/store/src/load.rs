//! How the work is done: by how many workers, in batches of how many, and what becomes of it.

use bench_harness::{RawPace, Settle};
use redrive_store::Processed;

/// One setting of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) workers: usize,
    pub(crate) batch: u32,
    pub(crate) processed: Processed,
}

impl Load {
    /// The batches that are compared, with delivered events kept and deleted.
    pub(crate) fn all(workers: usize, only: Option<u32>) -> impl Iterator<Item = Self> {
        let batches = [50, 500].into_iter().filter(move |batch| only.is_none_or(|only| only == *batch));
        batches.flat_map(move |batch| {
            [Processed::Keep, Processed::Delete].map(|processed| Self { workers, batch, processed })
        })
    }

    /// The same for the raw loop.
    pub(crate) fn raw(&self) -> RawPace {
        let settle = match self.processed {
            Processed::Keep | Processed::KeepForAWhile => Settle::Update,
            Processed::Delete => Settle::Delete,
        };
        RawPace { workers: self.workers, batch: self.batch, settle }
    }

    /// `batch 500, update`.
    pub(crate) fn name(&self) -> String {
        let settle = match self.processed {
            Processed::Keep | Processed::KeepForAWhile => "update",
            Processed::Delete => "delete",
        };
        format!("batch {}, {settle}", self.batch)
    }
}
