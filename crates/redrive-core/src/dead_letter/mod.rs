//! A dead letter, the same for every pipeline, and the one trait that console, API and CLI know.

mod count;
mod filter;
mod letter;
mod order;
mod page;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::books::Balance;

pub use count::{Arrivals, Group, Stats};
pub use filter::Filter;
pub use letter::{
    Letter, LetterId, NotALetterId, Origin, PipelineKind, Redelivery, RedeliveryState, Resolution, Status,
    Summary, number,
};
pub use order::{Acted, Operator, Order, Outcome, Refusal};
pub use page::{Cursor, Ids, Listing, MAX_PAGE, NotACursor, Page};

/// A queue of letters could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("the dead letters of {pipeline} cannot be reached: {source}")]
pub struct Unavailable {
    /// The pipeline.
    pub pipeline: String,
    /// What its store said.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The dead letters of one pipeline.
#[async_trait]
pub trait DeadLetterQueue: Send + Sync {
    /// The pipeline's name: the first part of its letters' ids.
    fn pipeline(&self) -> &str;

    /// The pipeline's kind.
    fn kind(&self) -> PipelineKind;

    /// How many orders are best carried out side by side. One, where letters must go back in their order.
    fn lanes(&self) -> usize {
        1
    }

    /// How many letters there are.
    async fn stats(&self) -> Result<Stats, Unavailable>;

    /// The groups of letters that wait for a person, the largest first.
    async fn groups(&self, limit: u32) -> Result<Vec<Group>, Unavailable>;

    /// How many letters of each group died in each hour from this on.
    async fn arrivals(&self, since: Timestamp) -> Result<Vec<Arrivals>, Unavailable>;

    /// The letters that the filter means, newest first.
    async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Unavailable>;

    /// One letter, whole, by its local id; a redriven one too, as long as its store knows it.
    async fn get(&self, id: &str) -> Result<Option<Letter>, Unavailable>;

    /// How many letters the filter means.
    async fn count(&self, filter: &Filter) -> Result<u64, Unavailable>;

    /// The ids of the letters that the filter means, the longest dead first.
    async fn ids(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Ids, Unavailable>;

    /// Sends letters back to work, each at most once however often the order is given.
    async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Unavailable>;

    /// Sends a letter back with another payload. What it was stays on record with whoever asks for this.
    async fn redrive_edited(&self, id: &str, payload: &[u8], order: &Order) -> Result<Acted, Unavailable>;

    /// What has become of letters that were sent back, in the order of the ids.
    async fn outcomes(&self, ids: &[String]) -> Result<Vec<Outcome>, Unavailable>;

    /// Closes letters.
    async fn resolve(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Unavailable>;

    /// Where everything is that the pipeline ever accepted. Looks at every row: not for each page.
    async fn balance(&self) -> Result<Balance, Unavailable>;

    /// Deletes letters that were closed before this, and says how many.
    async fn purge(&self, closed_before: Timestamp) -> Result<u64, Unavailable>;
}
