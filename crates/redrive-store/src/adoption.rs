//! Adoption: whether a table that an application made itself can be used, and what would have to change.
//!
//! The whole of what is there is looked at before anything is changed. Every problem is named, with the statement that
//! fixes it; while there is one, a migration changes nothing.

use std::sync::{Arc, Mutex, PoisonError};

use crate::catalog::{ColumnInfo, ColumnType, Table, split};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::indexes::Index;
use crate::rights::{Grant, Rights};
use crate::schema;
use crate::session::Session;
use crate::statement::Statement;
use crate::value::Value;

/// What a migration of one pipeline would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The statements that it would run, in order; none when the tables are as they should be.
    pub statements: Vec<String>,
    /// What keeps the tables from being used. While there is anything here, a migration changes nothing.
    pub problems: Vec<String>,
    /// What redrive leaves alone in tables that it can use otherwise: rows that it cannot handle.
    pub unserved: Vec<String>,
    /// The rights that a role needs that uses the tables and changes nothing about them.
    pub grants: Vec<Grant>,
}

impl Plan {
    /// Both plans.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        // A schema that is missing is made once.
        let is_new = |statement: &String| !self.statements.contains(statement);
        let new: Vec<String> = other.statements.into_iter().filter(is_new).collect();
        self.statements.extend(new);
        self.problems.extend(other.problems);
        self.unserved.extend(other.unserved);
        self.grants.extend(
            other.grants.into_iter().filter(|grant| !self.grants.contains(grant)).collect::<Vec<_>>(),
        );
        self
    }

    /// The same plan, with what must be granted on these tables; what is missing is a problem.
    pub(crate) async fn with_rights(
        mut self,
        session: &mut Session,
        dialect: Dialect,
        tables: &[String],
        wanted: &[&'static str],
    ) -> Result<Self, Error> {
        for table in tables {
            let Rights { grants, problems } = Rights::on(session, dialect, table, wanted).await?;
            self = self.and(Self { problems, grants, ..Self::default() });
        }
        Ok(self)
    }

    /// Whether the tables lack something that statements of ours name: they were changed since they were migrated.
    #[must_use]
    pub fn lacks_columns(&self) -> bool {
        let adds =
            |statement: &String| statement.starts_with("CREATE TABLE") || statement.contains(" ADD COLUMN ");
        self.statements.iter().any(adds)
    }

    /// # Errors
    /// [`Error::Unsuitable`] when there are problems.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(Error::Unsuitable { problems: self.problems.clone() }),
        }
    }
}

/// What a column is used for, and so which types it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The number of a row.
    Id,
    Count,
    /// A short text that is searched for; numbers, UUIDs and enumerations serve as well.
    Key,
    /// As a key, and part of an index.
    IndexedKey,
    Payload,
    /// A text that may be cut.
    Message,
    /// A text that must not be cut.
    Note,
    Flag,
    Time,
    /// Milliseconds since 1970.
    Millis,
    /// A value of any type that text can be converted to, and that can be compared.
    Value,
    /// A value that is written, and never read.
    Written,
    /// One of these texts.
    Status(&'static [&'static str]),
}

impl Role {
    fn takes(self, dialect: Dialect, kind: ColumnType) -> bool {
        use ColumnType as T;
        let is_number = matches!(kind, T::Integer | T::Unsigned);
        match self {
            Self::Id => is_number && (dialect != Dialect::Postgres || kind == T::Integer),
            Self::Count | Self::Millis => is_number,
            Self::Key | Self::IndexedKey => {
                matches!(kind, T::Text | T::Enum | T::Number | T::Uuid | T::UuidBytes) || is_number
            }
            Self::Payload => matches!(kind, T::Text | T::Json | T::Bytes),
            Self::Message | Self::Note => kind == T::Text,
            Self::Flag => kind == T::Bool || (dialect != Dialect::Postgres && is_number),
            Self::Time => kind == T::Time || dialect == Dialect::Sqlite,
            Self::Value => !matches!(kind, T::Other | T::Opaque),
            Self::Written => kind != T::Other,
            Self::Status(_) => matches!(kind, T::Text | T::Enum),
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Id => "a whole number (BIGINT)",
            Self::Count => "a whole number (INT)",
            Self::Key | Self::IndexedKey => "a text, a number, a UUID or an enumeration",
            Self::Payload => "a text, JSON or bytes",
            Self::Message | Self::Note => "a text (TEXT)",
            Self::Flag => "a BOOLEAN",
            Self::Time => "a point in time (TIMESTAMP or DATETIME)",
            Self::Millis => "a whole number (BIGINT), milliseconds since 1970",
            Self::Value | Self::Written => {
                "a text, a number, a UUID, a time, a date, a BOOLEAN, JSON, bytes or an enumeration"
            }
            Self::Status(_) => "a text (VARCHAR) or an enumeration",
        }
    }
}

