//! The contract between a store of work and the worker loop.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::event::WorkId;
use redrive_core::lease::{Lease, Settlement, Work};

use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;

/// Whether work whose lease ran out may be taken from its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// Yes: the holder is dead, or as good as.
    Expired,
    /// Not now: the store was away, and the holders could not have settled in time.
    Never,
}

/// A worker's request for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who asks; shown to operators.
    pub worker: String,
    /// How much at most.
    pub limit: u32,
    /// For how long.
    pub lease: Duration,
    /// Whether expired leases are up for grabs.
    pub take_over: TakeOver,
}

/// What came of one [`WorkStore::turn`].
#[derive(Debug, Default)]
pub struct Turn {
    /// What was claimed, in the order of its numbers.
    pub claimed: Vec<(Lease, Work)>,
    /// Settlements that changed nothing, because somebody else had taken the work over.
    pub lost: Vec<WorkId>,
}

/// Where a database announces new work (Postgres: `LISTEN`).
#[derive(Debug, Clone)]
pub struct Announcements {
    /// The database that announces it.
    pub database: Database,
    /// On which channel.
    pub channel: String,
}

impl Announcements {
    /// Those on this channel, if the database can announce anything.
    pub(crate) fn of(database: &Database, channel: String) -> Option<Self> {
        let database = database.clone();
        (database.dialect() == Dialect::Postgres).then_some(Self { database, channel })
    }
}

/// A store of work: claims with a lease, settles with a fence, both in batches.
#[async_trait]
pub trait WorkStore: Send + Sync {
    /// Settles what is finished and claims new work, in one transaction.
    ///
    /// The settlements are taken out of the vector when they are durable; on an error they stay in
    /// it, and the caller tries again: the fence makes a repetition harmless. What is retried without a
    /// delay is claimed in the same turn or in the next.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached. Nobody's attempts are burnt.
    async fn turn(
        &self,
        settled: &mut Vec<(Lease, Settlement)>,
        claim: Option<&Claim>,
    ) -> Result<Turn, Error>;

    /// Extends leases to `lease` from now, and returns the work that somebody else has taken over.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn extend(&self, leases: &mut [&mut Lease], lease: Duration) -> Result<Vec<WorkId>, Error>;

    /// As [`WorkStore::extend`], without waiting for rows that somebody else has locked: returns what was not
    /// extended, be it locked or taken over.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn extend_unlocked(
        &self,
        leases: &mut [&mut Lease],
        lease: Duration,
    ) -> Result<Vec<WorkId>, Error> {
        self.extend(leases, lease).await
    }

    /// The work that is held under this lease, if it still is: for reports from elsewhere.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn recall(&self, lease: &Lease) -> Result<Option<Work>, Error>;

    /// Settles work whose lease has not run out by the store's clock, and says whether it did: for reports of
    /// workers elsewhere, which must stop at the end of their lease. [`WorkStore::turn`] also settles under a lease
    /// that has run out, as long as nobody has claimed the work since.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn settle_unexpired(&self, lease: Lease, settlement: Settlement) -> Result<bool, Error>;

    /// Extends a lease to `by` from now, unless it has run out by the store's clock, and says whether it did.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn extend_unexpired(&self, lease: &mut Lease, by: Duration) -> Result<bool, Error>;

    /// How much work waits or is being done.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store cannot be reached.
    async fn backlog(&self) -> Result<u64, Error>;

    /// Where new work is announced; nowhere means that workers find it by polling.
    fn announcements(&self) -> Option<Announcements> {
        None
    }
}
