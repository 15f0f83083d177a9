//! Bringing tables to the shape that the code expects.
//!
//! A schema file lists the founding table, then each column and index that redrive adds. What is
//! there already is left alone, so running it again changes nothing, and an application's own table
//! is adopted by adding what it lacks. A table that is missing is made with its columns at once.
//! Instances that start together take turns.

use std::collections::{BTreeSet, HashMap};

use crate::adoption::Plan;
use crate::catalog::{Table, split};
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::indexes::{self, Index};
use crate::rights;
use crate::session::Session;
use crate::statement::{Effort, Names, Statement};
use crate::value::Value;

/// Any number will do, as long as every instance uses the same one.
const POSTGRES_LOCK: i64 = 0x0072_6564_7269_7665;

/// Makes the tables, columns and indexes of a schema file that do not exist yet.
pub(crate) async fn migrate(database: &Database, names: &Names, files: &[&str]) -> Result<(), Error> {
    carry_out(database, async |session| plan_own(session, database, names, files).await).await
}

/// Makes a plan and carries it out, one instance at a time, unless the plan has problems.
pub(crate) async fn carry_out(
    database: &Database,
    plan: impl AsyncFnOnce(&mut Session) -> Result<Plan, Error>,
) -> Result<(), Error> {
    let dialect = database.dialect();
    let mut session = lock(database).await?;
    let plan = plan(&mut session).await?;
    let checked = plan.check();
    if checked.is_ok() {
        run(&mut session, dialect, &plan.statements).await?;
    }
    unlock(dialect, session).await?;
    checked
}

/// What [`migrate`] would do.
pub(crate) async fn plan_of(database: &Database, names: &Names, files: &[&str]) -> Result<Plan, Error> {
    plan_own(&mut database.session().await?, database, names, files).await
}

/// The plan for tables of redrive's own, with the schema that they are in.
pub(crate) async fn plan_own(
    session: &mut Session,
    database: &Database,
    names: &Names,
    files: &[&str],
) -> Result<Plan, Error> {
    let dialect = database.dialect();
    let mut plan = plan(session, dialect, names, files).await?;
    if let Some(schema) = database.own_schema().filter(|_| !plan.statements.is_empty()) {
        let found =
            Statement::new(dialect, "SELECT 1 FROM information_schema.schemata WHERE schema_name = $1");
        if session.rows(&found, vec![Value::Text(schema.to_owned())]).await?.is_empty() {
            plan.statements.insert(0, format!("CREATE SCHEMA {}", dialect.quote(schema)));
        }
    }
    plan.with_rights(session, dialect, &tables(names, files), &rights::ALL).await
}

/// The tables that these files make.
pub(crate) fn tables(names: &Names, files: &[&str]) -> Vec<String> {
    let made = |statement: &String| match Addition::of(statement) {
        Addition::Table { table } => Some(table),
        _ => None,
    };
    files
        .iter()
        .flat_map(|file| statements(&names.fill(file)))
        .filter_map(|statement| made(&statement))
        .collect()
}

/// The statements that make what does not exist yet, and what is in their way: indexes that have the names of ours.
pub(crate) async fn plan(
    session: &mut Session,
    dialect: Dialect,
    names: &Names,
    files: &[&str],
) -> Result<Plan, Error> {
    let mut present = Present {
        dialect,
        names: HashMap::new(),
        tables: HashMap::new(),
        indexes: HashMap::new(),
        made: BTreeSet::new(),
    };
    let mut plan = Plan::default();
    for file in files {
        let statements = statements(&names.fill(file));
        for (at, statement) in statements.iter().enumerate() {
            let addition = Addition::of(statement);
            if present.has(session, &addition).await? {
                plan.problems.extend(present.other_columns(&addition));
                plan.problems.extend(present.other_type(session, &addition, statement).await?);
                continue;
            }
            plan.problems.extend(present.name_taken(session, &addition).await?);
            plan.statements.push(match addition {
                Addition::Table { table } => with_columns(statement, &table, &statements[at..]),
                _ => quote_index(dialect, statement),
            });
        }
    }
    Ok(plan)
}

