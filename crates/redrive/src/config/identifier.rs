//! Names of tables and columns that can stand in SQL as they are.

use super::document::Node;
use super::environment::Environment;
use super::section::Section;
use super::setting::{Setting, Wrong, text};

/// Indexes add a suffix to the name of their table, and Postgres cuts names at 63.
const LONGEST: usize = 48;

/// A table, with its schema if one was given: letters, digits and underscores only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName(String);

/// A column: letters, digits and underscores only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnName(String);

/// A schema: letters, digits and underscores only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchemaName(String);

impl SchemaName {
    /// The name as it stands in SQL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for SchemaName {
    fn kind() -> String {
        "schema name".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a schema name of letters, digits and underscores, at most 48 characters long";
        let name = text(node, EXPECTED)?;
        if is_plain(name) { Ok(Self(name.to_owned())) } else { Err(Wrong::expected(EXPECTED)) }
    }
}

impl TableName {
    /// The name as it stands in SQL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads `table`, which by default is named after its pipeline: dashes become underscores.
    pub(crate) fn read_own(
        section: &mut Section<'_>,
        pipeline: &str,
        suffix: &str,
        described: &'static str,
        doc: &'static str,
    ) -> Self {
        let default = Self(format!("{}{suffix}", pipeline.replace('-', "_")));
        let table: Self = section.derived("table", default, described, doc);
        if !table.is_safe() && !section.is_described() {
            section.refuse(
                "table",
                format!("missing: the default \"{}\" is no table name; give it one", table.0.escape_debug()),
            );
        }
        table
    }

    fn is_safe(&self) -> bool {
        self.0.split('.').count() <= 2 && self.0.split('.').all(is_plain)
    }
}

impl ColumnName {
    /// The name as it stands in SQL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn new(name: &str) -> Option<Self> {
        is_plain(name).then(|| Self(name.to_owned()))
    }
}

impl Setting for TableName {
    fn kind() -> String {
        "table name".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a table name of letters, digits and underscores, with an optional schema \
                                (\"shop.outbox_event\"), at most 48 characters long";
        let name = Self(text(node, EXPECTED)?.to_owned());
        if name.is_safe() { Ok(name) } else { Err(Wrong::expected(EXPECTED)) }
    }
}

impl Setting for ColumnName {
    fn kind() -> String {
        "column name".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a column name of letters, digits and underscores, at most 48 characters long";
        Self::new(text(node, EXPECTED)?).ok_or_else(|| Wrong::expected(EXPECTED))
    }
}

fn is_plain(name: &str) -> bool {
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.len() <= LONGEST && name.chars().all(word) && name.starts_with(|first: char| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Result<TableName, Wrong> {
        TableName::read(&Node::of_default(name), &Environment::default())
    }

    #[test]
    fn a_schema_is_allowed_once() {
        assert_eq!(table("shop.outbox_event").unwrap().as_str(), "shop.outbox_event");
        assert!(table("a.b.c").is_err());
    }

    #[test]
    fn names_that_sql_would_misread_are_refused() {
        let long = "x".repeat(49);
        for name in ["", "1st", "a b", "a;drop", "a\"b", ".a", "a.", "ärger", "a-b", long.as_str()] {
            assert!(table(name).is_err(), "{name}");
        }
    }
}
