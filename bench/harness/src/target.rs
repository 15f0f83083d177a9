//! What we want to reach, and whether we did.

use crate::table::Table;

/// One target with its figure.
#[derive(Debug)]
pub struct Target {
    name: String,
    measured: f64,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    /// Met when the figure is this or more.
    #[must_use]
    pub fn at_least(name: impl Into<String>, wanted: f64, measured: f64) -> Self {
        Self { name: name.into(), measured, wanted: Wanted::AtLeast(wanted) }
    }

    /// Met when the figure is this or less.
    #[must_use]
    pub fn at_most(name: impl Into<String>, wanted: f64, measured: f64) -> Self {
        Self { name: name.into(), measured, wanted: Wanted::AtMost(wanted) }
    }

    fn met(&self) -> bool {
        match self.wanted {
            Wanted::AtLeast(wanted) => self.measured >= wanted,
            Wanted::AtMost(wanted) => self.measured <= wanted,
        }
    }

    fn cells(&self) -> [String; 4] {
        let wanted = match self.wanted {
            Wanted::AtLeast(wanted) => format!("≥ {wanted:.2}"),
            Wanted::AtMost(wanted) => format!("≤ {wanted:.2}"),
        };
        let met = if self.met() { "met" } else { "MISSED" };
        // Three digits: 0.798 must not be shown as the 0.80 that it misses.
        [self.name.clone(), format!("{:.3}", self.measured), wanted, met.to_owned()]
    }
}

/// The table of all targets.
#[must_use]
pub fn verdict(targets: &[Target]) -> Table {
    let mut table = Table::new(&["target", "measured", "wanted", ""]);
    targets.iter().for_each(|target| table.row(target.cells()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_at_its_edge_and_missed_beyond_it() {
        assert!(Target::at_least("", 0.8, 0.8).met());
        assert!(!Target::at_least("", 0.8, 0.799).met());
        assert!(Target::at_most("", 1.1, 1.1).met());
        assert!(!Target::at_most("", 1.1, f64::NAN).met());
    }
}
