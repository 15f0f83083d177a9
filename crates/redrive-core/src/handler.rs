//! The one trait that users implement.

use async_trait::async_trait;

use crate::event::Event;
use crate::failure::Failure;

/// Delivers events to where they belong.
///
/// At-least-once: after a crash or a lost lease an event comes again. Make the effect idempotent,
/// with [`Event::origin`] as its key.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles a batch and answers with one outcome per event, in the same order.
    ///
    /// A panic counts as an unclassified failure of the events that it was given.
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>>;

    /// The most events that it wants in one call.
    fn max_batch(&self) -> usize {
        1
    }
}
