//! A table as the database's own catalogue describes it: which columns there are, of which type, and what they
//! require.
//!
//! A table that an application made itself has columns of its own types: a payload of JSONB, a key of BIGINT, an id
//! that is unsigned. Statements are written for the columns that are there: [`ColumnInfo::as_text`] reads one as text,
//! [`ColumnInfo::store_text`] stores text in it, and [`ColumnInfo::accepts`] says beforehand whether it can hold a
//! value. A type that cannot be used is a problem that a migration names; see [`crate::adoption`].

use serde::de::IgnoredAny;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::Statement;
use crate::value::Value;

/// A limit beyond this is none: no text that is cut is so long.
const LONG: usize = 1 << 20;

/// What a column holds, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Text,
    Enum,
    Integer,
    Unsigned,
    Number,
    Uuid,
    /// `BINARY(16)` of MySQL: a UUID in its 16 bytes.
    UuidBytes,
    Json,
    Bytes,
    Time,
    Bool,
    Other,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnInfo {
    pub(crate) name: String,
    dialect: Dialect,
    pub(crate) kind: ColumnType,
    /// The type as the table declares it, such as `character varying(100)`.
    pub(crate) declared: String,
    /// How many characters it holds, if that is limited.
    pub(crate) max_chars: Option<usize>,
    pub(crate) is_nullable: bool,
    /// It has a value when an INSERT leaves it out: a default, an identity, an auto-increment.
    pub(crate) has_default: bool,
    pub(crate) is_generated: bool,
    /// The values of an enumeration.
    pub(crate) labels: Vec<String>,
}

/// The columns of a table; none where there is no such table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnInfo>,
    /// SQLite only: ids of deleted rows are given to new ones.
    pub(crate) reuses_ids: bool,
}

impl Table {
    /// The table of this name, with a schema before a dot if it has one.
    pub(crate) async fn read(session: &mut Session, dialect: Dialect, table: &str) -> Result<Self, Error> {
        let (schema, name) = split(table);
        let values = match dialect {
            Dialect::Sqlite => vec![Value::Text(name.clone())],
            Dialect::Postgres | Dialect::MySql => vec![Value::Text(name.clone()), Value::OptText(schema)],
        };
        let rows = session.rows(&Statement::new(dialect, columns(dialect)), values).await?;
        let mut columns = Vec::with_capacity(rows.len());
        for row in &rows {
            let declared = row.text(1)?;
            let kind = kind(dialect, &row.text(2)?, &declared);
            let max_chars = row.opt_int(3)?.filter(|_| kind == ColumnType::Text);
            columns.push(ColumnInfo {
                name: row.text(0)?,
                dialect,
                kind,
                max_chars: max_chars.and_then(|max| usize::try_from(max).ok()).filter(|max| *max <= LONG),
                is_nullable: row.int(4)? != 0,
                has_default: row.int(5)? != 0,
                is_generated: row.int(6)? != 0,
                labels: labels(dialect, &declared, row.opt_text(7)?),
                declared,
            });
        }
        let reuses_ids =
            dialect == Dialect::Sqlite && !columns.is_empty() && reuses_ids(session, &name).await?;
        Ok(Self { name: table.to_owned(), columns, reuses_ids })
    }

    pub(crate) fn exists(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The column of this name. MySQL and SQLite take no notice of capitals.
    pub(crate) fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.is_named(name))
    }

    /// This column of `from` (`t.`, or nothing) as text.
    pub(crate) fn text_of(&self, from: &str, column: &str, quoted: &str) -> String {
        let expression = format!("{from}{quoted}");
        self.column(column).map_or_else(|| expression.clone(), |column| column.as_text(&expression))
    }

    /// A text, as this column stores it; `@` in patterns stands for it.
    pub(crate) fn stored(&self, column: &str, text: &str) -> String {
        self.column(column).map_or_else(|| text.to_owned(), |column| column.store_text(text))
    }

    /// A text cut to what this column holds.
    pub(crate) fn cut(&self, column: &str, text: &str) -> String {
        match self.column(column) {
            Some(column) => column.cut(text),
            None => text.to_owned(),
        }
    }

    /// The columns that an INSERT of ours must name although it has no value for them.
    pub(crate) fn without_default<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a ColumnInfo> {
        let is_known = |column: &ColumnInfo| known.iter().any(|known| column.is_named(known));
        self.columns.iter().filter(move |column| column.is_required() && !is_known(column))
    }
}

