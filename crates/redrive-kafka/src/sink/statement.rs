//! The table of a SQL sink, by name.

use redrive_core::failure::Failure;
use redrive_store::{Dialect, check_name};

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

    /// What to tell a person about a table that has these columns, and whose unique keys are over these.
    pub(super) fn complaint(
        &self,
        dialect: Dialect,
        found: &[String],
        keys: &[Vec<String>],
    ) -> Option<String> {
        let table = &self.table;
        if found.is_empty() {
            return Some(format!(
                "the sink's table {table} does not exist, or this user may not see it: create it, with {}",
                self.names().cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        let is_missing = |name: &&String| !found.iter().any(|other| other.eq_ignore_ascii_case(name));
        let missing: Vec<&str> = self.names().filter(is_missing).map(String::as_str).collect();
        if !missing.is_empty() {
            return Some(format!(
                "the sink's table {table} has no column {}: add it, or change `columns` or `position`; it has {}",
                missing.join(", "),
                found.join(", ")
            ));
        }
        let mut wanted: Vec<String> = self.position.iter().map(|name| name.to_lowercase()).collect();
        wanted.sort();
        let matches = |key: &Vec<String>| {
            let mut key: Vec<String> = key.iter().map(|name| name.to_lowercase()).collect();
            key.sort();
            key == wanted
        };
        let advice = format!(
            "the sink's table {table} has no unique index over ({0}), without which a record that is read twice \
             would be stored twice: CREATE UNIQUE INDEX {1}_position ON {2} ({0})",
            self.key(dialect),
            table.replace('.', "_"),
            self.quoted(dialect),
        );
        (!keys.iter().any(matches)).then_some(advice)
    }
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

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_that_sql_would_misread_are_refused() {
        assert!(SinkTable::new("a; drop table b", &["id"]).is_err());
        assert!(SinkTable::new("a", &["i\"d"]).is_err());
        assert!(table().with_position("t", "p", "o o").is_err());
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let dialect = Dialect::Postgres;
        let all = names(&["topic", "partition", "offset", "id", "body"]);
        let missing = table().complaint(dialect, &[], &[]).unwrap();
        assert!(missing.contains("shop.decision_log does not exist"), "{missing}");
        let missing = table().complaint(dialect, &all[..4], &[]).unwrap();
        assert!(missing.contains("has no column body"), "{missing}");
        let missing = table().complaint(dialect, &all, &[names(&["id"])]).unwrap();
        assert!(missing.ends_with(
            "CREATE UNIQUE INDEX shop_decision_log_position ON \"shop\".\"decision_log\" (\"topic\", \"partition\", \"offset\")"
        ), "{missing}");
        let key = names(&["partition", "topic", "offset"]);
        assert_eq!(table().complaint(dialect, &all, &[key]), None);
    }
}
