//! The table of a SQL sink, by name, and its columns as the database describes them.

use std::borrow::Cow;

use redrive_core::column::Cell;
use redrive_core::failure::Failure;
use redrive_store::{ColumnInfo, Dialect, Table, check_name};

use crate::row::Row;

/// A table that records are stored in. Its columns for topic, partition and offset have a unique index
/// together: that is what makes a record come in once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkTable {
    table: String,
    columns: Vec<String>,
    position: [String; 3],
}

/// A name that cannot stand in SQL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name of a table or column: use letters, digits and underscores")]
pub struct SinkTableError(String);

impl SinkTable {
    /// The table with these columns, in the order of the decoder's, and with `topic`, `partition` and
    /// `offset` beside them.
    ///
    /// # Errors
    /// [`SinkTableError`] names what cannot stand in SQL.
    pub fn new(table: &str, columns: &[&str]) -> Result<Self, SinkTableError> {
        let position = ["topic", "partition", "offset"].map(str::to_owned);
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { table: table.to_owned(), columns, position }.checked()
    }

    /// The same table, with other names for where a record comes from.
    ///
    /// # Errors
    /// [`SinkTableError`] names what cannot stand in SQL.
    pub fn with_position(
        mut self,
        topic: &str,
        partition: &str,
        offset: &str,
    ) -> Result<Self, SinkTableError> {
        self.position = [topic, partition, offset].map(str::to_owned);
        self.checked()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.table
    }

    fn checked(self) -> Result<Self, SinkTableError> {
        for name in std::iter::once(&self.table).chain(self.names()) {
            check_name("name", name).map_err(|_| SinkTableError(name.clone()))?;
        }
        Ok(self)
    }

