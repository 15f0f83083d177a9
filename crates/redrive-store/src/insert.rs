//! Inserting a batch: one statement for many rows, in each dialect's fastest form.
//!
//! Postgres reads one array per column, SQLite one JSON document. MySQL gets a plain list of rows:
//! only then are the new numbers consecutive, so that they are known without asking.
//! Where a row may be there already, MySQL has no way to skip it that also says so (the drivers ask
//! for found rows, not changed ones): the batch is refused as a whole, then tried row by row.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use redrive_core::event::WorkId;

use crate::adoption;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::row::Row;
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
    /// The same SQL for every row: it takes no parameter.
    Fixed,
}

/// A column of an INSERT, and how its values are stored: `@` in `stored` stands for the value.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) stored: String,
}

impl Cell {
    /// A column that takes its values as they are.
    pub(crate) fn plain(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), kind, stored: "@".to_owned() }
    }

    /// A column that has the same value in every row.
    pub(crate) fn fixed(name: &str, sql: &str) -> Self {
        Self { name: name.to_owned(), kind: Kind::Fixed, stored: sql.to_owned() }
    }

    fn store(&self, value: &str) -> String {
        self.stored.replace('@', value)
    }
}

/// The most rows that one statement inserts.
const MAX_ROWS: usize = 1_000;
/// About the most bytes: MySQL takes 16 MiB at once, unless it is told otherwise.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How many of the items go into each statement, given the size of each in bytes.
pub(crate) fn portions(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut portions = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    for size in sizes {
        if rows == MAX_ROWS || (rows > 0 && bytes + size > MAX_BYTES) {
            portions.push(rows);
            (rows, bytes) = (0, 0);
        }
        rows += 1;
        bytes += size;
    }
    portions.extend((rows > 0).then_some(rows));
    portions
}

/// The items, in the portions of [`portions`].
pub(crate) fn chunks<T>(items: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    portions(items.iter().map(size)).into_iter().map(move |count| {
        let (chunk, later) = rest.split_at(count);
        rest = later;
        chunk
    })
}

/// What statements are run on: a connection of ours, or the application's own transaction.
pub(crate) trait Executor: Send {
    /// Runs a statement and returns its rows.
    fn rows<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>>;

    /// Runs a statement and returns how many rows it changed.
    fn run<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<u64, Error>>;
}

impl Executor for Session {
    fn rows<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(Self::rows(self, statement, values))
    }

    fn run<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(Self::run(self, statement, values))
    }
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
    columns: Vec<Cell>,
    on_conflict: OnConflict,
    /// Everything, or for MySQL what comes before the rows.
    text: String,
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
        let cells = columns.iter().map(|(name, kind)| Cell::plain(name, *kind)).collect();
        Self::of_cells(names, dialect, id, cells, on_conflict)
    }

    /// As [`Insert::new`], for columns of any type.
    pub(crate) fn of_cells(
        names: &Names,
        dialect: Dialect,
        id: &str,
        columns: Vec<Cell>,
        on_conflict: OnConflict,
    ) -> Self {
        let list = columns.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
        let head = format!("INSERT INTO {{table}} ({list})");
        let skip = match on_conflict {
            OnConflict::Fail => "",
            OnConflict::Skip => " ON CONFLICT DO NOTHING",
        };
        let text = match dialect {
            Dialect::Postgres => format!("{head} {}{skip} RETURNING {id}", from_arrays(&columns)),
            // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
            Dialect::Sqlite => format!("{head} {} WHERE true{skip} RETURNING {id}", from_json(&columns)),
            Dialect::MySql => format!("{head} VALUES "),
        };
        let fill = |cell: Cell| Cell { stored: names.fill(&cell.stored), ..cell };
        let columns = columns.into_iter().map(fill).collect();
        Self { dialect, columns, on_conflict, text: names.fill(&text) }
    }

    /// Inserts the rows and returns their numbers, ascending; none for those that were skipped.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when a trigger drops a row that is not to be skipped: the caller undoes the others.
    pub(crate) async fn run(
        &self,
        session: &mut dyn Executor,
        rows: Vec<Column>,
    ) -> Result<Vec<WorkId>, Error> {
        let expected = rows.first().map_or(0, Column::len);
        let ids = self.run_all(session, rows).await?;
        if self.on_conflict == OnConflict::Fail {
            adoption::none_dropped("table", ids.len() as u64, expected as u64)?;
        }
        Ok(ids)
    }

    async fn run_all(&self, session: &mut dyn Executor, rows: Vec<Column>) -> Result<Vec<WorkId>, Error> {
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

    /// Inserts the rows, each of which has one of these keys, and returns the numbers of those that were not
    /// skipped. The statement returns the key after the number.
    pub(crate) async fn run_keyed(
        &self,
        session: &mut dyn Executor,
        rows: Vec<Column>,
        keys: impl Iterator<Item = String>,
    ) -> Result<HashMap<String, WorkId>, Error> {
        match self.dialect {
            Dialect::Postgres | Dialect::Sqlite => {
                let statement = Statement::new(self.dialect, &self.text);
                let rows = session.rows(&statement, vec![Value::Rows(rows)]).await?;
                rows.iter().map(|row| Ok((row.text(1)?, WorkId(row.int(0)?)))).collect()
            }
            Dialect::MySql => {
                let ids = self.skip_mysql(session, transposed(rows)).await?;
                Ok(keys.zip(ids).filter_map(|(key, id)| Some((key, id?))).collect())
            }
        }
    }

    async fn run_mysql(
        &self,
        session: &mut dyn Executor,
        columns: Vec<Column>,
    ) -> Result<Vec<WorkId>, Error> {
        let rows = transposed(columns);
        if self.on_conflict == OnConflict::Fail {
            return self.insert_mysql(session, rows.len(), rows.into_iter().flatten().collect()).await;
        }
        Ok(self.skip_mysql(session, rows).await?.into_iter().flatten().collect())
    }

    /// One number for each row, or none if it was skipped.
    async fn skip_mysql(
        &self,
        session: &mut dyn Executor,
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Option<WorkId>>, Error> {
        match self.insert_mysql(session, rows.len(), rows.concat()).await {
            Err(error) if error.is_duplicate_in_mysql() => self.insert_mysql_singly(session, rows).await,
            inserted => Ok(inserted?.into_iter().map(Some).collect()),
        }
    }

    async fn insert_mysql(
        &self,
        session: &mut dyn Executor,
        rows: usize,
        values: Vec<Value>,
    ) -> Result<Vec<WorkId>, Error> {
        let statement = Statement::new(self.dialect, &self.mysql_text(rows));
        let inserted = session.run(&statement, values).await?;
        let asked = Statement::new(self.dialect, "SELECT LAST_INSERT_ID(), @@auto_increment_increment");
        let rows = session.rows(&asked, Vec::new()).await?;
        let row = rows.first().expect("invariant: a SELECT without FROM has one row");
        let (first, step) = (row.int(0)?, row.int(1)?);
        Ok((0..i64::try_from(inserted).unwrap_or(0)).map(|n| WorkId(first + n * step)).collect())
    }

    /// A refused row undoes its own statement only: the transaction goes on.
    async fn insert_mysql_singly(
        &self,
        session: &mut dyn Executor,
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Option<WorkId>>, Error> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            ids.push(match self.insert_mysql(session, 1, row).await {
                Err(error) if error.is_duplicate_in_mysql() => None,
                inserted => inserted?.pop(),
            });
        }
        Ok(ids)
    }

    fn mysql_text(&self, rows: usize) -> String {
        let rows = vec![mysql_row(&self.columns); rows].join(", ");
        format!("{}{rows}", self.text)
    }
}

