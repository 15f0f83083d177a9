//! Bisect: which records of a failed batch are the poison?
//!
//! A batch is tried whole. When it fails, its halves are tried, and so on down to single records: one
//! that fails alone is poison. Every record that is not poison is stored by exactly one successful try,
//! in the order of the batch.
//!
//! **Cost.** With `k` poison records among `n` at most `2·k·log2(n/k) + 2·k` tries, and one if `k = 0`.
//! To stay below that, a right half is not tried whole when its left half went through: the failure of
//! both together must then come from the right one, so that one is split at once.
//!
//! **An outage is not poison.** A retryable failure (transient, throttled, unclassified) or an error of
//! ours ends the search there and then. [`Interrupted`] says what is stored, what is proven poison and
//! what is undecided; the three never overlap and leave nothing out.
//!
//! **Records that fail only in company** (two that conflict, a batch too large for one packet) are all
//! stored, in smaller slices; that costs some tries more and loses nothing.
//!
//! What it does not do: wait, repeat a try, or judge a failure other than by its class. Someone who has
//! retried an unclassified failure to the limit and now wants it isolated hands it in as permanent; one
//! who already knows that the whole batch fails answers the first try with that failure.

mod report;

use std::ops::Range;

use crate::failure::Failure;

pub use report::{Node, Outcome, Report};

/// How the try of a slice ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// All its records are stored, durably.
    Stored,
    /// None of its records is stored.
    Failed(Failure),
}

/// A search that could not be finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the search for poison stopped after {} tries: {cause}", .report.tries())]
pub struct Interrupted<E> {
    /// What was found out until then.
    pub report: Report,
    /// Why it stopped.
    pub cause: Cause<E>,
}

/// Why a search stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause<E> {
    /// A failure that may pass, and so proves nothing against any record.
    #[error("{0}")]
    Retryable(Failure),
    /// We could not try at all.
    #[error("{0}")]
    Error(E),
}

/// Stores all good records of a batch and finds those that fail alone.
///
/// `attempt` stores a slice whole or not at all. Dropping the future in mid-search leaves every record
/// undecided. The future is `Send` when those of `attempt` are; an async closure could lend its state to
/// them, but then nobody could prove that. Where state must be lent, drive a [`Search`] by hand.
///
/// # Errors
/// [`Interrupted`] when a try fails with a retryable failure or an error of ours.
///
/// ```
/// # use std::{future::Future, pin::pin, task::{Context, Waker}};
/// use redrive_core::bisect::{Attempt, bisect};
/// use redrive_core::failure::Failure;
///
/// async fn store(numbers: &[i32]) -> Result<Attempt, std::io::Error> {
///     Ok(match numbers.iter().find(|number| **number < 0) {
///         Some(number) => Attempt::Failed(Failure::permanent("Negative", format!("{number} < 0"))),
///         None => Attempt::Stored,
///     })
/// }
/// # let future = pin!(async {
/// let report = bisect(&[1, 2, -3, 4], store).await.unwrap();
/// assert_eq!(report.stored(), [0..2, 3..4]);
/// assert_eq!(report.poison().map(|(index, _)| index).collect::<Vec<_>>(), [2]);
/// # });
/// # assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// ```
pub async fn bisect<'a, T, E, F>(
    records: &'a [T],
    mut attempt: impl FnMut(&'a [T]) -> F,
) -> Result<Report, Interrupted<E>>
where
    F: Future<Output = Result<Attempt, E>>,
{
    let mut search = Search::over(records.len());
    while let Some(range) = search.next_slice() {
        let settled = match attempt(&records[range]).await {
            Ok(attempt) => search.settle(attempt).map_err(Cause::Retryable),
            Err(error) => Err(Cause::Error(error)),
        };
        if let Err(cause) = settled {
            return Err(Interrupted { report: search.into_report(), cause });
        }
    }
    Ok(search.into_report())
}

