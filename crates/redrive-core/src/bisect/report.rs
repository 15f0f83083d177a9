//! What a search found out, and the tree of how it got there.

use std::fmt;
use std::ops::Range;

use crate::failure::Failure;

/// What became of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Tried and stored.
    Stored,
    /// Tried and failed: poison if it is a single record, otherwise split.
    Failed(Failure),
    /// Split without a try, because its left neighbour was not the reason for the failure of both.
    Implied,
    /// Tried, but the answer says nothing about it: it may be stored, or not.
    Interrupted,
    /// Not reached before the search was interrupted.
    Untried,
}

/// One slice of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Which records it holds, by index into the batch.
    pub range: Range<usize>,
    /// How often the batch was halved to get here.
    pub depth: usize,
    /// What became of it.
    pub outcome: Outcome,
}

/// What the search found out.
///
/// It is the tree of all slices, parents before children and left before right; everything else is
/// read off it. Shown with `{}`, it draws that tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub(super) tree: Vec<Node>,
}

impl Report {
    /// Every slice of the search, parents before children and left before right.
    #[must_use]
    pub fn tree(&self) -> &[Node] {
        &self.tree
    }

    /// How many slices were tried.
    #[must_use]
    pub fn tries(&self) -> usize {
        self.tree.iter().filter(|node| node.was_tried()).count()
    }

    /// The records that are stored, as ascending ranges that do not touch.
    #[must_use]
    pub fn stored(&self) -> Vec<Range<usize>> {
        self.ranges(|outcome| matches!(outcome, Outcome::Stored))
    }

    /// The records about which nothing is known: stored or not, poison or not. None in a finished search.
    #[must_use]
    pub fn undecided(&self) -> Vec<Range<usize>> {
        self.ranges(|outcome| matches!(outcome, Outcome::Interrupted | Outcome::Untried))
    }

    /// The records that failed alone, with their failures, ascending.
    pub fn poison(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.tree.iter().filter(|node| node.range.len() == 1).filter_map(|node| match &node.outcome {
            Outcome::Failed(failure) => Some((node.range.start, failure)),
            _ => None,
        })
    }

    /// The same as [`poison`](Self::poison), handed over.
    #[must_use]
    pub fn into_poison(self) -> Vec<(usize, Failure)> {
        let failure = |node: Node| match node.outcome {
            Outcome::Failed(failure) => Some((node.range.start, failure)),
            _ => None,
        };
        self.tree.into_iter().filter(|node| node.range.len() == 1).filter_map(failure).collect()
    }

    fn ranges(&self, which: impl Fn(&Outcome) -> bool) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for Node { range, .. } in self.tree.iter().filter(|node| which(&node.outcome)) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range.clone()),
            }
        }
        ranges
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.iter().try_for_each(|node| writeln!(f, "{:indent$}{node}", "", indent = 2 * node.depth))
    }
}

impl Node {
    fn was_tried(&self) -> bool {
        !matches!(self.outcome, Outcome::Implied | Outcome::Untried)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} ", self.range.start, self.range.end)?;
        match &self.outcome {
            Outcome::Stored => f.write_str("stored"),
            Outcome::Failed(failure) if self.range.len() == 1 => write!(f, "poison: {failure}"),
            Outcome::Failed(failure) => write!(f, "failed: {failure}"),
            Outcome::Implied => f.write_str("split without a try"),
            Outcome::Interrupted => f.write_str("interrupted"),
            Outcome::Untried => f.write_str("not tried"),
        }
    }
}
