//! The target: the table that a persist pipeline saves events in, by key.
//!
//! Key and payload have a column each; further columns get parts of the payload, which is JSON then, each through the
//! type that the column has. Columns that nobody maps are left to the database.
//!
//! A save is idempotent. A row that is there already with the same key and values is success: it is
//! ours, from a try whose answer was lost. One with another value is a conflict, named row by row,
//! and the other rows are saved all the same. Both need a unique index on the key, or on the key and further columns
//! that are saved: a table without one is refused, since a repeated save would store a row twice. A payload that lacks
//! a required part, or has one that its column cannot hold, is named in the same way.
//!
//! What it does not do: change rows that are there, or tell why the database refused a row of many. For the
//! latter, whoever saves halves the batch (`redrive_core::bisect`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::column;
use redrive_core::event::{MAX_KEY, Refused, required, storable};
use redrive_core::extract::Extractor;
use redrive_core::failure::{Code, Failure};
use redrive_core::lease::Work;

use crate::adoption::{self, Bound, Plan, Role, Unusual};
use crate::catalog::{ColumnInfo, ColumnType, Table};
use crate::database::Database;
use crate::dialect::{Dialect, check_name};
use crate::error::Error;
use crate::indexes::Index;
use crate::insert::{Cell, Kind, chunks, from_arrays, from_json, mysql_row};
use crate::rights;
use crate::schema;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// An event in the form that a persist pipeline keeps: a key and a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key, such as a short URL.
    pub key: String,
    /// The payload, such as the long one.
    pub payload: String,
    /// When it was accepted.
    pub created_at: Timestamp,
}

impl Record {
    /// Checks that it can be kept, in the target as well as among the failed events.
    ///
    /// # Errors
    /// [`Refused`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), Refused> {
        required("key", &self.key, MAX_KEY)?;
        storable("payload", &self.payload, usize::MAX)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.len() + self.payload.len()
    }
}

impl From<&Work> for Record {
    /// The record of a failed event. Its payload is text, as it was when it came in.
    fn from(work: &Work) -> Self {
        Self {
            key: work.event.key.clone(),
            payload: String::from_utf8_lossy(&work.event.payload).into_owned(),
            created_at: work.event.created_at,
        }
    }
}

/// Which table a pipeline saves in.
///
/// ```
/// use redrive_core::column::Column;
/// use redrive_store::TargetOptions;
///
/// # fn main() -> Result<(), redrive_core::column::NotAPath> {
/// let orders = TargetOptions {
///     key_column: "id".to_owned(),
///     payload_column: Some("body".to_owned()),
///     values: vec![Column::new("customer", "$.customer.id")?.required(), Column::new("total", "$.total")?],
///     ..TargetOptions::new("orders")
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// The table.
    pub table: String,
    /// The column of the key.
    pub key_column: String,
    /// The column of the payload; none where only parts of it are kept.
    pub payload_column: Option<String>,
    /// Further columns, each with the part of the payload that it gets. The payload is JSON then, and the table the
    /// application's own.
    pub values: Vec<column::Column>,
}

impl TargetOptions {
    /// This table, with the columns `short_url` and `long_url`.
    #[must_use]
    pub fn new(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            key_column: "short_url".to_owned(),
            payload_column: Some("long_url".to_owned()),
            values: Vec::new(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        check_name("target table", &self.table)?;
        let columns: Vec<&str> = self.columns().collect();
        for (index, column) in columns.iter().enumerate() {
            check_name("name of a column", column)?;
            if columns[..index].contains(column) {
                return Err(Error::Setting(format!("the target has the column {column} twice")));
            }
        }
        if columns.len() < 2 {
            return Err(Error::Setting(
                "the target has no column for the payload or a part of it".to_owned(),
            ));
        }
        Ok(())
    }

    /// Every column that is written: of the key, of the payload, and the further ones.
    fn columns(&self) -> impl Iterator<Item = &str> {
        let values = self.values.iter().map(|column| column.name.as_str());
        std::iter::once(self.key_column.as_str()).chain(self.payload_column.as_deref()).chain(values)
    }
}

/// The table that events are saved in.
#[derive(Debug)]
pub struct Target {
    database: Database,
    names: Names,
    options: TargetOptions,
    extractor: Extractor,
    statements: Bound<Statements>,
}

/// What is made for the table as it is.
#[derive(Debug)]
struct Statements {
    /// All of it, or for MySQL what comes before the rows.
    insert: String,
    /// One row of MySQL's.
    row: String,
    found: String,
    /// The columns in the order of [`TargetOptions::columns`]; none where the table has no such column.
    columns: Vec<Option<ColumnInfo>>,
}

/// A record as the texts of its columns, and its place in the batch.
struct Row<'a> {
    index: usize,
    texts: Vec<Text<'a>>,
}

