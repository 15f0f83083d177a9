//! The job queues that we are measured against, each as a contestant.
//!
//! All of them on the same Postgres, in schemas of their own, with the settings that their authors
//! recommend or measure with. A round is timed from the start of the worker until its handler has
//! seen every job; the check afterwards waits until the queue says that nothing is left.

mod apalis;
mod awa;
mod counter;
mod graphile;
mod jobs;

pub use apalis::Apalis;
pub use awa::Awa;
pub use counter::Counter;
pub use graphile::Graphile;
