//! What comes out of reading a section, beside its values.

use std::ops::Range;

use super::document::Origin;

/// What came out of reading, beside the values.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) mistakes: Vec<Finding>,
    pub(crate) declarations: Vec<Declaration>,
    /// Places in the file that must not be shown.
    pub(crate) sensitive: Vec<Range<usize>>,
}

/// A mistake at a place.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) origin: Origin,
    pub(crate) message: String,
    pub(crate) cause: Cause,
}

/// Whether something is wrong or not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Wrong,
    Missing,
}

/// A setting as the reference shows it.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) default: Default,
    pub(crate) doc: &'static str,
}

/// What holds when a setting is not written.
#[derive(Debug)]
pub(crate) enum Default {
    /// This value.
    Value(&'static str),
    /// What this sentence says.
    Described(&'static str),
    /// Nothing: it must be written.
    Required,
    /// Nothing: it may be left out.
    Absent,
}
