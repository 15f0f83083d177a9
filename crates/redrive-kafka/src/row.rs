//! A decoded record: one row of a sink.

pub use redrive_core::column::Cell;

use crate::record::Position;

/// A row: who it is, and its cells in the order of the declared columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// Which record it is; a sink takes each one once.
    pub identity: Position,
    /// Its cells.
    pub cells: Vec<Cell<'a>>,
}

impl Row<'_> {
    /// About how many bytes it takes on its way.
    #[must_use]
    pub fn size(&self) -> usize {
        let cell = |cell: &Cell<'_>| match cell {
            Cell::Null | Cell::Bool(_) => 4,
            Cell::Number(text) | Cell::Text(text) => text.len(),
            Cell::Json(text) => text.len(),
            Cell::Time(_) => 30,
        };
        self.identity.topic.len() + 20 + self.cells.iter().map(cell).sum::<usize>()
    }
}
