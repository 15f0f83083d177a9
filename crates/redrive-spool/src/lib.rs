//! The disk of redrive.
//!
//! | module | promises |
//! |---|---|
//! | [`journal`] | what it has answered for survives the process and the power; in order; once acknowledged it goes |
//! | [`spool`] | batches that could not be uploaded wait here, oldest first, and are looked at from end to end |
//! | [`target`] | the object store they go to |
//! | [`filesystem`] | the seam to the disk |
//! | [`model`] | a disk that loses whatever was not synced, for tests of crashes |

mod error;

pub mod filesystem;
pub mod journal;
pub mod model;
pub mod spool;
pub mod target;

pub use error::Error;
pub use journal::{Journal, JournalOptions};
pub use spool::{Batch, Spool, SpoolOptions};
pub use target::Target;
