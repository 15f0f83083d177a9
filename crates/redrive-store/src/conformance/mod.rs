//! The tests that every store of work passes, whatever it is made of.
//!
//! A backend implements [`Subject`] and calls [`run`]; with dead letters it also implements
//! [`DeadLetterSubject`] and calls [`letters`](letters()). The suite drives every (state, step) pair of
//! the machine through the store and compares with the table in `redrive_core::state`, then checks
//! what the table cannot say: batches, fences, take-over, delays. It waits for nothing: time passes
//! by leases and delays of zero.

mod letters;
mod pairs;
mod promises;
mod subjects;

use async_trait::async_trait;
use redrive_core::event::WorkId;
use redrive_core::state::Machine;

use crate::work::WorkStore;

pub use letters::{Dead, DeadLetterSubject, letters};
pub use pairs::{Subjected, every_pair};
pub use subjects::{FailedEventsSubject, JobsSubject, LettersSubject, MemorySubject, OutboxSubject};

/// A store under test. It should be empty, and nobody else should use it meanwhile.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Its states. New work is in the first one.
    type State: Machine + Send + Sync;

    /// The store.
    fn store(&self) -> &dyn WorkStore;

    /// Adds this much work, and returns its numbers in order.
    async fn add(&self, count: usize) -> Vec<WorkId>;

    /// Where a piece of work is.
    async fn state(&self, id: WorkId) -> Option<Self::State>;

    /// Puts work where no step leads, as another program would with plain SQL.
    async fn place(&self, id: WorkId, state: Self::State);

    /// Redrives the dead letter of this work, and says whether that was done.
    async fn redrive(&self, id: WorkId) -> bool;

    /// Resolves the dead letter of this work, and says whether that was done.
    async fn resolve(&self, id: WorkId) -> bool;
}

/// Runs the whole suite. Panics at the first promise that is broken.
pub async fn run<S: Subject>(subject: &S) {
    every_pair(subject).await;
    promises::all(subject).await;
}