/// A value as text; nothing for NULL.
type Text<'a> = Option<Cow<'a, str>>;

impl Row<'_> {
    fn size(&self) -> usize {
        self.texts.iter().flatten().map(|text| text.len()).sum()
    }

    fn key(&self) -> &str {
        self.texts.first().and_then(Option::as_deref).unwrap_or_default()
    }

    fn owned(&self, at: usize) -> Option<String> {
        self.texts[at].as_deref().map(str::to_owned)
    }
}

const SCHEMA: Sql = sql!(each "target/schema.sql");
/// A statement of MySQL's has at most 65,535 parameters.
const MAX_PARAMETERS: usize = 60_000;

impl Target {
    /// The target in this table. Nothing is asked of the database yet.
    ///
    /// # Errors
    /// [`Error::Setting`] when a name cannot be used.
    pub fn new(database: Database, options: &TargetOptions) -> Result<Self, Error> {
        options.check()?;
        let names = Names::new(database.dialect())
            .with_table("table", "table_name", &options.table)
            .with("key", &options.key_column)
            .with("payload", options.payload_column.as_deref().unwrap_or_default());
        let extractor = Extractor::new(options.values.clone());
        Ok(Self { statements: Bound::default(), options: options.clone(), extractor, names, database })
    }

    /// Makes the table where there is none; with `values` it has to be there, since their types are not known.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when a table that is there cannot be used. Another [`Error`] when the store cannot be
    /// reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.statements.forget();
        schema::carry_out(&self.database, async |session| self.plan_in(session).await).await
    }

    /// What [`Target::migrate`] would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.plan_in(&mut self.database.session().await?).await
    }

    async fn plan_in(&self, session: &mut Session) -> Result<Plan, Error> {
        let dialect = self.database.dialect();
        let table = Table::read(session, dialect, &self.options.table).await?;
        let columns: Vec<&str> = self.options.columns().collect();
        let is_own = !self.options.values.is_empty();
        if is_own && !table.exists() {
            let problem = format!(
                "{} does not exist: create it, with {}; redrive makes no table for `values`, whose types it does not know",
                self.options.table,
                columns.join(", ")
            );
            return Ok(Plan { problems: vec![problem], ..Plan::default() });
        }
        let file = self.names.text(SCHEMA);
        let mut roles: Vec<(&str, Role)> = columns.iter().map(|name| (*name, Role::Value)).collect();
        roles[0].1 = Role::Key;
        let mut plan = match is_own {
            true => Plan::default(),
            false => schema::plan(session, dialect, &self.names, &[file]).await?,
        };
        plan.problems.extend(adoption::problems(dialect, &table, &self.names.fill(file), &roles));
        plan.problems.extend(adoption::unfilled(dialect, &table, &columns));
        plan.problems.extend(self.keyless(session, &table).await?);
        plan.with_rights(
            session,
            dialect,
            std::slice::from_ref(&self.options.table),
            rights::to_save(dialect),
        )
        .await
    }

    /// Whether a save that is repeated would be two rows. What is behind a view is not known.
    async fn keyless(&self, session: &mut Session, table: &Table) -> Result<Option<String>, Error> {
        let dialect = self.database.dialect();
        let unusual = Unusual::of_table(session, dialect, &table.name).await?;
        let Some(key) = table.column(&self.options.key_column) else { return Ok(None) };
        if matches!(unusual, Some(Unusual::NoTable(kind)) if kind.ends_with("view") || kind.starts_with("foreign"))
        {
            return Ok(None);
        }
        let is_saved = |name: &String| {
            table.column(name).is_some_and(|column| {
                self.options.columns().any(|saved| column.is_named(saved))
                    && (!column.is_nullable || column.name == key.name)
            })
        };
        let has_key = |index: &Index| {
            index.is_key
                && index.columns.iter().all(is_saved)
                && index.columns.iter().any(|name| key.is_named(name))
        };
        let indexes = Index::of_table(session, dialect, &table.name).await?;
        Ok((!indexes.iter().any(has_key)).then(|| adoption::no_key(dialect, table, key)))
    }

    /// The statements for the table as it is.
    async fn statements(&self) -> Result<Arc<Statements>, Error> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let dialect = self.database.dialect();
        let table = Table::read(&mut self.database.session().await?, dialect, &self.options.table).await?;
        let cell = |column: &str| Cell {
            stored: table.stored(column, "@"),
            ..Cell::plain(&dialect.quote(column), Kind::Text)
        };
        let cells: Vec<Cell> = self.options.columns().map(cell).collect();
        let list = cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
        let insert = format!("INSERT INTO {{table}} ({list})");
        let insert = match dialect {
            Dialect::Postgres => format!("{insert} {} ON CONFLICT DO NOTHING", from_arrays(&cells)),
            // WHERE true: without it SQLite takes ON CONFLICT for a join condition.
            Dialect::Sqlite => format!("{insert} {} WHERE true ON CONFLICT DO NOTHING", from_json(&cells)),
            Dialect::MySql => format!("{insert} VALUES "),
        };
        let texts = self.options.columns().map(|column| table.text_of("", column, &dialect.quote(column)));
        let found = format!("SELECT {} FROM {{table}} WHERE {{key}}", texts.collect::<Vec<_>>().join(", "));
        let statements = Arc::new(Statements {
            insert: self.names.fill(&insert),
            row: mysql_row(&cells),
            found: self.names.fill(&found),
            columns: self.options.columns().map(|column| table.column(column).cloned()).collect(),
        });
        if table.exists() {
            self.statements.keep(Arc::clone(&statements));
        }
        Ok(statements)
    }

    /// Saves the records and returns those that cannot be: their key is taken by other values, a required part of
    /// the payload is missing, or a column cannot hold its value. By index, in order.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached, or refuses one of the rows; some may be saved then,
    /// and saving them again changes nothing.
    pub async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Error> {
        let mut statements = self.statements().await?;
        let (mut rows, mut unsaved) = self.rows(&statements, records);
        if !unsaved.is_empty() {
            // The table may not be what it was: it is looked at again before a value is refused.
            self.statements.forget();
            statements = self.statements().await?;
            (rows, unsaved) = self.rows(&statements, records);
        }
        let most = (MAX_PARAMETERS / statements.columns.len()).max(1);
        for chunk in chunks(&rows, Row::size).flat_map(|chunk| chunk.chunks(most)) {
            let inserted = self.insert(&statements, chunk).await;
            if matches!(inserted, Err(Error::Rejected { .. })) {
                self.statements.forget();
            }
            if !inserted? {
                unsaved.extend(self.taken(&statements, chunk).await?);
            }
        }
        unsaved.sort_by_key(|(index, _)| *index);
        Ok(unsaved)
    }

    /// The payload that is saved under this key.
    ///
    /// # Errors
    /// [`Error::Setting`] where the target has no column for it. Another [`Error`] when the store cannot be reached or
    /// refuses.
    pub async fn find(&self, key: &str) -> Result<Option<String>, Error> {
        if self.options.payload_column.is_none() {
            let message = format!("{} keeps no payload: it has no column for it", self.options.table);
            return Err(Error::Setting(message));
        }
        let statements = self.statements().await?;
        let rows = self.found(&statements, vec![key.to_owned()]).await?;
        rows.first().map(|row| row.text(1)).transpose()
    }

    /// The records as rows, and those that cannot be one.
    fn rows<'a>(
        &self,
        statements: &Statements,
        records: &'a [Record],
    ) -> (Vec<Row<'a>>, Vec<(usize, Failure)>) {
        let (mut rows, mut unfit) = (Vec::with_capacity(records.len()), Vec::new());
        for (index, record) in records.iter().enumerate() {
            match self.texts(statements, record) {
                Ok(texts) => rows.push(Row { index, texts }),
                Err(failure) => unfit.push((index, failure)),
            }
        }
        (rows, unfit)
    }

    fn texts<'a>(&self, statements: &Statements, record: &'a Record) -> Result<Vec<Text<'a>>, Failure> {
        let wrong = |message| Failure::permanent("WrongValue", message);
        let mut columns = statements.columns.iter().map(Option::as_ref);
        let mut text = |text: &'a str| match columns.next().flatten() {
            Some(column) => column.convert_text(text).map(Some),
            None => Ok(Some(Cow::Borrowed(text))),
        };
        let key = text(&record.key).map_err(|why| wrong(format!("the key {:?} {why}", record.key)))?;
        let mut texts = vec![key];
        if self.options.payload_column.is_some() {
            texts.push(text(&record.payload).map_err(|why| wrong(format!("the payload {why}")))?);
        }
        if self.options.values.is_empty() {
            return Ok(texts);
        }
        let cells = self.extractor.extract(&record.payload)?;
        for ((value, column), cell) in self.options.values.iter().zip(columns).zip(&cells) {
            let text = column.map_or(Ok(None), |column| column.convert(cell));
            let text = text.map_err(|why| wrong(format!("{} is {cell}: it {why}", value.path)))?;
            texts.push(text.map(|text| Cow::Owned(text.into_owned())));
        }
        Ok(texts)
    }

    /// Inserts what is not there yet, and says whether that was all of it.
    async fn insert(&self, statements: &Statements, rows: &[Row<'_>]) -> Result<bool, Error> {
        if self.database.dialect() == Dialect::MySql {
            return self.insert_mysql(statements, rows).await;
        }
        let column = |at: usize| Column::OptTexts(rows.iter().map(|row| row.owned(at)).collect());
        let columns = Value::Rows((0..statements.columns.len()).map(column).collect());
        let statement = Statement::new(self.database.dialect(), &statements.insert);
        Ok(self.database.change(&statement, vec![columns]).await? == rows.len() as u64)
    }

    /// MySQL cannot skip a row and say so, and its INSERT IGNORE would cut what is too long: all rows
    /// are tried first, and only when one is there already, again with an update that changes nothing.
    async fn insert_mysql(&self, statements: &Statements, rows: &[Row<'_>]) -> Result<bool, Error> {
        let insert = format!("{}{}", statements.insert, vec![statements.row.as_str(); rows.len()].join(", "));
        let width = statements.columns.len();
        let values = || {
            let cells = rows.iter().flat_map(|row| (0..width).map(|at| Value::OptText(row.owned(at))));
            cells.collect::<Vec<_>>()
        };
        match self.database.change(&self.mysql(&insert), values()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_duplicate_in_mysql() => {
                let keep = self.names.fill(" ON DUPLICATE KEY UPDATE {key} = {table}.{key}");
                self.database.change(&self.mysql(&format!("{insert}{keep}")), values()).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The records that are not saved although nothing refused them: their key has other values.
    async fn taken(&self, statements: &Statements, rows: &[Row<'_>]) -> Result<Vec<(usize, Failure)>, Error> {
        let keys = rows.iter().map(|row| row.key().to_owned()).collect();
        // Several rows have one key where further columns are part of the unique index.
        let mut saved: HashMap<String, Vec<Vec<Option<String>>>> = HashMap::new();
        for found in self.found(statements, keys).await? {
            let texts: Vec<Option<String>> =
                (0..statements.columns.len()).map(|at| found.opt_text(at)).collect::<Result<_, _>>()?;
            let key = statements.canonical_key(texts[0].as_deref().unwrap_or_default());
            saved.entry(key).or_default().push(texts);
        }
        let mut taken = Vec::new();
        for row in rows {
            let others =
                saved.get(&statements.canonical_key(row.key())).map(Vec::as_slice).unwrap_or_default();
            let others = others.iter().map(|saved| self.differing(statements, saved, row));
            let other = others.min_by_key(Vec::len);
            if other.as_ref().is_none_or(|columns| !columns.is_empty()) {
                taken.push((row.index, self.conflict(row.key(), &other.unwrap_or_default())));
            }
        }
        Ok(taken)
    }

    /// The columns that have another value than the row would give them.
    fn differing(&self, statements: &Statements, saved: &[Option<String>], row: &Row<'_>) -> Vec<&str> {
        let is_other = |(at, _): &(usize, &str)| match (
            saved[*at].as_deref(),
            row.texts[*at].as_deref(),
            &statements.columns[*at],
        ) {
            (Some(saved), Some(given), Some(column)) => !column.is_same(saved, given),
            (saved, given, _) => saved != given,
        };
        self.options.columns().enumerate().skip(1).filter(is_other).map(|(_, name)| name).collect()
    }

    /// The rows that are saved under these keys.
    async fn found(&self, statements: &Statements, keys: Vec<String>) -> Result<Vec<crate::row::Row>, Error> {
        let key = statements.columns.first().and_then(Option::as_ref);
        let (condition, values) = match self.database.dialect() {
            Dialect::Postgres => {
                let keys = vec![Value::Rows(vec![Column::Texts(keys)])];
                match key {
                    Some(key) if key.kind != ColumnType::Text => {
                        (format!("= ANY(($1::text[])::{}[])", key.declared), keys)
                    }
                    _ => ("= ANY($1)".to_owned(), keys),
                }
            }
            Dialect::Sqlite => (
                "IN (SELECT value ->> 0 FROM json_each($1))".to_owned(),
                vec![Value::Rows(vec![Column::Texts(keys)])],
            ),
            Dialect::MySql => {
                let place = key.map_or_else(|| "?".to_owned(), |key| key.store_text("?"));
                let places = vec![place; keys.len()].join(", ");
                (format!("IN ({places})"), keys.into_iter().map(Value::Text).collect())
            }
        };
        let text = format!("{} {condition}", statements.found);
        self.database.rows(&Statement::new(self.database.dialect(), &text), values).await
    }

    fn mysql(&self, text: &str) -> Statement {
        Statement::new(Dialect::MySql, text)
    }

    /// With the code that the database itself has for it.
    fn conflict(&self, key: &str, other: &[&str]) -> Failure {
        let code = match self.database.dialect() {
            Dialect::Postgres => Code::SqlState("23505".to_owned()),
            Dialect::MySql => Code::MySql(1062),
            Dialect::Sqlite => Code::Sqlite(1555),
        };
        let message = match other {
            [] => format!("a unique index of the table refuses the event with the key {key:?}"),
            columns => format!(
                "the key {key:?} is taken: the row that is saved under it has another value of {}",
                columns.join(", ")
            ),
        };
        Failure::permanent("DuplicateKey", message).with_code(code)
    }
}

impl Statements {
    /// A key in the one form that its column has for it: `007` is 7 in a column of numbers.
    fn canonical_key(&self, key: &str) -> String {
        match self.columns.first() {
            Some(Some(column)) => column.canonical(key),
            _ => key.to_owned(),
        }
    }
}
