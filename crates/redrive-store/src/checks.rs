//! CHECK constraints of an application's table on a column that redrive writes: whether they take what it writes.
//!
//! A constraint that lists the statuses an application knew, and not `dead_letter`, would show when the first job
//! dies. The database is asked for each value, in a query that reads no table.

use crate::catalog::{Table, is_mariadb, split};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::Statement;
use crate::value::Value;

/// What is wrong with the constraints on this column, if they refuse one of these values.
pub(crate) async fn problems(
    session: &mut Session,
    dialect: Dialect,
    table: &Table,
    column: &str,
    values: &[&str],
) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    if !table.exists() || table.column(column).is_none() {
        return Ok(problems);
    }
    for (name, condition) in constraints(session, dialect, &table.name, column).await? {
        let refused = refused(session, dialect, column, &condition, values).await?;
        if !refused.is_empty() {
            problems.push(problem(dialect, table, column, &name, &refused));
        }
    }
    Ok(problems)
}

fn problem(dialect: Dialect, table: &Table, column: &str, name: &str, refused: &[String]) -> String {
    let advice = match dialect {
        Dialect::Sqlite => {
            "make the table anew with them in it, since SQLite cannot change a constraint".to_owned()
        }
        Dialect::Postgres | Dialect::MySql => format!(
            "add them to it, or ALTER TABLE {} DROP CONSTRAINT {};",
            dialect.quote(&table.name),
            dialect.quote(name)
        ),
    };
    format!("{}.{column}: the constraint {name} refuses {}: {advice}", table.name, refused.join(", "))
}

/// Names and conditions of the constraints that may look at the column.
async fn constraints(
    session: &mut Session,
    dialect: Dialect,
    table: &str,
    column: &str,
) -> Result<Vec<(String, String)>, Error> {
    let (schema, name) = split(table);
    let of_table = vec![Value::Text(name.clone()), Value::OptText(schema)];
    let (query, values) = match dialect {
        Dialect::Sqlite => return of_definition(session, name).await,
        Dialect::Postgres => {
            let column = Value::Text(column.to_owned());
            (include_str!("../sql/postgres/catalog/checks.sql"), [of_table, vec![column]].concat())
        }
        Dialect::MySql if is_mariadb(session).await? => {
            (include_str!("../sql/mysql/catalog/checks_mariadb.sql"), of_table)
        }
        Dialect::MySql => (include_str!("../sql/mysql/catalog/checks_mysql.sql"), of_table),
    };
    let rows = session.rows(&Statement::new(dialect, query), values).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
}

/// SQLite keeps constraints only in the text that made the table.
async fn of_definition(session: &mut Session, table: String) -> Result<Vec<(String, String)>, Error> {
    let query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = $1 COLLATE NOCASE";
    let rows = session.rows(&Statement::new(Dialect::Sqlite, query), vec![Value::Text(table)]).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let definition = row.text(0)?;
    let named = |condition: &str| (format!("CHECK ({condition})"), condition.to_owned());
    Ok(conditions(&definition).into_iter().map(named).collect())
}

/// The text between the parentheses of each CHECK.
fn conditions(definition: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut quote, mut depth, mut begun) = (None, 0_usize, None);
    for (at, letter) in definition.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '(') => {
                if begun.is_none() && is_check(&definition[..at]) {
                    begun = Some((at + 1, depth));
                }
                depth += 1;
            }
            (None, ')') => {
                depth = depth.saturating_sub(1);
                if let Some((start, _)) = begun.take_if(|(_, outer)| *outer == depth) {
                    found.push(&definition[start..at]);
                }
            }
            (None, _) => {}
        }
    }
    found
}

/// Whether the last word is CHECK.
fn is_check(before: &str) -> bool {
    let before = before.trim_end();
    let word = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
    word.is_some_and(|word| word.eq_ignore_ascii_case("check"))
}

/// The values with which a column does not meet the condition. One that also looks at other columns is not judged here:
/// the query fails for want of them.
async fn refused(
    session: &mut Session,
    dialect: Dialect,
    column: &str,
    condition: &str,
    values: &[&str],
) -> Result<Vec<String>, Error> {
    if !condition.to_lowercase().contains(&column.to_lowercase()) {
        return Ok(Vec::new());
    }
    let column = dialect.quote(column);
    let kind = if dialect == Dialect::Postgres { "::text" } else { "" };
    let rows = values.iter().map(|value| format!("SELECT {}{kind} AS {column}", dialect.literal(value)));
    let rows = rows.collect::<Vec<_>>().join(" UNION ALL ");
    let query = format!("SELECT {column} FROM ({rows}) AS t WHERE NOT ({condition})");
    match session.rows(&Statement::verbatim(&query), Vec::new()).await {
        Ok(rows) => rows.iter().map(|row| row.text(0)).collect(),
        Err(Error::Rejected { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_found_in_the_text_that_made_a_table() {
        let definition = "CREATE TABLE j (a TEXT DEFAULT ') CHECK (' CHECK (a IN ('x)', \"(y\")), checked (b), \
                          check(length(a) > (1)), CONSTRAINT c CHECK\n( b <> 'CHECK (z)'))";
        assert_eq!(conditions(definition), ["a IN ('x)', \"(y\")", "length(a) > (1)", " b <> 'CHECK (z)'"]);
        assert_eq!(conditions("CREATE TABLE j (a TEXT"), Vec::<&str>::new());
    }
}
