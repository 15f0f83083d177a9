//! How a table that holds work says so: the pieces of SQL that differ from table to table.

use crate::dialect::Dialect;
use crate::row::Times;
use crate::statement::{Names, Sql};

/// How one table says it; see the files in `sql/`.
pub(crate) struct Shape {
    /// The number of a row.
    pub(crate) id: &'static str,
    /// Which rows `e` are waiting or leased.
    pub(crate) live: &'static str,
    /// Which live rows `e` are leased.
    pub(crate) leased: &'static str,
    /// Which rows `t` can be settled.
    pub(crate) held: &'static str,
    /// What a claim sets besides the lease; reads the row `t` as it was.
    pub(crate) take: &'static str,
    /// In which order rows `e` are claimed.
    pub(crate) order: &'static str,
    /// The index that has the live rows in this order: its name, after that of the table.
    pub(crate) index: &'static str,
    /// Which further rows `e` must wait.
    pub(crate) in_order: String,
    /// The columns of the work, as [`crate::queue::Queue`] reads them.
    pub(crate) work: &'static str,
    /// How the time of its creation is kept.
    pub(crate) created: Times,
    /// What settling sets.
    pub(crate) done: Done,
    pub(crate) retry: &'static str,
    pub(crate) release: &'static str,
    pub(crate) dead: Dead,
}

impl Shape {
    /// The names of a store, and what the files in `sql/*/work/` call these pieces.
    pub(crate) fn names(&self, dialect: Dialect, names: &Names) -> Names {
        let names = names.clone();
        names
            .with("id", self.id)
            .with_sql("live", self.live)
            .with_sql("leased", self.leased)
            .with_sql("held", self.held)
            .with_sql("take", self.take)
            .with_sql("order", self.order)
            .with_sql("through", &through(dialect, self.index))
            .with_sql("in_order", &self.in_order)
            .with_sql("interrupted", if dialect == Dialect::MySql { self.leased } else { "interrupted" })
            .with_sql("after", after(dialect))
            .with_sql("work", self.work)
    }
}

/// What becomes of delivered work.
pub(crate) enum Done {
    Set(&'static str),
    Delete,
}

/// What becomes of dead work.
pub(crate) enum Dead {
    /// It stays in place, changed.
    Set(&'static str),
    /// It moves to another table by this statement (and, but for Postgres, a delete after it).
    Move(Sql),
}

/// The time after the delay `s.after`, by the store's clock.
const fn after(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "now() + s.after * interval '1 microsecond'",
        Dialect::MySql => "UTC_TIMESTAMP(6) + INTERVAL s.after MICROSECOND",
        Dialect::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now', (s.after / 1000000.0) || ' seconds')",
    }
}

/// Says which index a claim walks, where the planner would sometimes rather sort what another finds.
fn through(dialect: Dialect, index: &str) -> String {
    match dialect {
        Dialect::Postgres => String::new(),
        Dialect::Sqlite => format!("INDEXED BY \"{{table_name}}{index}\""),
        Dialect::MySql => format!("FORCE INDEX (`{{table_name}}{index}`)"),
    }
}
