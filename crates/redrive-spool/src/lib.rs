//! The disk of redrive.
//!
//! | module | promises |
//! |---|---|
//! | [`journal`] | what it has answered for survives the process and the power; in order; once acknowledged it goes |
//! | [`filesystem`] | the seam to the disk |
//! | [`model`] | a disk that loses whatever was not synced, for tests of crashes |

mod error;

pub mod filesystem;
pub mod journal;
pub mod model;

pub use error::Error;
pub use journal::{Journal, JournalOptions};