impl ColumnInfo {
    fn is_named(&self, name: &str) -> bool {
        match self.dialect {
            Dialect::Postgres => self.name == name,
            Dialect::Sqlite | Dialect::MySql => self.name.eq_ignore_ascii_case(name),
        }
    }

    /// An INSERT that leaves it out fails.
    pub(crate) const fn is_required(&self) -> bool {
        !self.is_nullable && !self.has_default && !self.is_generated
    }

    /// Its value as text. Text columns stay as they are, so that their indexes are used.
    pub(crate) fn as_text(&self, expression: &str) -> String {
        match (self.dialect, self.kind) {
            (_, ColumnType::Text | ColumnType::Bytes) | (Dialect::Sqlite, _) => expression.to_owned(),
            (Dialect::Postgres, _) => format!("{expression}::text"),
            (Dialect::MySql, ColumnType::Enum | ColumnType::Json) => expression.to_owned(),
            (Dialect::MySql, ColumnType::UuidBytes) => uuid_text(expression),
            (Dialect::MySql, _) => format!("CAST({expression} AS CHAR)"),
        }
    }

    /// A text as a value of its type.
    pub(crate) fn store_text(&self, text: &str) -> String {
        match (self.dialect, self.kind) {
            (Dialect::Postgres, ColumnType::Text) => text.to_owned(),
            (Dialect::Postgres, ColumnType::Bytes) => format!("convert_to({text}, 'UTF8')"),
            (Dialect::Postgres, _) => format!("({text})::{}", self.declared),
            (Dialect::MySql, ColumnType::UuidBytes) => format!("UNHEX(REPLACE({text}, '-', ''))"),
            (Dialect::Sqlite, ColumnType::Bytes) => format!("CAST({text} AS BLOB)"),
            (Dialect::MySql | Dialect::Sqlite, _) => text.to_owned(),
        }
    }

    /// A text without what is beyond its length.
    pub(crate) fn cut(&self, text: &str) -> String {
        match (self.max_chars, self.dialect) {
            (None, _) | (_, Dialect::Sqlite) => text.to_owned(),
            (Some(max), Dialect::Postgres) => format!("left({text}, {max})"),
            (Some(max), Dialect::MySql) => format!("LEFT({text}, {max})"),
        }
    }

    /// The value of another column, converted, cut and never NULL where this one allows none.
    pub(crate) fn copied_from(&self, other: &Self, expression: &str) -> String {
        let is_same = self.declared == other.declared && self.kind == other.kind;
        let is_bytes = matches!(self.kind, ColumnType::Bytes) && matches!(other.kind, ColumnType::Bytes);
        let converted = if is_same || is_bytes {
            expression.to_owned()
        } else {
            self.store_text(&self.cut(&other.as_text(expression)))
        };
        match (self.is_nullable || !other.is_nullable, self.empty()) {
            (false, Some(empty)) => format!("COALESCE({converted}, {empty})"),
            _ => converted,
        }
    }