/// One row of MySQL's VALUES.
pub(crate) fn mysql_row(columns: &[Cell]) -> String {
    let cell = |cell: &Cell| match cell.kind {
        Kind::After => cell.store("UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"),
        _ => cell.store("?"),
    };
    format!("({})", columns.iter().map(cell).collect::<Vec<_>>().join(", "))
}

/// The rows of a batch, each as the parameters of its own.
fn transposed(columns: Vec<Column>) -> Vec<Vec<Value>> {
    let mut cells: Vec<_> = columns.into_iter().map(|column| column.into_values().into_iter()).collect();
    let rows = cells.first().map_or(0, ExactSizeIterator::len);
    (0..rows).map(|_| cells.iter_mut().filter_map(Iterator::next).collect()).collect()
}

pub(crate) fn from_arrays(columns: &[Cell]) -> String {
    let given: Vec<&Cell> = columns.iter().filter(|cell| cell.kind != Kind::Fixed).collect();
    let array = |(index, cell): (usize, &&Cell)| {
        let of = match cell.kind {
            Kind::Int | Kind::After => "bigint",
            Kind::Text | Kind::Fixed => "text",
            Kind::Bytes => "bytea",
            Kind::Time => "timestamptz",
        };
        format!("${}::{of}[]", index + 1)
    };
    let mut taken = 0;
    let cell = |cell: &Cell| {
        let index = taken;
        taken += usize::from(cell.kind != Kind::Fixed);
        match cell.kind {
            Kind::Fixed => cell.stored.clone(),
            Kind::After => cell.store(&format!("now() + c{index} * interval '1 microsecond'")),
            _ => cell.store(&format!("c{index}")),
        }
    };
    let cells = columns.iter().map(cell).collect::<Vec<_>>().join(", ");
    let arrays = given.iter().enumerate().map(array).collect::<Vec<_>>().join(", ");
    let names = (0..given.len()).map(|index| format!("c{index}")).collect::<Vec<_>>().join(", ");
    format!("SELECT {cells} FROM unnest({arrays}) AS s({names})")
}

pub(crate) fn from_json(columns: &[Cell]) -> String {
    let mut taken = 0;
    let cell = |cell: &Cell| {
        let index = taken;
        taken += usize::from(cell.kind != Kind::Fixed);
        match cell.kind {
            Kind::Fixed => cell.stored.clone(),
            Kind::After => cell.store(&format!(
                "strftime('%Y-%m-%d %H:%M:%f', 'now', ((value ->> {index}) / 1000000.0) || ' seconds')"
            )),
            Kind::Bytes => cell.store(&format!("unhex(value ->> {index})")),
            _ => cell.store(&format!("value ->> {index}")),
        }
    };
    let cells = columns.iter().map(cell).collect::<Vec<_>>().join(", ");
    format!("SELECT {cells} FROM json_each($1)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_by_rows_and_by_bytes_and_a_large_item_goes_alone() {
        assert_eq!(portions(std::iter::empty()), Vec::<usize>::new());
        assert_eq!(portions(std::iter::repeat_n(1, 2_500)), [1_000, 1_000, 500]);
        assert_eq!(portions([10, 2 * MAX_BYTES, 10].into_iter()), [1, 1, 1]);
        let items = [1, MAX_BYTES, 2];
        assert_eq!(chunks(&items, |size| *size).collect::<Vec<_>>(), [&[1][..], &[MAX_BYTES], &[2]]);
    }
}
