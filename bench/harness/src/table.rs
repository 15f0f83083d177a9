//! A table of text, its columns as wide as they need to be.

use std::fmt;

/// A table.
#[derive(Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self(vec![headings.iter().map(ToString::to_string).collect()])
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        self.0.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.0[0].len()).map(|column| self.width(column)).collect();
        for (index, row) in self.0.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
            if index == 0 {
                writeln!(
                    f,
                    "|{}|",
                    widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|")
                )?;
            }
        }
        Ok(())
    }
}
