//! Statements that take rows as arrays: the plain insert, and the function that finds poison by itself.
//!
//! The function is made on the connection, in its temporary schema, so it needs no right to create
//! anything in the database and leaves nothing behind (behind a pooler it is dropped after its call). It tries slices of rows, each in an exception
//! block: a slice that goes through makes the next one longer, one that fails is cut in four. A failure
//! that may pass is raised again, and then nothing of the call is stored. Its plan must be a generic one:
//! with a plan of its own for each slice the server would copy all arrays each time.

use std::borrow::Cow;
use std::sync::Arc;

use redrive_core::classify::sqlstate;
use redrive_core::failure::{Code, Failure};
use redrive_store::{Dialect, PostgresServer};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use super::detail::said;
use super::{Link, Shape};
use crate::row::Row;
use crate::sink::statement::{SinkColumns, SinkTable};

/// The server-side function for one table.
#[derive(Debug)]
pub(super) struct Function {
    create: String,
    call: String,
    drop: String,
}

/// States that say nothing about a row, as the core's table has them, and those that mostly speak of the
/// statement, the table or the role: which of the two, the function cannot tell.
const MAY_PASS: &str = "s LIKE ANY (ARRAY['08%', '40%', '53%', '57%', '58%', '28%', '3D%', '42%', '3F%', '0A%', \
                        '55%', '0L%', '0P%']) AND s <> '40002' \
                        OR s IN ('25006', '25P03', '25P04', '26000', '72000', 'HV00N')";

impl Function {
    pub(super) fn new(table: &SinkTable, columns: &SinkColumns) -> Self {
        let arguments = numbered(table, |n| format!("c{n} text[]"));
        let cells = stored(columns, |n| format!("c{n}[i]"));
        let (into, list) = (table.quoted(Dialect::Postgres), table.list(Dialect::Postgres));
        let key = table.key(Dialect::Postgres);
        let create = format!(
            "CREATE OR REPLACE FUNCTION pg_temp.redrive_store({arguments}) \
             RETURNS TABLE (n int, state text, message text, more text) \
             LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $redrive$ \
             #variable_conflict use_column\n\
             DECLARE lo int := 1; hi int; step int := 16; cap int := 16; \
               total int := coalesce(array_length(c1, 1), 0); s text; m text; d text; \
             BEGIN \
               SET CONSTRAINTS ALL IMMEDIATE; \
               WHILE lo <= total LOOP \
                 hi := least(lo + step - 1, total); \
                 BEGIN \
                   INSERT INTO {into} ({list}) SELECT {cells} FROM generate_series(lo, hi) AS i \
                   ON CONFLICT ({key}) DO NOTHING; \
                   lo := hi + 1; cap := cap + 2; step := least(step * 4, cap); \
                 EXCEPTION WHEN OTHERS THEN \
                   GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL; \
                   IF {MAY_PASS} THEN RAISE; END IF; \
                   cap := greatest(16, cap / 2); \
                   IF lo = hi THEN \
                     n := lo; state := s; message := m; more := d; \
                     RETURN NEXT; lo := lo + 1; \
                   ELSE step := greatest(1, (hi - lo + 1) / 4); END IF; \
                 END; \
               END LOOP; \
             END $redrive$"
        );
        let parameters = numbered(table, |n| format!("${n}"));
        let types = numbered(table, |_| "text[]".to_owned());
        Self {
            create,
            call: format!("SELECT n, state, message, more FROM pg_temp.redrive_store({parameters})"),
            drop: format!("DROP FUNCTION pg_temp.redrive_store({types})"),
        }
    }