/// The search itself, without the trying: which slice comes next, and what its answer means.
///
/// [`bisect`] drives it. Whoever tries slices on something that cannot be shared, such as an open
/// connection, drives it by hand:
///
/// ```
/// # use redrive_core::{bisect::{Attempt, Search}, failure::Failure};
/// # fn store(range: std::ops::Range<usize>) -> Attempt { Attempt::Stored }
/// let mut search = Search::over(100);
/// while let Some(range) = search.next_slice() {
///     if search.settle(store(range)).is_err() {
///         break; // an outage: what is still open is undecided
///     }
/// }
/// assert_eq!(search.into_report().stored(), [0..100]);
/// ```
#[derive(Debug)]
pub struct Search {
    report: Report,
    /// Right halves (and at first the whole) still to be visited; the next one is last.
    pending: Vec<Slice>,
    /// Handed out and not settled.
    current: Option<Slice>,
}

#[derive(Debug)]
struct Slice {
    range: Range<usize>,
    depth: usize,
    side: Side,
}

/// Where a slice came from.
#[derive(Debug)]
enum Side {
    WholeOrLeft,
    /// With the place of the left half in the tree.
    Right(usize),
}

impl Search {
    /// A search over a batch of `len` records.
    #[must_use]
    pub fn over(len: usize) -> Self {
        let whole = Slice { range: 0..len, depth: 0, side: Side::WholeOrLeft };
        let pending = if len == 0 { vec![] } else { vec![whole] };
        Self { report: Report::default(), pending, current: None }
    }

    /// The slice to try next, or none when every record is decided.
    ///
    /// It is the same one until it is settled.
    pub fn next_slice(&mut self) -> Option<Range<usize>> {
        if self.current.is_none() {
            self.current = self.next_worth_a_try();
        }
        self.current.as_ref().map(|slice| slice.range.clone())
    }

    /// Notes how the try of the [next slice](Self::next_slice) ended.
    ///
    /// # Errors
    /// A retryable failure comes back: it proves nothing, and the slice stays undecided.
    pub fn settle(&mut self, attempt: Attempt) -> Result<(), Failure> {
        let outcome = match attempt {
            Attempt::Failed(failure) if failure.class.is_retryable() => return Err(failure),
            Attempt::Failed(failure) => Outcome::Failed(failure),
            Attempt::Stored => Outcome::Stored,
        };
        if let Some(slice) = self.current.take() {
            self.visit(slice, outcome);
        }
        Ok(())
    }

    /// What is known by now. A slice that was handed out and not settled may be stored, or not.
    #[must_use]
    pub fn into_report(mut self) -> Report {
        if let Some(slice) = self.current.take() {
            self.visit(slice, Outcome::Interrupted);
        }
        while let Some(slice) = self.pending.pop() {
            self.visit(slice, Outcome::Untried);
        }
        self.report
    }

    /// Slices that are known to fail are split on the way.
    fn next_worth_a_try(&mut self) -> Option<Slice> {
        loop {
            let slice = self.pending.pop()?;
            if !self.must_fail(&slice) {
                return Some(slice);
            }
            self.visit(slice, Outcome::Implied);
        }
    }

    /// Both halves failed together and the left one went through alone. A single record is tried all
    /// the same: its own failure is what the dead letter will tell, and it may yet go through.
    fn must_fail(&self, slice: &Slice) -> bool {
        let Side::Right(left) = slice.side else { return false };
        slice.range.len() > 1 && self.report.tree[left].outcome == Outcome::Stored
    }

    fn visit(&mut self, slice: Slice, outcome: Outcome) {
        let Slice { range, depth, .. } = slice;
        let fails = matches!(outcome, Outcome::Failed(_) | Outcome::Implied);
        self.report.tree.push(Node { range: range.clone(), depth, outcome });
        if fails && range.len() > 1 {
            self.split(&range, depth + 1);
        }
    }

    /// An odd record goes to the right half: poison on the left costs two tries a level, on the right
    /// only one, and the bound on tries needs the balance.
    fn split(&mut self, range: &Range<usize>, depth: usize) {
        let middle = range.start + range.len() / 2;
        // The left half is visited next, so this is its place in the tree.
        let left = self.report.tree.len();
        self.pending.push(Slice { range: middle..range.end, depth, side: Side::Right(left) });
        self.pending.push(Slice { range: range.start..middle, depth, side: Side::WholeOrLeft });
    }
}

#[cfg(test)]
mod tests;