/// The longest note that redrive writes, in characters.
const NOTE: usize = 500;
/// MySQL indexes at most 3,072 bytes, and the index has more columns than this one.
const MYSQL_KEY: usize = 700;

/// What is wrong with a table, given what its columns are used for. `file` makes such a table: it says how a column
/// that is missing would be added. A table that does not exist has no problems.
pub(crate) fn problems(dialect: Dialect, table: &Table, file: &str, roles: &[(&str, Role)]) -> Vec<String> {
    if !table.exists() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (name, role) in roles {
        match table.column(name) {
            Some(column) => problems.extend(problem(dialect, table, column, *role)),
            None => problems.push(missing(dialect, table, file, name)),
        }
    }
    problems
}

fn problem(dialect: Dialect, table: &Table, column: &ColumnInfo, role: Role) -> Option<String> {
    let place = format!("{}.{}", table.name, column.name);
    if column.is_generated {
        return Some(format!("{place} is computed by the database: redrive cannot write it"));
    }
    if column.is_numbered && role != Role::Id {
        return Some(format!("{place} is GENERATED ALWAYS AS IDENTITY: redrive cannot write it"));
    }
    if !role.takes(dialect, column.kind) {
        return Some(format!("{place} is of the type {}: it must be {}", column.declared, role.wanted()));
    }
    match (role, column.max_chars) {
        (Role::Flag, _) if column.is_nullable && !column.has_default && dialect != Dialect::Sqlite => {
            let (place_of, name) = (dialect.quote(&table.name), dialect.quote(&column.name));
            Some(format!(
                "{place} may be NULL and has no default, and rows in which it is NULL would never be claimed: {} UPDATE \
                 {place_of} SET {name} = FALSE WHERE {name} IS NULL;",
                alter(dialect, table, &format!("ALTER COLUMN {name} SET DEFAULT FALSE"))
            ))
        }
        (Role::Note, Some(max)) if max < NOTE => Some(format!(
            "{place} holds {max} characters: redrive writes up to {NOTE}: {}",
            wider(dialect, table, column)
        )),
        (Role::IndexedKey, max) if dialect == Dialect::MySql && !is_indexable(column, max) => Some(format!(
            "{place} is of the type {}, which MySQL cannot index: {}",
            column.declared,
            alter(dialect, table, &format!("MODIFY {} VARCHAR(255)", dialect.quote(&column.name)))
        )),
        (Role::Status(wanted), _) if column.kind == ColumnType::Enum => {
            let lacks = |label: &&&str| !column.labels.iter().any(|known| known == **label);
            let lacking: Vec<&str> = wanted.iter().filter(lacks).copied().collect();
            (!lacking.is_empty())
                .then(|| format!("{place} is an enumeration without {}: add them to it", lacking.join(", ")))
        }
        _ => None,
    }
}

fn is_indexable(column: &ColumnInfo, max: Option<usize>) -> bool {
    let is_text_type = column.kind == ColumnType::Text && column.declared.ends_with("text");
    !is_text_type && max.is_none_or(|max| max <= MYSQL_KEY)
}

fn missing(dialect: Dialect, table: &Table, file: &str, column: &str) -> String {
    let advice = match schema::definition(file, &table.name, column) {
        Some(definition) => alter(dialect, table, &format!("ADD COLUMN {definition}")),
        None => "add it, or correct its name in the settings".to_owned(),
    };
    format!("{} has no column {column}: {advice}", table.name)
}

impl Table {
    /// What keeps rows of these columns from being written: columns that take no value, or none that text can be
    /// converted to, and others that need one. Columns that are not there are none of its business.
    #[must_use]
    pub fn unwritable(&self, dialect: Dialect, columns: &[&str]) -> Vec<String> {
        let written = columns.iter().filter_map(|name| self.column(name));
        let problems = written.filter_map(|column| problem(dialect, self, column, Role::Written));
        problems.chain(unfilled(dialect, self, columns)).collect()
    }
}

/// A trigger or rule of the table may drop a row without an error. What is moved there would be gone.
pub(crate) fn none_dropped(table: &str, inserted: u64, expected: u64) -> Result<(), Error> {
    if inserted == expected {
        return Ok(());
    }
    let problem = format!(
        "a trigger or rule drops rows of the {table} without an error: {inserted} of {expected} were inserted; remove it, or \
         let it raise an error"
    );
    Err(Error::Unsuitable { problems: vec![problem] })
}