    /// Stores what can be stored, and names the rest.
    pub(super) async fn call(
        shape: &Arc<Shape>,
        link: &mut Link,
        server: &PostgresServer,
        texts: Vec<Vec<Option<String>>>,
    ) -> Result<Vec<(usize, Failure)>, sqlx::Error> {
        let Self { create, call, drop } = &shape.function;
        if !link.function_of.as_ref().is_some_and(|made_for| Arc::ptr_eq(made_for, shape)) {
            link.connection.execute(sqlx::raw_sql(AssertSqlSafe(create.clone()))).await?;
            link.function_of = Some(Arc::clone(shape));
        }
        let mut query = sqlx::query(AssertSqlSafe(call.clone())).persistent(server.names_statements());
        for column in texts {
            query = query.bind(column);
        }
        let found = query.fetch_all(&mut link.connection).await?;
        if server.is_pooled() {
            // The connection is another client's after this transaction.
            link.function_of = None;
            link.connection.execute(sqlx::raw_sql(AssertSqlSafe(drop.clone()))).await?;
        }
        found.iter().map(poison).collect()
    }
}

fn poison(row: &PgRow) -> Result<(usize, Failure), sqlx::Error> {
    let number: i32 = row.try_get(0)?;
    let state: String = row.try_get(1)?;
    let (message, detail): (String, String) = (row.try_get(2)?, row.try_get(3)?);
    let index = usize::try_from(number - 1).unwrap_or_default();
    let failure = Failure::new(sqlstate::classify(&state), "Database", said(&message, &detail));
    Ok((index, failure.with_code(Code::SqlState(state))))
}

/// The insert of many rows in one statement.
pub(super) fn insert(table: &SinkTable, columns: &SinkColumns) -> String {
    let arrays = numbered(table, |n| format!("${n}::text[]"));
    let names = numbered(table, |n| format!("c{n}"));
    let cells = stored(columns, |n| format!("c{n}"));
    let (into, list) = (table.quoted(Dialect::Postgres), table.list(Dialect::Postgres));
    let key = table.key(Dialect::Postgres);
    format!(
        "INSERT INTO {into} ({list}) SELECT {cells} FROM unnest({arrays}) AS s({names}) \
         ON CONFLICT ({key}) DO NOTHING"
    )
}

pub(super) async fn run_insert(
    connection: &mut PgConnection,
    statement: &str,
    named: bool,
    texts: Vec<Vec<Option<String>>>,
) -> Result<(), sqlx::Error> {
    let mut query = sqlx::query(AssertSqlSafe(statement.to_owned())).persistent(named);
    for column in texts {
        query = query.bind(column);
    }
    query.execute(connection).await.map(drop)
}

fn numbered(table: &SinkTable, each: impl Fn(usize) -> String) -> String {
    (1..=table.width()).map(each).collect::<Vec<_>>().join(", ")
}

/// Each column's value, made from its text.
fn stored(columns: &SinkColumns, text: impl Fn(usize) -> String) -> String {
    let cells = columns.all().iter().enumerate().map(|(n, column)| column.store_text(&text(n + 1)));
    cells.collect::<Vec<_>>().join(", ")
}

/// The rows as columns of text.
///
/// # Errors
/// The first value that its column cannot hold.
pub(super) fn arrays(columns: &SinkColumns, rows: &[Row<'_>]) -> Result<Vec<Vec<Option<String>>>, Failure> {
    let mut arrays: Vec<Vec<Option<String>>> =
        columns.all().iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        for (array, text) in arrays.iter_mut().zip(columns.texts(row)?) {
            array.push(text.map(Cow::into_owned));
        }
    }
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The function must let pass what the core calls retryable, and what speaks of the table.
    #[test]
    fn the_function_knows_the_states_that_may_pass() {
        let states = [
            "08006", "40001", "40P01", "53300", "57014", "57P01", "58030", "28000", "3D000", "25006",
            "25P03", "25P04", "26000", "55P03", "55006", "72000", "HV00N",
        ];
        for state in states {
            assert!(sqlstate::classify(state).is_retryable(), "{state}");
            let prefix = format!("'{}%'", &state[..2]);
            assert!(MAY_PASS.contains(&prefix) || MAY_PASS.contains(&format!("'{state}'")), "{state}");
        }
        for state in ["42501", "42P01", "42804", "3F000", "0A000", "55000"] {
            assert!(MAY_PASS.contains(&format!("'{}%'", &state[..2])), "{state}");
        }
        for state in ["40002", "23505", "23503", "23514", "22P02", "22001", "P0001"] {
            assert!(!sqlstate::classify(state).is_retryable(), "{state}");
        }
    }
}
