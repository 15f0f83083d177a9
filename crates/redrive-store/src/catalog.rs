//! A table as the database's own catalogue describes it: which columns there are, of which type, and what they
//! require.
//!
//! A table that an application made itself has columns of its own types: a payload of JSONB, a key of BIGINT, an id
//! that is unsigned. Statements are written for the columns that are there: [`ColumnInfo::as_text`] reads one as text,
//! [`ColumnInfo::store_text`] stores text in it; what it can hold is in [`crate::convert`]. A type that cannot be used
//! is a problem that a migration names; see [`crate::adoption`].

use crate::caller::Caller;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::insert::Executor;
use crate::statement::Statement;
use crate::value::Value;

/// How the catalogue marks a column that is computed, and an identity that takes no value.
const GENERATED: i64 = 1;
const NUMBERED: i64 = 2;

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
    Date,
    Bool,
    /// The database reads text into it by rules of its own; values of it are never compared.
    Opaque,
    Other,
}

/// The most characters of a text that an index of MySQL has to hold.
const LONGEST_INDEXED: usize = 255;

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) kind: ColumnType,
    /// The type as the table declares it, such as `character varying(100)`.
    pub(crate) declared: String,
    /// The type without length, scale and sign: `int4`, `bigint`. SQLite has no other than the declared one.
    pub(crate) base: String,
    /// The type that Postgres casts to: without its length, because a cast cuts what an INSERT refuses. For a text of
    /// MySQL its character set.
    pub(crate) cast: String,
    /// How many characters it holds, if that is limited.
    pub(crate) max_chars: Option<usize>,
    /// How many bytes it holds, for text that MySQL limits so.
    pub(crate) max_bytes: Option<usize>,
    pub(crate) is_nullable: bool,
    /// It has a value when an INSERT leaves it out: a default, an identity, an auto-increment.
    pub(crate) has_default: bool,
    pub(crate) is_generated: bool,
    /// An identity that takes no value: `GENERATED ALWAYS AS IDENTITY` of Postgres.
    pub(crate) is_numbered: bool,
    /// The values of an enumeration.
    pub(crate) labels: Vec<String>,
}

/// The columns of a table; none where there is no such table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnInfo>,
    /// SQLite only: ids of deleted rows are given to new ones.
    pub(crate) reuses_ids: bool,
}

impl Table {
    /// The table of this name on a connection of the caller's own, with a schema before a dot if it has one.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn of(mut caller: Caller<'_>, table: &str) -> Result<Self, Error> {
        let dialect = caller.dialect();
        Self::read(&mut caller, dialect, table).await
    }

    /// The table of this name, with a schema before a dot if it has one.
    pub(crate) async fn read(
        session: &mut dyn Executor,
        dialect: Dialect,
        table: &str,
    ) -> Result<Self, Error> {
        let (schema, name) = split(table);
        let values = match dialect {
            Dialect::Sqlite => vec![Value::Text(name.clone())],
            Dialect::Postgres | Dialect::MySql => vec![Value::Text(name.clone()), Value::OptText(schema)],
        };
        let rows = session.rows(&Statement::new(dialect, columns(dialect)), values).await?;
        let mut columns = Vec::with_capacity(rows.len());
        for row in &rows {
            let (declared, base) = (row.text(1)?, row.text(2)?.to_lowercase());
            let kind = kind(dialect, &base, &declared);
            let max = row.opt_int(3)?.filter(|_| kind == ColumnType::Text);
            let max = max.and_then(|max| usize::try_from(max).ok()).filter(|max| *max <= LONG);
            // A *TEXT type of MySQL is limited in bytes, not in characters.
            let is_of_bytes = dialect == Dialect::MySql && base.ends_with("text");
            columns.push(ColumnInfo {
                name: row.text(0)?,
                dialect,
                kind,
                max_chars: max.map(|max| if is_of_bytes { max / 4 } else { max }),
                max_bytes: max.filter(|_| is_of_bytes),
                is_nullable: row.int(4)? != 0,
                has_default: row.int(5)? != 0,
                is_generated: row.int(6)? == GENERATED,
                is_numbered: row.int(6)? == NUMBERED,
                labels: labels(dialect, &declared, row.opt_text(7)?),
                cast: row.opt_text(8)?.unwrap_or_else(|| declared.clone()),
                base,
                declared,
            });
        }
        if dialect == Dialect::MySql && columns.iter().any(|column| column.base == "longtext") {
            mark_json(session, &mut columns, table).await?;
        }
        let reuses_ids =
            dialect == Dialect::Sqlite && !columns.is_empty() && reuses_ids(session, &name).await?;
        Ok(Self { name: table.to_owned(), columns, reuses_ids })
    }

    /// Whether there is such a table.
    #[must_use]
    pub fn exists(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The names of its columns, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// The column of this name. MySQL and SQLite take no notice of capitals.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
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

    /// A column as part of an index.
    pub(crate) fn in_index(&self, column: &str, quoted: &str) -> String {
        self.column(column).map_or_else(|| quoted.to_owned(), |column| column.in_index(quoted))
    }

    /// The columns that an INSERT of ours must name although it has no value for them.
    pub(crate) fn without_default<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a ColumnInfo> {
        let is_known = |column: &ColumnInfo| known.iter().any(|known| column.is_named(known));
        self.columns.iter().filter(move |column| column.is_required() && !is_known(column))
    }
}