/// What the database keeps under the name of a table, where that is not a table with transactions.
pub(crate) enum Unusual {
    /// A view, or a table elsewhere.
    NoTable(String),
    /// MySQL only: an engine without transactions and row locks.
    Engine(String),
}

impl Unusual {
    /// What is unusual about this table, if anything is.
    pub(crate) async fn of_table(
        session: &mut Session,
        dialect: Dialect,
        table: &str,
    ) -> Result<Option<Self>, Error> {
        let (schema, name) = split(table);
        let (query, values) = match dialect {
            Dialect::Sqlite => (
                "SELECT CASE WHEN type = 'view' THEN 'view' WHEN \"strict\" THEN 'STRICT table' ELSE 'virtual table' END, 'none' \
                 FROM pragma_table_list WHERE name = $1 COLLATE NOCASE AND (type IN ('view', 'virtual') OR \"strict\")",
                vec![Value::Text(name)],
            ),
            Dialect::Postgres => (
                "SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' \
                 ELSE 'table from which others inherit' END, 'none' \
                 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                 WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND (c.relkind IN ('v', 'm', 'f') \
                 OR c.relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits AS h WHERE h.inhparent = c.oid))",
                vec![Value::Text(name), Value::OptText(schema)],
            ),
            Dialect::MySql => (
                "SELECT LOWER(table_type), COALESCE(engine, 'none') FROM information_schema.tables \
                 WHERE table_name = $1 AND table_schema = COALESCE($2, DATABASE()) \
                 AND (table_type <> 'BASE TABLE' OR engine <> 'InnoDB')",
                vec![Value::Text(name), Value::OptText(schema)],
            ),
        };
        let rows = session.rows(&Statement::new(dialect, query), values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(match row.text(1)?.as_str() {
            "InnoDB" => Self::NoTable("system-versioned table".to_owned()),
            "none" => Self::NoTable(row.text(0)?),
            engine => Self::Engine(engine.to_owned()),
        }))
    }

    /// Why work in it cannot be claimed and settled safely.
    pub(crate) fn problem(&self, dialect: Dialect, table: &str) -> String {
        match self {
            Self::NoTable(kind) => format!("{table} is a {kind}, which cannot hold work: name a plain table"),
            Self::Engine(engine) => format!(
                "{table} is kept by the engine {engine}, which has no transactions or row locks: ALTER TABLE {} ENGINE = \
                 InnoDB;",
                dialect.quote(table)
            ),
        }
    }
}

/// What is wrong with a table for work beyond its columns.
pub(crate) async fn unsafe_kind(
    session: &mut Session,
    dialect: Dialect,
    table: &str,
) -> Result<Option<String>, Error> {
    Ok(Unusual::of_table(session, dialect, table).await?.map(|unusual| unusual.problem(dialect, table)))
}

/// What a claim adds to its condition where the table may have numbers that a row of redrive's cannot.
pub(crate) fn representable(table: &Table, id: &str) -> &'static str {
    if table.column(id).is_some_and(ColumnInfo::is_wide) { "AND e.{id} <= 9223372036854775807" } else { "" }
}

/// The rows that are not claimed because of that, if there are any.
pub(crate) async fn unrepresentable(
    session: &mut Session,
    dialect: Dialect,
    table: &Table,
    id: &str,
) -> Result<Option<String>, Error> {
    if !table.column(id).is_some_and(ColumnInfo::is_wide) {
        return Ok(None);
    }
    let (place, id) = (dialect.quote(&table.name), dialect.quote(id));
    let query =
        format!("SELECT COALESCE(CAST(MAX({id}) AS CHAR), '') FROM {place} WHERE {id} > 9223372036854775807");
    let rows = session.rows(&Statement::new(dialect, &query), Vec::new()).await?;
    let found = rows.first().map(|row| row.text(0)).transpose()?.filter(|found| !found.is_empty());
    Ok(found.map(|found| {
        format!(
            "{} has rows that redrive leaves alone, because their numbers are beyond 2^63, the largest {found}: give them \
             smaller ones: UPDATE {place} SET {id} = … WHERE {id} > 9223372036854775807;",
            table.name
        )
    }))
}

