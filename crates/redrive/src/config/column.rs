//! Columns that are filled from JSON: `{ id = { path = "$.id", required = true }, body = "$" }`.

use redrive_core::column::{Column, Kind, Path};

use super::document::{Node, Value};
use super::environment::Environment;
use super::identifier::ColumnName;
use super::section::Section;
use super::setting::{Setting, Wrong, text};
use super::suggestion::alternatives;

/// What a column gets.
struct ColumnSource {
    path: Path,
    kind: Kind,
    is_required: bool,
}

/// The columns of this section, each with the part of the JSON that it gets.
pub(crate) fn read(section: &mut Section<'_>, doc: &'static str) -> Vec<Column> {
    let mut columns = Vec::new();
    for (name, source) in section.named_values::<ColumnSource>("COLUMN", doc) {
        match ColumnName::new(&name) {
            Some(_) => columns.push(source.column(&name)),
            None => section.refuse(
                &name,
                "found a key that is no column name, expected letters, digits and underscores",
            ),
        }
    }
    columns
}

impl ColumnSource {
    fn column(self, name: &str) -> Column {
        let column = Column::of_path(name, self.path).of(self.kind);
        if self.is_required { column.required() } else { column }
    }
}

impl Setting for Path {
    fn kind() -> String {
        "JSON path".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a path into the record, such as \"$.id\", or \"$\" for the whole";
        text(node, EXPECTED)?.parse().map_err(|_| Wrong::expected(EXPECTED))
    }
}

impl Setting for Kind {
    fn kind() -> String {
        alternatives(Self::ALL.map(Self::name), "\"")
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        let expected = <Self as Setting>::kind();
        let name = text(node, &expected)?;
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| Wrong::expected(expected))
    }
}

impl Setting for ColumnSource {
    fn kind() -> String {
        "JSON path, or table of `path`, `type`, `required`".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        let Value::Table(table) = &node.value else {
            let path = Path::read(node, environment)?;
            return Ok(Self { path, kind: Kind::Any, is_required: false });
        };
        let known = ["path", "type", "required"];
        if let Some(entry) = table.entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            let key = entry.key.escape_debug();
            return Err(Wrong::because(format!(
                "unknown key `{key}`: expected `path`, `type` or `required`"
            )));
        }
        let within = |key: &str, wrong: Wrong| match wrong {
            Wrong::Expected(what) => Wrong::because(format!("found a wrong `{key}`, expected {what}")),
            because @ Wrong::Because(_) => because,
        };
        let path = table
            .entry("path")
            .ok_or_else(|| Wrong::because("found no `path`, expected one such as \"$.id\""))?;
        let path = Path::read(&path.node, environment).map_err(|wrong| within("path", wrong))?;
        let kind = match table.entry("type") {
            Some(entry) => Kind::read(&entry.node, environment).map_err(|wrong| within("type", wrong))?,
            None => Kind::Any,
        };
        let is_required = match table.entry("required").map(|entry| &entry.node.value) {
            None => false,
            Some(Value::Boolean(required)) => *required,
            Some(_) => return Err(Wrong::because("found a wrong `required`, expected true or false")),
        };
        Ok(Self { path, kind, is_required })
    }
}
