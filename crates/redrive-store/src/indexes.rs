//! The indexes of a table as the catalogue describes them: which of them keep a row from being stored twice, and
//! whether one that has the name of an index of redrive's is that index.

use crate::catalog::split;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::{Sql, Statement, sql};
use crate::value::Value;

const INDEXES: Sql = sql!(each "catalog/indexes.sql");

/// One index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) name: String,
    /// In order; nothing for an expression.
    pub(crate) columns: Vec<String>,
    /// It keeps a second row with the same values out, whatever else the row holds.
    pub(crate) is_key: bool,
}

impl Index {
    /// Those of this table, with a schema before a dot if it has one.
    pub(crate) async fn of_table(
        session: &mut Session,
        dialect: Dialect,
        table: &str,
    ) -> Result<Vec<Self>, Error> {
        let (schema, name) = split(table);
        let values = match dialect {
            Dialect::Sqlite => vec![Value::Text(name)],
            Dialect::Postgres | Dialect::MySql => vec![Value::Text(name), Value::OptText(schema)],
        };
        let statement = Statement::new(dialect, INDEXES.text(dialect));
        let mut indexes: Vec<Self> = Vec::new();
        for row in session.rows(&statement, values).await? {
            let (name, is_key, column) = (row.text(0)?, row.int(1)? != 0, row.text(2)?);
            match indexes.last_mut().filter(|index| index.name == name) {
                Some(index) => index.columns.push(column),
                None => indexes.push(Self { name, columns: vec![column], is_key }),
            }
        }
        Ok(indexes)
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is over these columns, in this order.
    pub(crate) fn is_over(&self, columns: &[String]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().zip(columns).all(|(one, other)| one.eq_ignore_ascii_case(other))
    }
}

/// What has the name of an index already, if it is not an index of this table. MySQL's indexes are named apart for each
/// table.
pub(crate) async fn taken_by(
    session: &mut Session,
    dialect: Dialect,
    table: &str,
    index: &str,
) -> Result<Option<String>, Error> {
    let (schema, _) = split(table);
    let (query, values) = match dialect {
        Dialect::MySql => return Ok(None),
        Dialect::Sqlite => (
            "SELECT CASE type WHEN 'index' THEN 'an index of ' || tbl_name ELSE 'a ' || type END FROM sqlite_master \
             WHERE name = $1 COLLATE NOCASE",
            vec![Value::Text(index.to_owned())],
        ),
        Dialect::Postgres => (
            "SELECT COALESCE('an index of ' || x.indrelid::regclass::text, 'a table, view or sequence') \
             FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
             LEFT JOIN pg_index AS x ON x.indexrelid = c.oid \
             WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema())",
            vec![Value::Text(index.to_owned()), Value::OptText(schema)],
        ),
    };
    let rows = session.rows(&Statement::new(dialect, query), values).await?;
    rows.first().map(|row| row.text(0)).transpose()
}
