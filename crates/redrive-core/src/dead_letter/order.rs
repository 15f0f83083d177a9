//! What is done to letters, by whom, and what came of it.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Who acts. Goes into the letter and into the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Operator(String);

impl Operator {
    /// The longest name that is kept, in characters.
    pub const MAX: usize = 100;

    /// The operator of this name, cut to [`Operator::MAX`] characters.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.chars().filter(|c| *c != '\0').take(Self::MAX).collect())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// An order to send letters back to work.
///
/// Its mark makes it one order, however often it is carried out: a letter that it has sent is not sent by
/// it again, whatever has become of it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    operator: Operator,
    note: String,
}

impl Order {
    /// The order that the operator gave under this mark, such as `operation 17`.
    #[must_use]
    pub fn new(operator: &Operator, mark: &str) -> Self {
        let note = format!("redriven by {} ({mark})", operator.name());
        Self { operator: operator.clone(), note: crate::failure::clean(&note) }
    }

    /// Who gave it.
    #[must_use]
    pub const fn operator(&self) -> &Operator {
        &self.operator
    }

    /// What it leaves on each letter.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// What has become of a letter that was sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Not known yet.
    Pending,
    /// It did its work.
    Delivered,
    /// It was handed over, and nobody will say what became of it, unless it comes back.
    HandedOver,
    /// It failed again.
    Failed(Failure),
}

/// Why nothing was done about one letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such letter.
    #[error("there is no letter {0}: check the id, it may have been purged")]
    Unknown(String),
    /// It is not waiting: somebody was faster.
    #[error("letter {0} is not waiting any more: somebody has redriven or resolved it already")]
    NotWaiting(String),
    /// It cannot be done to this kind of letter.
    #[error("letter {id}: {why}")]
    Impossible {
        /// The letter.
        id: String,
        /// Why not, and what to do.
        why: String,
    },
}

impl Refusal {
    /// The local id of the letter.
    #[must_use]
    pub fn letter(&self) -> &str {
        match self {
            Self::Unknown(id) | Self::NotWaiting(id) | Self::Impossible { id, .. } => id,
        }
    }
}

/// What a bulk action did. Each letter that was asked for is in exactly one of the three.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acted {
    /// The local ids of the letters that it was done to.
    pub done: Vec<String>,
    /// Those that the same order was carried out for before.
    pub before: Vec<String>,
    /// The others, with the reason.
    pub refused: Vec<Refusal>,
}
