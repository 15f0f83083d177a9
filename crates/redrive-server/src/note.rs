//! Why somebody does something, for whoever looks later.

use redrive_core::event::storable;

use crate::Problem;

/// The longest note, in characters.
const LONGEST: usize = 2_000;

/// Refuses a note that not every store can keep.
pub(crate) fn check(note: &str) -> Result<(), Problem> {
    storable("note", note, LONGEST).map_err(|refused| Problem::field("note", refused.why))
}