impl ColumnInfo {
    pub(crate) fn is_named(&self, name: &str) -> bool {
        match self.dialect {
            Dialect::Postgres => self.name == name,
            Dialect::Sqlite | Dialect::MySql => self.name.eq_ignore_ascii_case(name),
        }
    }

    /// An INSERT that leaves it out fails.
    pub(crate) const fn is_required(&self) -> bool {
        !self.is_nullable && !self.has_default && !self.is_generated
    }

    /// Whether it can be the column that a statement of redrive's would add so: `lease BIGINT NOT NULL …`.
    pub(crate) fn can_be(&self, definition: &str) -> bool {
        let is_computed = definition.contains(" AS (");
        let mut words = definition.split([' ', '(']).skip(1);
        let is_number = matches!(self.kind, ColumnType::Integer | ColumnType::Unsigned);
        let fits = match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "BIGINT" | "INT" | "INTEGER" | "SMALLINT" | "TINYINT" => is_number,
            "BOOLEAN" => self.kind == ColumnType::Bool || (self.dialect != Dialect::Postgres && is_number),
            "DATETIME" | "TIMESTAMP" | "TIMESTAMPTZ" => self.kind == ColumnType::Time,
            "VARBINARY" => self.kind == ColumnType::Bytes,
            // SQLite keeps times as text.
            _ if self.dialect == Dialect::Sqlite => !is_number && self.kind != ColumnType::Bytes,
            _ => self.kind == ColumnType::Text,
        };
        fits && is_computed == self.is_generated
    }

    /// Its character set has every character.
    pub(crate) fn holds_all_text(&self) -> bool {
        self.dialect != Dialect::MySql || self.kind != ColumnType::Text || self.cast == "utf8mb4"
    }

    /// It holds numbers that a row of redrive's cannot: those of 2^63 and more.
    pub(crate) fn is_wide(&self) -> bool {
        self.kind == ColumnType::Unsigned && self.base == "bigint"
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it holds bytes. Text goes into it as its UTF-8.
    #[must_use]
    pub fn is_bytes(&self) -> bool {
        self.kind == ColumnType::Bytes
    }

    /// Itself as part of an index: MySQL takes the beginning of a long text only.
    pub(crate) fn in_index(&self, quoted: &str) -> String {
        let is_long = self.max_chars.is_none_or(|max| max > LONGEST_INDEXED);
        match (self.dialect, self.kind) {
            (Dialect::MySql, ColumnType::Text) if is_long => format!("{quoted}({LONGEST_INDEXED})"),
            _ => quoted.to_owned(),
        }
    }

    /// Its value as text. Text columns stay as they are, so that their indexes are used.
    pub(crate) fn as_text(&self, expression: &str) -> String {
        match (self.dialect, self.kind) {
            // A CHAR of Postgres has blanks at its end, up to its length.
            (Dialect::Postgres, ColumnType::Text) if self.base == "bpchar" => format!("{expression}::text"),
            (_, ColumnType::Text | ColumnType::Bytes) | (Dialect::Sqlite, _) => expression.to_owned(),
            (Dialect::Postgres, _) => format!("{expression}::text"),
            (Dialect::MySql, ColumnType::Enum | ColumnType::Json) => expression.to_owned(),
            (Dialect::MySql, ColumnType::UuidBytes) => uuid_text(expression),
            (Dialect::MySql, ColumnType::Bool) => format!("CAST({expression} + 0 AS CHAR)"),
            // As a double: a FLOAT shows six digits of those it has.
            (Dialect::MySql, ColumnType::Number) if self.base == "float" => {
                format!("CAST({expression} + 0e0 AS CHAR)")
            }
            (Dialect::MySql, _) => format!("CAST({expression} AS CHAR)"),
        }
    }

    /// The SQL that makes a text, as [`ColumnInfo::convert`] returns it, a value of its type.
    #[must_use]
    pub fn store_text(&self, text: &str) -> String {
        match (self.dialect, self.kind) {
            (Dialect::Postgres, ColumnType::Text) => text.to_owned(),
            (Dialect::Postgres, ColumnType::Bytes) => format!("convert_to({text}, 'UTF8')"),
            (Dialect::Postgres, _) => format!("({text})::{}", self.cast),
            (Dialect::MySql, ColumnType::Bool) => format!("CAST({text} AS UNSIGNED)"),
            (Dialect::MySql, ColumnType::UuidBytes) => format!("UNHEX(REPLACE({text}, '-', ''))"),
            (Dialect::Sqlite, ColumnType::Bytes) => format!("CAST({text} AS BLOB)"),
            (Dialect::MySql | Dialect::Sqlite, _) => text.to_owned(),
        }
    }

    /// A text without what is beyond its length.
    pub(crate) fn cut(&self, text: &str) -> String {
        let cut = match (self.max_chars, self.dialect) {
            (None, _) | (_, Dialect::Sqlite) => text.to_owned(),
            (Some(max), Dialect::Postgres) => format!("left({text}, {max})"),
            (Some(max), Dialect::MySql) => format!("LEFT({text}, {max})"),
        };
        match self.holds_all_text() {
            true => cut,
            // Strict mode refuses to convert what the character set lacks.
            false => format!("REGEXP_REPLACE({cut}, {}, '?')", self.dialect.literal(lacking(&self.cast))),
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
}

/// What a character set of MySQL's surely lacks, as a pattern: what it surely has is as much as is kept.
fn lacking(charset: &str) -> &'static str {
    match charset {
        "utf8" | "utf8mb3" => "[^\u{1}-\u{d7ff}\u{e000}-\u{ffff}]",
        "latin1" => "[^\u{1}-\u{7e}\u{a0}-\u{ff}]",
        _ => "[^\u{1}-\u{7e}]",
    }
}

/// The schema, if it is given, and the name.
pub(crate) fn split(table: &str) -> (Option<String>, String) {
    match table.split_once('.') {
        Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
        None => (None, table.to_owned()),
    }
}

/// JSON of MariaDB is a LONGTEXT with a constraint.
async fn mark_json(session: &mut dyn Executor, columns: &mut [ColumnInfo], table: &str) -> Result<(), Error> {
    // MySQL has JSON of its own, and does not say to which table a constraint belongs.
    if !is_mariadb(session).await? {
        return Ok(());
    }
    let (schema, name) = split(table);
    let constraints = Statement::new(Dialect::MySql, include_str!("../sql/mysql/catalog/json.sql"));
    for row in session.rows(&constraints, vec![Value::Text(name), Value::OptText(schema)]).await? {
        let name = row.text(0)?;
        for column in columns.iter_mut().filter(|column| column.is_named(&name)) {
            (column.kind, column.declared) = (ColumnType::Json, "json".to_owned());
            (column.max_chars, column.max_bytes) = (None, None);
        }
    }
    Ok(())
}

/// Whether a server of MySQL's protocol is MariaDB.
pub(crate) async fn is_mariadb(session: &mut dyn Executor) -> Result<bool, Error> {
    let version = Statement::new(Dialect::MySql, "SELECT VERSION() LIKE '%MariaDB%'");
    let rows = session.rows(&version, Vec::new()).await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()? == Some(1))
}

