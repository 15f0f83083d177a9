//! Inserting a batch: one statement for many rows, in each dialect's fastest form.
//!
//! Postgres reads one array per column, SQLite one JSON document. MySQL gets a plain list of rows:
//! only then are the new numbers consecutive, so that they are known without asking.

use redrive_core::event::WorkId;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::{Names, Statement};
use crate::value::{Column, Value};

/// What a column of a batch holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Bytes,
    Time,
    /// Microseconds from now; the column is a time by the store's clock.
    After,
}

/// What to do with a row that a unique index refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    Fail,
    Skip,
}

/// A statement that inserts batches into one table.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    dialect: Dialect,
    columns: Vec<(&'static str, Kind)>,
    /// Everything, or for MySQL what comes before the rows.
    text: String,
    suffix: String,
}

impl Insert {
    /// Inserts into `{table}`; column names may be `{names}` of the configuration.
    pub(crate) fn new(
        names: &Names,
        dialect: Dialect,
        id: &str,
        columns: &[(&'static str, Kind)],
        on_conflict: OnConflict,
    ) -> Self {
        let list = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let head = format!("INSERT INTO {{table}} ({list})");
        let skip = match (on_conflict, dialect) {
            (OnConflict::Fail, _) => String::new(),
            (OnConflict::Skip, Dialect::MySql) => format!(" ON DUPLICATE KEY UPDATE {id} = {id}"),
            (OnConflict::Skip, _) => " ON CONFLICT DO NOTHING".to_owned(),
        };
        let (text, suffix) = match dialect {
            Dialect::Postgres => (format!("{head} {}{skip} RETURNING {id}", from_arrays(columns)), String::new()),
            // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
            Dialect::Sqlite => {
                (format!("{head} {} WHERE true{skip} RETURNING {id}", from_json(columns)), String::new())
            }
            Dialect::MySql => (format!("{head} VALUES "), skip),
        };
        Self { dialect, columns: columns.to_vec(), text: names.fill(&text), suffix }
    }

    /// Inserts the rows and returns their numbers, ascending; none for those that were skipped.
    pub(crate) async fn run(&self, session: &mut Session, rows: Vec<Column>) -> Result<Vec<WorkId>, Error> {
        match self.dialect {
            Dialect::Postgres | Dialect::Sqlite => {
                let statement = Statement::new(self.dialect, &self.text);
                let rows = session.rows(&statement, vec![Value::Rows(rows)]).await?;
                let mut ids = rows.iter().map(|row| row.int(0).map(WorkId)).collect::<Result<Vec<_>, _>>()?;
                ids.sort_unstable();
                Ok(ids)
            }
            Dialect::MySql => self.run_mysql(session, rows).await,
        }
    }

    async fn run_mysql(&self, session: &mut Session, columns: Vec<Column>) -> Result<Vec<WorkId>, Error> {
        let mut cells: Vec<_> = columns.into_iter().map(|column| column.into_values().into_iter()).collect();
        let count = cells.first().map_or(0, ExactSizeIterator::len);
        let mut values = Vec::with_capacity(count * cells.len());
        for _ in 0..count {
            values.extend(cells.iter_mut().filter_map(Iterator::next));
        }
        let statement = Statement::new(self.dialect, &self.mysql_text(count));
        let inserted = session.run(&statement, values).await?;
        if inserted == 0 {
            return Ok(Vec::new());
        }
        let asked = Statement::new(self.dialect, "SELECT LAST_INSERT_ID(), @@auto_increment_increment");
        let rows = session.rows(&asked, Vec::new()).await?;
        let row = rows.first().expect("invariant: a SELECT without FROM has one row");
        let (first, step) = (row.int(0)?, row.int(1)?);
        Ok((0..i64::try_from(inserted).unwrap_or(0)).map(|n| WorkId(first + n * step)).collect())
    }

    fn mysql_text(&self, rows: usize) -> String {
        let cell = |kind: &Kind| match kind {
            Kind::After => "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND",
            _ => "?",
        };
        let row = self.columns.iter().map(|(_, kind)| cell(kind)).collect::<Vec<_>>().join(", ");
        let rows = vec![format!("({row})"); rows].join(", ");
        format!("{}{rows}{}", self.text, self.suffix)
    }
}

fn from_arrays(columns: &[(&str, Kind)]) -> String {
    let array = |(index, (_, kind)): (usize, &(&str, Kind))| {
        let of = match kind {
            Kind::Int | Kind::After => "bigint",
            Kind::Text => "text",
            Kind::Bytes => "bytea",
            Kind::Time => "timestamptz",
        };
        format!("${}::{of}[]", index + 1)
    };
    let cell = |(index, (_, kind)): (usize, &(&str, Kind))| match kind {
        Kind::After => format!("now() + c{index} * interval '1 microsecond'"),
        _ => format!("c{index}"),
    };
    let arrays = columns.iter().enumerate().map(array).collect::<Vec<_>>().join(", ");
    let cells = columns.iter().enumerate().map(cell).collect::<Vec<_>>().join(", ");
    let names = (0..columns.len()).map(|index| format!("c{index}")).collect::<Vec<_>>().join(", ");
    format!("SELECT {cells} FROM unnest({arrays}) AS s({names})")
}

fn from_json(columns: &[(&str, Kind)]) -> String {
    let cell = |(index, (_, kind)): (usize, &(&str, Kind))| match kind {
        Kind::After => {
            format!("strftime('%Y-%m-%d %H:%M:%f', 'now', ((value ->> {index}) / 1000000.0) || ' seconds')")
        }
        Kind::Bytes => format!("unhex(value ->> {index})"),
        _ => format!("value ->> {index}"),
    };
    let cells = columns.iter().enumerate().map(cell).collect::<Vec<_>>().join(", ");
    format!("SELECT {cells} FROM json_each($1)")
}
