//! Bringing tables to the shape that the code expects.
//!
//! A schema file lists the founding table, then each column and index that redrive adds. What is
//! there already is left alone, so running it again changes nothing, and an application's own table
//! is adopted by adding what it lacks. Instances that start together take turns.

use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::{Names, Statement};
use crate::value::Value;

/// Any number will do, as long as every instance uses the same one.
const POSTGRES_LOCK: i64 = 0x7265_6472_6976_65;

/// Makes the tables, columns and indexes of a schema file that do not exist yet.
pub(crate) async fn migrate(database: &Database, names: &Names, files: &[&str]) -> Result<(), Error> {
    let mut session = lock(database).await?;
    for file in files {
        for statement in statements(&names.fill(file)) {
            let statement = quote_index(database.dialect(), &statement);
            if !exists(&mut session, database.dialect(), &statement).await? {
                session.plain(&Statement::new(database.dialect(), &statement)).await?;
            }
        }
    }
    unlock(database.dialect(), session).await
}

/// The file that makes a table announce its inserts, where the database can.
pub(crate) fn notify(dialect: Dialect) -> Option<&'static str> {
    (dialect == Dialect::Postgres).then_some(include_str!("../sql/postgres/work/notify.sql"))
}

/// One instance at a time: in the transaction where DDL can be part of one, beside it in MySQL.
async fn lock(database: &Database) -> Result<Session, Error> {
    let dialect = database.dialect();
    match dialect {
        Dialect::Sqlite => database.begin().await,
        Dialect::Postgres => {
            let mut session = database.begin().await?;
            let lock = Statement::new(dialect, "SELECT pg_advisory_xact_lock($1)");
            session.rows(&lock, vec![Value::Int(POSTGRES_LOCK)]).await?;
            Ok(session)
        }
        Dialect::MySql => {
            let mut session = database.session().await?;
            let lock = Statement::new(dialect, "SELECT GET_LOCK('redrive-migrate', 60)");
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

async fn unlock(dialect: Dialect, mut session: Session) -> Result<(), Error> {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => session.commit().await,
        Dialect::MySql => {
            let unlock = Statement::new(dialect, "SELECT RELEASE_LOCK('redrive-migrate')");
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
    let named = head.and_then(|head| Some((head, statement.strip_prefix(head)?.split_once(' ')?)));
    match named {
        Some((head, (name, rest))) => format!("{head}{} {rest}", dialect.quote(name)),
        None => statement.to_owned(),
    }
}

/// Whether the column, index or trigger that the statement adds is there already.
async fn exists(session: &mut Session, dialect: Dialect, statement: &str) -> Result<bool, Error> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let plain = |name: &str| name.replace(['"', '`'], "");
    let (table, name, query) = match words.as_slice() {
        ["ALTER", "TABLE", table, "ADD", "COLUMN", column, ..] => {
            (plain(table), plain(column), column_query(dialect))
        }
        ["CREATE", "INDEX", index, "ON", table, ..]
        | ["CREATE", "UNIQUE", "INDEX", index, "ON", table, ..] => {
            (plain(table), plain(index), index_query(dialect))
        }
        ["CREATE", "TRIGGER", trigger, "AFTER", "INSERT", "ON", table, ..] => {
            (plain(table), plain(trigger), TRIGGER_QUERY)
        }
        _ => return Ok(false),
    };
    // A table with a schema before the dot is looked up in that schema, others in the current one.
    let (schema, table) = match table.split_once('.') {
        Some((schema, table)) => (Some(schema.to_owned()), table.to_owned()),
        None => (None, table),
    };
    let values = match dialect {
        Dialect::Sqlite => vec![Value::Text(table), Value::Text(name)],
        Dialect::Postgres | Dialect::MySql => {
            vec![Value::OptText(schema), Value::Text(table), Value::Text(name)]
        }
    };
    Ok(!session.rows(&Statement::new(dialect, query), values).await?.is_empty())
}

/// Only Postgres has triggers of ours.
const TRIGGER_QUERY: &str = "SELECT 1 FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid \
     JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE n.nspname = COALESCE($1, current_schema()) AND c.relname = $2 AND g.tgname = $3";

const fn column_query(dialect: Dialect) -> &'static str {
    match dialect {
        // table_xinfo also lists computed columns.
        Dialect::Sqlite => "SELECT 1 FROM pragma_table_xinfo($1) WHERE name = $2",
        Dialect::Postgres => {
            "SELECT 1 FROM information_schema.columns \
             WHERE table_schema = COALESCE($1, current_schema()) AND table_name = $2 AND column_name = $3"
        }
        Dialect::MySql => {
            "SELECT 1 FROM information_schema.columns \
             WHERE table_schema = COALESCE($1, DATABASE()) AND table_name = $2 AND column_name = $3"
        }
    }
}

const fn index_query(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "SELECT 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = $1 AND name = $2",
        Dialect::Postgres => {
            "SELECT 1 FROM pg_indexes \
             WHERE schemaname = COALESCE($1, current_schema()) AND tablename = $2 AND indexname = $3"
        }
        Dialect::MySql => {
            "SELECT 1 FROM information_schema.statistics \
             WHERE table_schema = COALESCE($1, DATABASE()) AND table_name = $2 AND index_name = $3 LIMIT 1"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_into_its_statements() {
        let file = "-- why; indeed\nCREATE TABLE a (\n b INT\n);\nCREATE INDEX c ON a (b);\n";
        assert_eq!(statements(file), ["CREATE TABLE a (\n b INT\n)", "CREATE INDEX c ON a (b)"]);
    }

    #[test]
    fn an_index_keeps_the_capitals_of_its_table() {
        let quoted = quote_index(Dialect::Postgres, "CREATE UNIQUE INDEX A_due ON \"A\" (b)");
        assert_eq!(quoted, "CREATE UNIQUE INDEX \"A_due\" ON \"A\" (b)");
        assert_eq!(quote_index(Dialect::MySql, "CREATE TABLE a (b INT)"), "CREATE TABLE a (b INT)");
    }
}