/// SQLite gives the id of a deleted row to a new one, unless the table says AUTOINCREMENT.
async fn reuses_ids(session: &mut dyn Executor, table: &str) -> Result<bool, Error> {
    let text = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1 COLLATE NOCASE \
                AND upper(sql) LIKE '%AUTOINCREMENT%'";
    let rows =
        session.rows(&Statement::new(Dialect::Sqlite, text), vec![Value::Text(table.to_owned())]).await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?.unwrap_or(0) == 0)
}

fn kind(dialect: Dialect, base: &str, declared: &str) -> ColumnType {
    let declared = declared.to_lowercase();
    match dialect {
        Dialect::Postgres => postgres_kind(base),
        Dialect::MySql => mysql_kind(base, &declared),
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
        "date" => ColumnType::Date,
        _ => ColumnType::Opaque,
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
        "date" => ColumnType::Date,
        "bit" if declared == "bit(1)" => ColumnType::Bool,
        "time" | "year" | "set" | "inet4" | "inet6" => ColumnType::Opaque,
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
    } else if has(&["json"]) {
        ColumnType::Json
    } else if has(&["char", "clob", "text", "uuid", "enum"]) {
        ColumnType::Text
    } else if has(&["blob", "binary", "bytea"]) {
        ColumnType::Bytes
    } else if declared == "date" {
        ColumnType::Date
    } else if has(&["date", "time"]) {
        ColumnType::Time
    } else if has(&["real", "floa", "doub", "num", "dec"]) {
        ColumnType::Number
    } else {
        // Whatever else it is called, SQLite keeps what it is given.
        ColumnType::Text
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
    list.map_or_else(Vec::new, quoted_labels)
}

/// `'a','it''s'`: a comma may be part of a label, and so may a quote, twice.
fn quoted_labels(list: &str) -> Vec<String> {
    let inside = list.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(list);
    inside.split("','").map(|label| label.replace("''", "'")).collect()
}

fn uuid_text(expression: &str) -> String {
    let part = |at: u32, length: u32| format!("SUBSTR(HEX({expression}), {at}, {length})");
    let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)];
    format!("LOWER(CONCAT_WS('-', {}))", parts.join(", "))
}