/// Nothing keeps the row of an event out that is saved again.
pub(crate) fn no_key(dialect: Dialect, table: &Table, key: &ColumnInfo) -> String {
    let (place, name) = (dialect.quote(&table.name), dialect.quote(&key.name));
    let (_, plain) = split(&table.name);
    let index = dialect.quote(&format!("{plain}_{}", key.name));
    let create = format!("CREATE UNIQUE INDEX {index} ON {place} ({name});");
    let advice = match dialect == Dialect::MySql && !is_indexable(key, key.max_chars) {
        true => {
            format!("{} {create}", alter(dialect, table, &format!("MODIFY {name} VARCHAR(255) NOT NULL")))
        }
        false => create,
    };
    format!(
        "{} has no unique index over {} (or over it and other columns that are saved and NOT NULL), without which an \
         event that is saved twice would be two rows: {advice}",
        table.name, key.name
    )
}

/// Columns that an INSERT of ours would have to name, and has no value for.
pub(crate) fn unfilled(dialect: Dialect, table: &Table, known: &[&str]) -> Vec<String> {
    let unfilled = |column: &ColumnInfo| {
        let default = match dialect {
            Dialect::MySql | Dialect::Postgres => {
                let change = format!("ALTER COLUMN {} SET DEFAULT …", dialect.quote(&column.name));
                format!("give it a default: {}", alter(dialect, table, &change))
            }
            Dialect::Sqlite => "give it a default, or allow NULL".to_owned(),
        };
        format!("{}.{} is NOT NULL without a default: {default}", table.name, column.name)
    };
    table.without_default(known).map(unfilled).collect()
}

/// Only an INTEGER primary key gets its number from SQLite.
pub(crate) fn sqlite_id(dialect: Dialect, table: &Table, id: &str) -> Option<String> {
    let column = table.column(id).filter(|_| dialect == Dialect::Sqlite)?;
    (!column.has_default).then(|| {
        format!(
            "{}.{id} is {}, and not the number of the row: SQLite numbers rows only by an INTEGER PRIMARY KEY (without \
             DESC), so make the table anew with one",
            table.name, column.declared
        )
    })
}

/// Rows are settled by their numbers: two with one number would be settled as one.
pub(crate) async fn shared_id(
    session: &mut Session,
    dialect: Dialect,
    table: &Table,
    id: &str,
) -> Result<Option<String>, Error> {
    if table.column(id).is_none() || Unusual::of_table(session, dialect, &table.name).await?.is_some() {
        return Ok(None);
    }
    let is_own = |index: &Index| index.is_key && index.is_over(&[id.to_owned()]);
    if Index::of_table(session, dialect, &table.name).await?.iter().any(is_own) {
        return Ok(None);
    }
    let (_, name) = split(&table.name);
    Ok(Some(format!(
        "{0}.{id} has no unique index of its own, and two rows with one number would be settled as one: CREATE UNIQUE INDEX \
         {1} ON {2} ({3}); (a table that is partitioned by another column cannot have one, and cannot be used)",
        table.name,
        dialect.quote(&format!("{name}_{id}")),
        dialect.quote(&table.name),
        dialect.quote(id)
    )))
}

/// Whether the application gives the numbers of the rows itself, and has not said that it never gives one twice.
pub(crate) fn given_id(dialect: Dialect, table: &Table, id: &str, are_unique: bool) -> Option<String> {
    let column = table.column(id).filter(|column| !column.has_default && dialect != Dialect::Sqlite)?;
    let name = dialect.quote(&column.name);
    let change = match dialect {
        Dialect::MySql => format!("MODIFY {name} {} NOT NULL AUTO_INCREMENT", column.declared),
        Dialect::Postgres | Dialect::Sqlite => {
            format!("ALTER COLUMN {name} ADD GENERATED BY DEFAULT AS IDENTITY")
        }
    };
    (!are_unique).then(|| {
        format!(
            "{}.{id} is given by the application, and a number that it gives a second time would be the idempotency key of \
             another event: let the database give it: {} Or, if no number is ever used again (Snowflake and the like), \
             set ids = \"unique\"",
            table.name,
            alter(dialect, table, &change)
        )
    })
}

fn wider(dialect: Dialect, table: &Table, column: &ColumnInfo) -> String {
    let name = dialect.quote(&column.name);
    let change = match dialect {
        Dialect::MySql => format!("MODIFY {name} TEXT"),
        Dialect::Postgres | Dialect::Sqlite => format!("ALTER COLUMN {name} TYPE TEXT"),
    };
    alter(dialect, table, &change)
}

fn alter(dialect: Dialect, table: &Table, change: &str) -> String {
    format!("ALTER TABLE {} {change};", dialect.quote(&table.name))
}

/// Whether the name of an application's column can be part of our statements.
pub(crate) fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What is made for the tables as they are when it is first needed, and made anew after they have changed.
#[derive(Debug)]
pub(crate) struct Bound<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Bound<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Bound<T> {
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep(&self, made: Arc<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    }

    /// The tables have changed, or may have: look at them again.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