/// Runs the statements of a plan.
pub(crate) async fn run(session: &mut Session, dialect: Dialect, statements: &[String]) -> Result<(), Error> {
    for statement in statements {
        session.plain(&Statement::new(dialect, statement).taking(Effort::Migration)).await?;
    }
    Ok(())
}

/// How a column is defined by the file that makes its table, or adds it.
pub(crate) fn definition(file: &str, table: &str, column: &str) -> Option<String> {
    let statements = statements(file);
    let is_of = |statement: &&String| match Addition::of(statement) {
        Addition::Table { table: of } => of == table,
        _ => false,
    };
    let body = statements.iter().find(is_of)?;
    let line = body
        .lines()
        .map(str::trim)
        .find(|line| line.split_whitespace().next().is_some_and(|first| plain(first) == column))?;
    Some(line.trim_end_matches(',').to_owned())
}

/// SQLite only: gives every row of a table that reuses its ids a number of its own.
pub(crate) const KEYS: &str = include_str!("../sql/sqlite/work/keys.sql");

/// The file that makes a table announce its inserts, where the database can.
pub(crate) fn notify(dialect: Dialect) -> Option<&'static str> {
    (dialect == Dialect::Postgres).then_some(include_str!("../sql/postgres/work/notify.sql"))
}

/// One instance at a time: in the transaction where DDL can be part of one, beside it in MySQL.
pub(crate) async fn lock(database: &Database) -> Result<Session, Error> {
    let dialect = database.dialect();
    match dialect {
        Dialect::Sqlite => database.begin().await,
        Dialect::Postgres => {
            let mut session = database.begin().await?;
            let lock = Statement::new(dialect, "SELECT pg_advisory_xact_lock($1)");
            let lock = lock.taking(Effort::Migration);
            session.rows(&lock, vec![Value::Int(POSTGRES_LOCK)]).await?;
            Ok(session)
        }
        Dialect::MySql => {
            let mut session = database.session().await?;
            let lock = Statement::new(dialect, "SELECT GET_LOCK(CONCAT('redrive-', MD5(DATABASE())), 60)");
            let lock = lock.taking(Effort::Migration);
            let rows = session.rows(&lock, Vec::new()).await?;
            match rows.first().map(|row| row.opt_int(0)).transpose()?.flatten() {
                Some(1) => Ok(session),
                _ => Err(Error::Setting(
                    "another instance has been migrating for a minute: try again".to_owned(),
                )),
            }
        }
    }
}

pub(crate) async fn unlock(dialect: Dialect, mut session: Session) -> Result<(), Error> {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => session.commit().await,
        Dialect::MySql => {
            let unlock = Statement::new(dialect, "SELECT RELEASE_LOCK(CONCAT('redrive-', MD5(DATABASE())))");
            session.rows(&unlock, Vec::new()).await.map(drop)
        }
    }
}

