//! Sinks: where records are stored, in batches.
//!
//! The contract is small. [`Sink::write`] stores a batch whole or not at all, and takes a record that is
//! there already for stored. From that alone [`Sink::store`] finds the poison by bisecting. A sink that can
//! do better says so by its own `store`; the result must be the same, record for record.

mod guarded;
mod http;
mod mysql;
mod postgres;
mod sqlite;
mod statement;

use async_trait::async_trait;
use redrive_core::bisect::{Attempt, Search};
use redrive_core::failure::{Class, Failure};

use crate::row::Row;

pub(crate) use guarded::Guarded;
pub use http::{HttpSink, HttpSinkOptions};
pub use mysql::MySqlSink;
pub use postgres::{Isolation, PostgresSink};
pub use sqlite::SqliteSink;
pub use statement::{SinkTable, SinkTableError};

/// Where records are stored.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Stores all rows, durably, or none of them. A row whose identity is there already counts as stored.
    ///
    /// # Errors
    /// The failure of the batch; its class says whether it may pass by itself.
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure>;

    /// Stores every row that can be stored, and says which cannot.
    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        bisect(self, rows, None).await
    }

    /// Whether it answers at all. Asked before a backlog is started on.
    ///
    /// # Errors
    /// What is wrong.
    async fn probe(&self) -> Result<(), Failure>;

    /// Whether it is what the settings say: the table and its columns are there.
    ///
    /// # Errors
    /// A sentence for a person: what is wrong, and what to do.
    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// What became of a batch. What is neither poison nor undecided is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The rows that fail alone, by index, ascending.
    pub poison: Vec<(usize, Failure)>,
    /// The rows about which nothing is known, by index, ascending.
    pub undecided: Vec<usize>,
    /// Why there are such.
    pub cause: Option<Failure>,
}

impl Stored {
    /// All rows are undecided.
    #[must_use]
    pub fn nothing(rows: usize, cause: Failure) -> Self {
        Self { poison: Vec::new(), undecided: (0..rows).collect(), cause: Some(cause) }
    }

    /// What this says about the rows that fit, as part of the batch from which `unfit` ones were taken out.
    pub(crate) fn beside(mut self, unfit: Vec<(usize, Failure)>) -> Self {
        let place = |mut index: usize| {
            for (taken, _) in &unfit {
                index += usize::from(*taken <= index);
            }
            index
        };
        self.undecided.iter_mut().for_each(|index| *index = place(*index));
        self.poison.iter_mut().for_each(|(index, _)| *index = place(*index));
        self.poison.extend(unfit);
        self.poison.sort_by_key(|(index, _)| *index);
        self
    }

    /// What this says about rows that start at `first` of a larger batch, added to what is known of that.
    pub(crate) fn extend(&mut self, part: Self, first: usize) {
        self.poison.extend(part.poison.into_iter().map(|(index, failure)| (index + first, failure)));
        self.undecided.extend(part.undecided.into_iter().map(|index| index + first));
        if part.cause.is_some() {
            self.cause = part.cause;
        }
    }
}

/// Whether a failure says nothing about the record: it is tried again, and parked in the end.
#[must_use]
pub fn may_pass(failure: &Failure) -> bool {
    failure.class.is_retryable()
}

/// Finds the poison with [`Sink::write`] alone. `known` is the failure of the whole batch, where it was
/// tried already.
pub async fn bisect<S: Sink + ?Sized>(sink: &S, rows: &[Row<'_>], mut known: Option<Failure>) -> Stored {
    let mut search = Search::over(rows.len());
    let mut cause = None;
    while let Some(range) = search.next_slice() {
        let tried = match known.take() {
            Some(failure) => Err(failure),
            None => sink.write(&rows[range]).await,
        };
        let attempt = tried.map_or_else(Attempt::Failed, |()| Attempt::Stored);
        if let Err(failure) = search.settle(attempt) {
            cause = Some(failure);
            break;
        }
    }
    told(search, cause)
}

/// As [`bisect`], for rows that were tried to the limit while the sink itself answers: a failure that may
/// pass is now held against the rows, so that one of them does not take its neighbours with it. Such rows
/// come back as undecided, and the sink not answering ends the search.
pub async fn bisect_exhausted<S: Sink + ?Sized>(sink: &S, rows: &[Row<'_>]) -> Stored {
    let mut search = Search::over(rows.len());
    let mut cause = None;
    while let Some(range) = search.next_slice() {
        let attempt = match sink.write(&rows[range]).await {
            Ok(()) => Attempt::Stored,
            Err(failure) if may_pass(&failure) && sink.probe().await.is_ok() => {
                Attempt::Failed(Failure { class: HELD_AGAINST, ..failure })
            }
            Err(failure) => Attempt::Failed(failure),
        };
        if let Err(failure) = search.settle(attempt) {
            cause = Some(failure);
            break;
        }
    }
    let mut stored = told(search, cause);
    for (index, failure) in std::mem::take(&mut stored.poison) {
        if failure.class == HELD_AGAINST {
            stored.undecided.push(index);
            stored.cause = Some(Failure { class: Class::Transient, ..failure });
        } else {
            stored.poison.push((index, failure));
        }
    }
    stored.undecided.sort_unstable();
    stored
}

/// Marks a failure that may pass; no sink says this of a row.
const HELD_AGAINST: Class = Class::Unhandled;

fn told(search: Search, cause: Option<Failure>) -> Stored {
    let report = search.into_report();
    let undecided = report.undecided().into_iter().flatten().collect();
    Stored { undecided, cause, poison: report.into_poison() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_taken_out_have_their_places_among_the_others() {
        let failure = || Failure::permanent("WrongValue", "");
        let stored = Stored { poison: vec![(0, failure())], undecided: vec![1, 2], cause: None };
        let all = stored.beside(vec![(0, failure()), (1, failure()), (4, failure())]);
        assert_eq!(all.poison.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!(all.undecided, [3, 5]);
    }
}