    /// What stands for "nothing" where NULL is not allowed.
    const fn empty(&self) -> Option<&'static str> {
        match self.kind {
            ColumnType::Text => Some("''"),
            ColumnType::Integer | ColumnType::Unsigned | ColumnType::Number => Some("0"),
            _ => None,
        }
    }

    /// Whether it can hold this text; if not, what would be right.
    pub(crate) fn accepts(&self, text: &str) -> Result<(), String> {
        let wanted = match self.kind {
            ColumnType::Integer if text.parse::<i64>().is_err() => "a whole number",
            ColumnType::Unsigned if text.parse::<u64>().is_err() => "a whole number that is not negative",
            ColumnType::Number if text.parse::<f64>().is_err() => "a number",
            ColumnType::Uuid | ColumnType::UuidBytes if !is_uuid(text) => "a UUID",
            ColumnType::Json if serde_json::from_str::<IgnoredAny>(text).is_err() => "JSON",
            ColumnType::Enum if !self.labels.is_empty() && !self.labels.iter().any(|label| label == text) => {
                return Err(format!(
                    "must be one of {}: the column is an enumeration",
                    self.labels.join(", ")
                ));
            }
            _ => return self.accepts_length(text),
        };
        Err(format!("must be {wanted}: the column {} is of the type {}", self.name, self.declared))
    }

    /// A text in the form in which the column gives it back.
    pub(crate) fn canonical(&self, text: &str) -> String {
        match self.kind {
            ColumnType::Integer | ColumnType::Unsigned => {
                text.parse::<i128>().map_or_else(|_| text.to_owned(), |number| number.to_string())
            }
            ColumnType::Number => {
                text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string())
            }
            ColumnType::Uuid | ColumnType::UuidBytes => text.replace('-', "").to_lowercase(),
            _ => text.to_owned(),
        }
    }

    /// Whether two texts are the same value of this column.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        if self.kind == ColumnType::Json {
            let value = |text| serde_json::from_str::<serde_json::Value>(text);
            return matches!((value(one), value(other)), (Ok(one), Ok(other)) if one == other);
        }
        self.canonical(one) == self.canonical(other)
    }

    fn accepts_length(&self, text: &str) -> Result<(), String> {
        match self.max_chars {
            Some(max) if text.len() > max && text.chars().count() > max => {
                Err(format!("has {} characters: the column {} holds {max}", text.chars().count(), self.name))
            }
            _ => Ok(()),
        }
    }
}

fn is_uuid(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    digits.len() == 32 && digits.iter().all(char::is_ascii_hexdigit)
}

/// The schema, if it is given, and the name.
pub(crate) fn split(table: &str) -> (Option<String>, String) {
    match table.split_once('.') {
        Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
        None => (None, table.to_owned()),
    }
}

/// SQLite gives the id of a deleted row to a new one, unless the table says AUTOINCREMENT.
async fn reuses_ids(session: &mut Session, table: &str) -> Result<bool, Error> {
    let text = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1 COLLATE NOCASE \
                AND upper(sql) LIKE '%AUTOINCREMENT%'";
    let rows =
        session.rows(&Statement::new(Dialect::Sqlite, text), vec![Value::Text(table.to_owned())]).await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?.unwrap_or(0) == 0)
}

fn kind(dialect: Dialect, base: &str, declared: &str) -> ColumnType {
    let (base, declared) = (base.to_lowercase(), declared.to_lowercase());
    match dialect {
        Dialect::Postgres => postgres_kind(&base),
        Dialect::MySql => mysql_kind(&base, &declared),
        Dialect::Sqlite => sqlite_kind(&declared),
    }
}

fn postgres_kind(base: &str) -> ColumnType {
    match base {
        "enum" => ColumnType::Enum,
        "bool" => ColumnType::Bool,
        "int2" | "int4" | "int8" => ColumnType::Integer,
        "numeric" | "float4" | "float8" => ColumnType::Number,
        "uuid" => ColumnType::Uuid,
        "text" | "varchar" | "bpchar" | "citext" | "name" => ColumnType::Text,
        "json" | "jsonb" => ColumnType::Json,
        "bytea" => ColumnType::Bytes,
        "timestamp" | "timestamptz" => ColumnType::Time,
        _ => ColumnType::Other,
    }
}

fn mysql_kind(base: &str, declared: &str) -> ColumnType {
    match base {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" if declared.contains("unsigned") => {
            ColumnType::Unsigned
        }
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => ColumnType::Integer,
        "decimal" | "float" | "double" => ColumnType::Number,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => ColumnType::Text,
        "enum" => ColumnType::Enum,
        "json" => ColumnType::Json,
        "binary" if declared == "binary(16)" => ColumnType::UuidBytes,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => ColumnType::Bytes,
        "uuid" => ColumnType::Uuid,
        "datetime" | "timestamp" => ColumnType::Time,
        "bit" => ColumnType::Bool,
        _ => ColumnType::Other,
    }
}