/// Name, declared type, base type, most characters, nullable, has a default, generated, labels, type to cast to.
const fn columns(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => include_str!("../sql/sqlite/catalog/columns.sql"),
        Dialect::Postgres => include_str!("../sql/postgres/catalog/columns.sql"),
        Dialect::MySql => include_str!("../sql/mysql/catalog/columns.sql"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A column of this type, as the catalogue would describe it.
    pub(crate) fn column(dialect: Dialect, base: &str, declared: &str) -> ColumnInfo {
        ColumnInfo {
            name: "payload".into(),
            dialect,
            kind: kind(dialect, base, declared),
            base: base.into(),
            cast: declared.into(),
            max_chars: None,
            max_bytes: None,
            is_nullable: true,
            has_default: false,
            is_generated: false,
            is_numbered: false,
            labels: labels(dialect, declared, None),
            declared: declared.into(),
        }
    }

    #[test]
    fn a_text_becomes_a_value_of_the_columns_own_type() {
        let jsonb = column(Dialect::Postgres, "jsonb", "jsonb");
        assert_eq!(jsonb.store_text("c3"), "(c3)::jsonb");
        assert_eq!(jsonb.as_text("t.payload"), "t.payload::text");
        let bytea = column(Dialect::Postgres, "bytea", "bytea");
        assert_eq!(bytea.store_text("c3"), "convert_to(c3, 'UTF8')");
        let plain = column(Dialect::Postgres, "text", "text");
        assert_eq!((plain.store_text("c3"), plain.as_text("t.payload")), ("c3".into(), "t.payload".into()));
    }

    #[test]
    fn a_text_is_cut_to_the_length_of_the_column() {
        let short = ColumnInfo { max_chars: Some(3), ..column(Dialect::Postgres, "text", "text") };
        assert_eq!(short.cut("s.message"), "left(s.message, 3)");
    }

    #[test]
    fn null_becomes_an_empty_text_where_none_is_allowed() {
        let from = column(Dialect::Postgres, "text", "text");
        let to = ColumnInfo { is_nullable: false, ..from.clone() };
        assert_eq!(to.copied_from(&from, "t.a"), "COALESCE(t.a, '')");
        assert_eq!(from.copied_from(&to, "t.a"), "t.a");
    }

    #[test]
    fn the_labels_of_an_enumeration_are_known() {
        assert_eq!(labels(Dialect::MySql, "enum('a','b,c','it''s')", None), ["a", "b,c", "it's"]);
    }
}