    /// Every column that is written: where it comes from, then what was declared.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.position.iter().chain(&self.columns)
    }

    /// How many columns are written.
    pub(super) fn width(&self) -> usize {
        self.position.len() + self.columns.len()
    }

    /// The table as it stands in a statement.
    pub(super) fn quoted(&self, dialect: Dialect) -> String {
        self.table.split('.').map(|part| quote(dialect, part)).collect::<Vec<_>>().join(".")
    }

    /// Every column as it stands in a statement.
    pub(super) fn list(&self, dialect: Dialect) -> String {
        self.names().map(|name| quote(dialect, name)).collect::<Vec<_>>().join(", ")
    }

    /// The columns that make a record come in once.
    pub(super) fn key(&self, dialect: Dialect) -> String {
        self.position.iter().map(|name| quote(dialect, name)).collect::<Vec<_>>().join(", ")
    }

    /// The columns of topic, partition and offset.
    pub(super) fn position(&self) -> &[String; 3] {
        &self.position
    }

    /// What to tell a person about a table that does not take rows.
    pub(super) fn unwritable(&self, failure: &Failure) -> String {
        format!(
            "the sink's table {} cannot be written to: {}: allow this user to insert into it and to read it",
            self.table, failure.message
        )
    }

    /// What to tell a person about a table that is like this, and whose unique keys are over these columns.
    pub(super) fn complaint(&self, dialect: Dialect, found: &Table, keys: &[Vec<String>]) -> Option<String> {
        let table = &self.table;
        if !found.exists() {
            return Some(format!(
                "the sink's table {table} does not exist, or this user may not see it: create it, with {}",
                self.names().cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        let missing: Vec<&str> =
            self.names().map(String::as_str).filter(|name| found.column(name).is_none()).collect();
        if !missing.is_empty() {
            return Some(format!(
                "the sink's table {table} has no column {}: add it, or change `columns` or `position`; it has {}",
                missing.join(", "),
                found.names().collect::<Vec<_>>().join(", ")
            ));
        }
        let names: Vec<&str> = self.names().map(String::as_str).collect();
        let mut problems = found.unwritable(dialect, &names);
        if !problems.is_empty() {
            problems.push(
                "a column in `columns` gets its value from the record, any other is left to the database"
                    .to_owned(),
            );
        }
        if !self.has_key(keys) {
            problems.push(format!(
                "there is no unique index over ({0}), without which a record that is read twice would be stored \
                 twice: CREATE UNIQUE INDEX {1}_position ON {2} ({0})",
                self.key(dialect),
                table.replace('.', "_"),
                self.quoted(dialect),
            ));
        }
        let all = problems.join("; ");
        (!problems.is_empty()).then(|| format!("the sink's table {table} cannot be used as it is: {all}"))
    }

    fn has_key(&self, keys: &[Vec<String>]) -> bool {
        let mut wanted: Vec<String> = self.position.iter().map(|name| name.to_lowercase()).collect();
        wanted.sort();
        let matches = |key: &Vec<String>| {
            let mut key: Vec<String> = key.iter().map(|name| name.to_lowercase()).collect();
            key.sort();
            key == wanted
        };
        keys.iter().any(matches)
    }
}

/// The columns that are written, as the database describes them: topic, partition and offset, then the declared ones.
#[derive(Debug)]
pub(super) struct SinkColumns(Vec<ColumnInfo>);

impl SinkColumns {
    /// # Errors
    /// A failure that may pass when the table, or a column of it, is not there: it is no record's fault.
    pub(super) fn new(table: &SinkTable, found: &Table) -> Result<Self, Failure> {
        let column = |name: &String| {
            found.column(name).cloned().ok_or_else(|| {
                let table = table.name();
                let message = format!("the sink's table {table} is not there, or has no column {name}");
                Failure::transient("Database", message)
            })
        };
        table.names().map(column).collect::<Result<_, _>>().map(Self)
    }

    /// All of them.
    pub(super) fn all(&self) -> &[ColumnInfo] {
        &self.0
    }

    /// The values of a row as the texts that its columns read, each with its column.
    ///
    /// # Errors
    /// The first value that its column cannot hold.
    pub(super) fn texts<'a>(&'a self, row: &'a Row<'_>) -> Result<Vec<Text<'a>>, Failure> {
        let (partition, offset) = (row.identity.partition.to_string(), row.identity.offset.to_string());
        let mut texts = Vec::with_capacity(self.0.len());
        texts.push(Some(Cow::Borrowed(&*row.identity.topic)));
        texts.extend([Some(Cow::Owned(partition)), Some(Cow::Owned(offset))]);
        for (column, cell) in self.0[texts.len()..].iter().zip(&row.cells) {
            texts.push(column.convert(cell).map_err(|why| unfit(column, cell, &why))?);
        }
        Ok(texts)
    }
}

/// A value as text; nothing for NULL.
pub(super) type Text<'a> = Option<Cow<'a, str>>;

fn unfit(column: &ColumnInfo, cell: &Cell<'_>, why: &str) -> Failure {
    Failure::permanent("WrongValue", format!("the value {cell} of the column {} {why}", column.name()))
}

fn quote(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::MySql => format!("`{name}`"),
        Dialect::Postgres | Dialect::Sqlite => format!("\"{name}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SinkTable {
        SinkTable::new("shop.decision_log", &["id", "body"]).unwrap()
    }

    #[test]
    fn names_that_sql_would_misread_are_refused() {
        assert!(SinkTable::new("a; drop table b", &["id"]).is_err());
        assert!(SinkTable::new("a", &["i\"d"]).is_err());
        assert!(table().with_position("t", "p", "o o").is_err());
    }

    #[test]
    fn a_table_that_is_not_there_is_to_be_created_and_a_key_is_one_in_any_order() {
        let missing = table().complaint(Dialect::Postgres, &Table::default(), &[]).unwrap();
        assert!(missing.contains("shop.decision_log does not exist"), "{missing}");
        let key = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(table().has_key(&[key(&["id"]), key(&["partition", "topic", "offset"])]));
        assert!(!table().has_key(&[key(&["id"]), key(&["partition", "topic"])]));
    }
}