/// By the rules of SQLite's affinity, and the words that people use beyond them.
fn sqlite_kind(declared: &str) -> ColumnType {
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["bool"]) {
        ColumnType::Bool
    } else if has(&["int"]) {
        ColumnType::Integer
    } else if has(&["char", "clob", "text", "json", "uuid", "enum"]) || declared.is_empty() {
        ColumnType::Text
    } else if has(&["blob", "binary", "bytea"]) {
        ColumnType::Bytes
    } else if has(&["date", "time"]) {
        ColumnType::Time
    } else {
        ColumnType::Number
    }
}

/// Postgres lists them; MySQL has them in its type: `enum('a','b')`.
fn labels(dialect: Dialect, declared: &str, listed: Option<String>) -> Vec<String> {
    let list = match dialect {
        Dialect::Postgres => {
            return listed.map_or_else(Vec::new, |list| list.split('\n').map(str::to_owned).collect());
        }
        Dialect::MySql => declared.strip_prefix("enum(").and_then(|rest| rest.strip_suffix(')')),
        Dialect::Sqlite => None,
    };
    let label = |label: &str| label.trim_matches('\'').replace("''", "'");
    list.map_or_else(Vec::new, |list| list.split(',').map(label).collect())
}

fn uuid_text(expression: &str) -> String {
    let part = |at: u32, length: u32| format!("SUBSTR(HEX({expression}), {at}, {length})");
    let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)];
    format!("LOWER(CONCAT_WS('-', {}))", parts.join(", "))
}

/// Name, declared type, base type, most characters, nullable, has a default, generated, labels.
const fn columns(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => include_str!("../sql/sqlite/catalog/columns.sql"),
        Dialect::Postgres => include_str!("../sql/postgres/catalog/columns.sql"),
        Dialect::MySql => include_str!("../sql/mysql/catalog/columns.sql"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(dialect: Dialect, kind: ColumnType, declared: &str) -> ColumnInfo {
        ColumnInfo {
            name: "payload".into(),
            dialect,
            kind,
            declared: declared.into(),
            max_chars: None,
            is_nullable: true,
            has_default: false,
            is_generated: false,
            labels: Vec::new(),
        }
    }

    #[test]
    fn a_text_becomes_a_value_of_the_columns_own_type() {
        let jsonb = column(Dialect::Postgres, ColumnType::Json, "jsonb");
        assert_eq!(jsonb.store_text("c3"), "(c3)::jsonb");
        assert_eq!(jsonb.as_text("t.payload"), "t.payload::text");
        let bytea = column(Dialect::Postgres, ColumnType::Bytes, "bytea");
        assert_eq!(bytea.store_text("c3"), "convert_to(c3, 'UTF8')");
        let plain = column(Dialect::Postgres, ColumnType::Text, "text");
        assert_eq!((plain.store_text("c3"), plain.as_text("t.payload")), ("c3".into(), "t.payload".into()));
    }

    #[test]
    fn a_value_that_the_column_cannot_hold_is_refused_with_what_would_be_right() {
        let number = column(Dialect::MySql, ColumnType::Unsigned, "bigint(20) unsigned");
        assert!(number.accepts("42").is_ok());
        assert!(number.accepts("-1").unwrap_err().contains("not negative"));
        let short = ColumnInfo { max_chars: Some(3), ..column(Dialect::Postgres, ColumnType::Text, "text") };
        assert!(short.accepts("éàü").is_ok());
        assert!(short.accepts("four").unwrap_err().contains("holds 3"));
        assert_eq!(short.cut("s.message"), "left(s.message, 3)");
    }

    #[test]
    fn null_becomes_an_empty_text_where_none_is_allowed() {
        let from = column(Dialect::Postgres, ColumnType::Text, "text");
        let to = ColumnInfo { is_nullable: false, ..from.clone() };
        assert_eq!(to.copied_from(&from, "t.a"), "COALESCE(t.a, '')");
        assert_eq!(from.copied_from(&to, "t.a"), "t.a");
    }

    #[test]
    fn the_labels_of_an_enumeration_are_known() {
        assert_eq!(labels(Dialect::MySql, "enum('a','b')", None), ["a", "b"]);
    }
}