/// The statements of a file: each ends with a semicolon at the end of a line.
fn statements(file: &str) -> Vec<String> {
    let code: Vec<&str> = file.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = format!("{}\n", code.join("\n"));
    code.split(";\n").map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// The name of an index starts with that of its table, and keeps its capitals as the table does.
fn quote_index(dialect: Dialect, statement: &str) -> String {
    let head = ["CREATE UNIQUE INDEX ", "CREATE INDEX "].into_iter().find(|head| statement.starts_with(head));
    let named =
        head.and_then(|head| Some((head, statement.strip_prefix(head)?.split_once(char::is_whitespace)?)));
    match named {
        Some((head, (name, rest))) => format!("{head}{} {rest}", dialect.quote(name)),
        None => statement.to_owned(),
    }
}

/// What a statement adds, by its first words; names are without their quotes.
#[derive(Debug, PartialEq, Eq)]
enum Addition {
    Table {
        table: String,
    },
    Column {
        table: String,
        column: String,
    },
    Index {
        table: String,
        index: String,
        /// In order; nothing for an expression.
        columns: Vec<String>,
    },
    Trigger {
        table: String,
        trigger: String,
    },
    Function {
        function: String,
    },
    /// Something that is replaced each time.
    Other,
}

impl Addition {
    fn of(statement: &str) -> Self {
        let words: Vec<&str> = statement.split_whitespace().collect();
        match words.as_slice() {
            ["CREATE", "TABLE", "IF", "NOT", "EXISTS", table, ..] => Self::Table { table: plain(table) },
            ["ALTER", "TABLE", table, "ADD", "COLUMN", column, ..] => {
                Self::Column { table: plain(table), column: plain(column) }
            }
            ["CREATE", "INDEX", index, "ON", table, ..]
            | ["CREATE", "UNIQUE", "INDEX", index, "ON", table, ..] => {
                Self::Index { table: plain(table), index: plain(index), columns: indexed(statement) }
            }
            ["CREATE", "TRIGGER", trigger, "AFTER", "INSERT", "ON", table, ..] => {
                Self::Trigger { table: plain(table), trigger: plain(trigger) }
            }
            ["CREATE", "FUNCTION", function, ..] => {
                Self::Function { function: plain(function.trim_end_matches("()")) }
            }
            _ => Self::Other,
        }
    }
}

fn plain(name: &str) -> String {
    name.replace(['"', '`'], "")
}

/// The columns of an index, as the statement that makes it lists them; nothing for an expression.
fn indexed(statement: &str) -> Vec<String> {
    let list = statement.split_once('(').map_or("", |(_, list)| list);
    let (mut depth, mut columns) = (0_usize, vec![String::new()]);
    for letter in list.chars() {
        match letter {
            ')' if depth == 0 => break,
            ',' if depth == 0 => {
                columns.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if let Some(column) = columns.last_mut() {
            column.push(letter);
        }
    }
    columns.iter().map(|column| plain(own_name(column))).collect()
}

/// The column that a part of an index is; nothing for an expression. MySQL may take a part of its text: `url(255)`.
fn own_name(part: &str) -> &str {
    let name = part.split_whitespace().next().unwrap_or_default();
    match part.split_once('(') {
        None => name,
        Some((column, length)) if length.trim_end().trim_end_matches(')').parse::<u32>().is_ok() => {
            column.trim()
        }
        Some(_) => "",
    }
}

/// A missing table is made with every column that the rest of its file adds to it: one statement
/// instead of twenty, each of which MySQL may answer by copying the table.
fn with_columns(create: &str, of: &str, rest: &[String]) -> String {
    let Some((body, tail)) = create.rfind("\n)").map(|end| create.split_at(end)) else {
        return create.to_owned();
    };
    let listed = |column: &str| body.lines().any(|line| line.split_whitespace().next() == Some(column));
    let definition = |statement: &String| match Addition::of(statement) {
        Addition::Column { table, column } if table == of && !listed(&column) => {
            statement.split_once(" ADD COLUMN ").map(|(_, definition)| format!(",\n    {definition}"))
        }
        _ => None,
    };
    let columns: String = rest.iter().filter_map(definition).collect();
    format!("{body}{columns}{tail}")
}

/// The columns, indexes and triggers that there were before this migration, asked for once a table.
struct Present {
    dialect: Dialect,
    names: HashMap<(&'static str, String), BTreeSet<String>>,
    tables: HashMap<String, Table>,
    indexes: HashMap<String, Vec<Index>>,
    /// The tables that the plan makes, with all of their columns.
    made: BTreeSet<String>,
}

impl Present {
    async fn has(&mut self, session: &mut Session, addition: &Addition) -> Result<bool, Error> {
        match addition {
            Addition::Table { table } => {
                let exists = !self.of(session, columns(self.dialect), table).await?.is_empty();
                if !exists {
                    self.made.insert(table.clone());
                }
                Ok(exists)
            }
            Addition::Column { table, .. } if self.made.contains(table) => Ok(true),
            Addition::Column { table, column } => {
                Ok(self.of(session, columns(self.dialect), table).await?.contains(column))
            }
            Addition::Index { table, index, .. } => {
                if !self.indexes.contains_key(table) {
                    let indexes = Index::of_table(session, self.dialect, table).await?;
                    self.indexes.insert(table.clone(), indexes);
                }
                Ok(self.index(table, index).is_some())
            }
            Addition::Trigger { table, trigger } => {
                Ok(self.of(session, triggers(self.dialect), table).await?.contains(trigger))
            }
            Addition::Function { function } => {
                let (_, name) = split(function);
                Ok(self.of(session, FUNCTIONS, function).await?.contains(&name))
            }
            Addition::Other => Ok(false),
        }
    }

    fn index(&self, table: &str, name: &str) -> Option<&Index> {
        self.indexes.get(table)?.iter().find(|index| index.is_named(name))
    }

    /// An index that has the name of ours, and is another one: what ours is for would be slow, or not unique.
    fn other_columns(&self, addition: &Addition) -> Option<String> {
        let Addition::Index { table, index, columns } = addition else { return None };
        let found = self.index(table, index).filter(|found| !found.is_over(columns))?;
        let list = |columns: &[String]| columns.join(", ");
        let name = self.dialect.quote(index);
        let drop = match self.dialect {
            Dialect::MySql => format!("DROP INDEX {name} ON {};", self.dialect.quote(table)),
            Dialect::Postgres | Dialect::Sqlite => format!("DROP INDEX {};", self.beside(table, &name)),
        };
        Some(format!(
            "the index {index} of {table} is over ({}), and redrive needs one of this name over ({}): make yours again \
             under another name, then {drop}",
            list(&found.columns),
            list(columns)
        ))
    }

    /// A column that has the name of one of ours, and cannot be it: statements would fail, or never find their rows.
    async fn other_type(
        &mut self,
        session: &mut Session,
        addition: &Addition,
        statement: &str,
    ) -> Result<Option<String>, Error> {
        let Addition::Column { table, column } = addition else { return Ok(None) };
        // The payload of a job may be of any type that holds one.
        if self.made.contains(table) || column == "payload" {
            return Ok(None);
        }
        if !self.tables.contains_key(table) {
            let read = Table::read(session, self.dialect, table).await?;
            self.tables.insert(table.clone(), read);
        }
        let definition = statement.split_once(" ADD COLUMN ").map_or("", |(_, definition)| definition);
        let found = self.tables[table].column(column).filter(|found| !found.can_be(definition));
        Ok(found.map(|found| {
            let (declared, generated) = (&found.declared, if found.is_generated { ", computed" } else { "" });
            format!(
                "{table}.{column} is of the type {declared}{generated}, and redrive keeps its own in a column of this name: \
                 {}; rename yours: ALTER TABLE {} RENAME COLUMN {} TO …;",
                definition.split_once('(').map_or(definition, |(kind, _)| kind),
                self.dialect.quote(table),
                self.dialect.quote(column)
            )
        }))
    }

    async fn name_taken(&self, session: &mut Session, addition: &Addition) -> Result<Option<String>, Error> {
        let Addition::Index { table, index, .. } = addition else { return Ok(None) };
        let Some(owner) = indexes::taken_by(session, self.dialect, table, index).await? else {
            return Ok(None);
        };
        Ok(Some(format!(
            "redrive needs an index {index} on {table}, and this is the name of {owner} already: rename that one"
        )))
    }

    /// The name of an index, in the schema of its table.
    fn beside(&self, table: &str, index: &str) -> String {
        match split(table) {
            (Some(schema), _) => format!("{}.{index}", self.dialect.quote(&schema)),
            (None, _) => index.to_owned(),
        }
    }

    async fn of(
        &mut self,
        session: &mut Session,
        query: &'static str,
        table: &str,
    ) -> Result<&BTreeSet<String>, Error> {
        let key = (query, table.to_owned());
        if !self.names.contains_key(&key) {
            // A table with a schema before the dot is looked up there, others in the current one.
            let (schema, name) = split(table);
            let values = match self.dialect {
                Dialect::Sqlite => vec![Value::Text(name)],
                Dialect::Postgres | Dialect::MySql => vec![Value::Text(name), Value::OptText(schema)],
            };
            let rows = session.rows(&Statement::new(self.dialect, query), values).await?;
            let names = rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
            self.names.insert(key.clone(), names);
        }
        Ok(&self.names[&key])
    }
}

const fn columns(dialect: Dialect) -> &'static str {
    match dialect {
        // table_xinfo also lists computed columns.
        Dialect::Sqlite => "SELECT name FROM pragma_table_xinfo($1)",
        Dialect::Postgres => {
            "SELECT column_name::text FROM information_schema.columns \
             WHERE table_name = $1 AND table_schema = COALESCE($2, current_schema())"
        }
        Dialect::MySql => {
            "SELECT column_name FROM information_schema.columns \
             WHERE table_name = $1 AND table_schema = COALESCE($2, DATABASE())"
        }
    }
}

/// MySQL has no triggers of ours.
const fn triggers(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = $1",
        Dialect::Postgres | Dialect::MySql => POSTGRES_TRIGGERS,
    }
}

const POSTGRES_TRIGGERS: &str = "SELECT g.tgname::text FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid \
     JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema())";

/// Only Postgres has functions of ours: in the schema of their table, or wherever its trigger has one.
const FUNCTIONS: &str = "SELECT p.proname::text FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace \
     WHERE p.proname = $1 AND (n.nspname = COALESCE($2, current_schema()) OR EXISTS ( \
         SELECT 1 FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid \
         JOIN pg_namespace AS t ON t.oid = c.relnamespace \
         WHERE g.tgfoid = p.oid AND t.nspname = COALESCE($2, current_schema())))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_into_its_statements() {
        let file = "-- why; indeed\nCREATE TABLE a (\n b INT\n);\nCREATE INDEX c ON a (b);\n";
        assert_eq!(statements(file), ["CREATE TABLE a (\n b INT\n)", "CREATE INDEX c ON a (b)"]);
    }

    #[test]
    fn a_missing_table_is_made_with_the_columns_that_are_added_to_it_later() {
        let file = "CREATE TABLE IF NOT EXISTS `a` (\n b INT\n) CHARSET = x;\nALTER TABLE `a` ADD COLUMN b BIGINT;\n\
                    ALTER TABLE `a` ADD COLUMN c INT AS (b) VIRTUAL;\nALTER TABLE `d` ADD COLUMN e INT;\n";
        let all = statements(file);
        let create = with_columns(&all[0], "a", &all);
        assert_eq!(
            create,
            "CREATE TABLE IF NOT EXISTS `a` (\n b INT,\n    c INT AS (b) VIRTUAL\n) CHARSET = x"
        );
    }

    #[test]
    fn the_columns_of_an_index_are_known_and_expressions_have_no_name() {
        let statement =
            "CREATE INDEX a_group ON \"a\" (\n \"B\", COALESCE(c, d), e DESC) WHERE f IN ('x', 'y')";
        assert_eq!(indexed(statement), ["B", "", "e"]);
    }

    /// The second migration took the index that the first had made for another one.
    #[test]
    fn a_part_of_a_text_is_known_by_its_column_and_an_expression_by_nothing() {
        let columns = indexed("CREATE INDEX a_key ON a (`short url`(255), COALESCE(b, c), \"d\" DESC)");
        assert_eq!(columns, ["short url", "", "d"]);
        assert_eq!(indexed("CREATE INDEX a_key ON a USING hash (b)"), ["b"]);
    }

    #[test]
    fn an_index_keeps_the_capitals_of_its_table() {
        let quoted = quote_index(Dialect::Postgres, "CREATE UNIQUE INDEX A_due ON \"A\" (b)");
        assert_eq!(quoted, "CREATE UNIQUE INDEX \"A_due\" ON \"A\" (b)");
        assert_eq!(quote_index(Dialect::MySql, "CREATE TABLE a (b INT)"), "CREATE TABLE a (b INT)");
    }
}
