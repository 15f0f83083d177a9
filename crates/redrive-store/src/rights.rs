//! The rights that a pipeline needs on its tables: the statements that grant them, and which of them are missing.
//!
//! A role that only serves owns nothing and may create nothing. What it lacks is found out before it is needed: a
//! right to delete that is missing would show when the first event dies, in the middle of the night.

use crate::catalog::split;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::session::Session;
use crate::statement::Statement;
use crate::value::Value;

/// What redrive does with a table that holds work, letters or its own records.
pub(crate) const ALL: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// What it does with a table that it only saves rows in. MySQL asks for UPDATE where a row is there already.
pub(crate) const fn to_save(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::MySql => &["SELECT", "INSERT", "UPDATE"],
        Dialect::Postgres | Dialect::Sqlite => &["SELECT", "INSERT"],
    }
}

/// Rights on one table, schema or sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    dialect: Dialect,
    /// Such as `SCHEMA` or `SEQUENCE`; nothing for a table.
    kind: &'static str,
    object: String,
    rights: Vec<String>,
}

impl Grant {
    /// The statement that grants them to this role; MySQL knows accounts such as `redrive@%`.
    #[must_use]
    pub fn to(&self, role: &str) -> String {
        let role = match self.dialect {
            Dialect::MySql => {
                let (user, host) = role.rsplit_once('@').unwrap_or((role, "%"));
                let quoted = |part: &str| format!("'{}'", part.trim_matches('\'').replace('\'', "''"));
                format!("{}@{}", quoted(user), quoted(host))
            }
            Dialect::Postgres | Dialect::Sqlite => format!("\"{}\"", role.replace('"', "\"\"")),
        };
        let Self { kind, object, .. } = self;
        format!("GRANT {} ON {kind}{object} TO {role};", self.rights.join(", "))
    }
}

/// What is needed on one table, and what of it the role lacks.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    pub(crate) grants: Vec<Grant>,
    /// What is missing, each with the statement that grants it.
    pub(crate) problems: Vec<String>,
}

impl Rights {
    /// Those on this table, with a schema before a dot if it has one. A table that does not exist lacks nothing yet.
    pub(crate) async fn on(
        session: &mut Session,
        dialect: Dialect,
        table: &str,
        wanted: &[&'static str],
    ) -> Result<Self, Error> {
        let Some(query) = query(dialect) else { return Ok(Self::default()) };
        let (schema, name) = split(table);
        let values = vec![Value::Text(name), Value::OptText(schema)];
        let rows = session.rows(&Statement::new(dialect, query), values).await?;
        let mut rights = Self::default();
        for row in &rows {
            let (named, object, right) = (row.text(0)?, row.text(1)?, row.text(2)?);
            if named == "ROWS" {
                let role = row.text(4)?;
                rights.problems.push(format!(
                    "row-level security hides rows of {object} from {role}, and they would never be claimed: \
                     CREATE POLICY redrive ON {object} TO \"{role}\" USING (true);"
                ));
                continue;
            }
            let kind = kind(&named);
            if kind.is_empty() && !wanted.contains(&right.as_str()) {
                continue;
            }
            if row.int(3)? == 0 {
                let role = row.text(4)?;
                let missing = Grant { dialect, kind, object: object.clone(), rights: vec![right.clone()] };
                rights
                    .problems
                    .push(format!("{role} lacks {right} on {kind}{object}: {}", missing.to(&role)));
            }
            rights.add(dialect, kind, object, right);
        }
        if rows.is_empty() {
            let wanted = wanted.iter().map(|right| (*right).to_owned()).collect();
            rights.grants.push(Grant { dialect, kind: "", object: dialect.quote(table), rights: wanted });
        }
        if dialect == Dialect::MySql && wanted.contains(&"DELETE") {
            if let Some(row) = rows.first() {
                let (object, role) = (row.text(1)?, row.text(4)?);
                rights.problems.extend(lacks_delete(session, object, &role).await?);
            }
            rights.grants.iter_mut().filter(|grant| !grant.has("DELETE")).for_each(Grant::and_delete);
        }
        Ok(rights)
    }

    fn add(&mut self, dialect: Dialect, kind: &'static str, object: String, right: String) {
        match self.grants.iter_mut().find(|grant| grant.kind == kind && grant.object == object) {
            Some(grant) => grant.rights.push(right),
            None => self.grants.push(Grant { dialect, kind, object, rights: vec![right] }),
        }
    }
}

impl Grant {
    fn has(&self, right: &str) -> bool {
        self.rights.iter().any(|held| held == right)
    }

    fn and_delete(&mut self) {
        self.rights.push("DELETE".to_owned());
    }
}

/// MySQL's catalogue lists the right to delete only where it was granted on this very table, or to this very account:
/// to explain a statement takes the rights that the statement takes.
async fn lacks_delete(session: &mut Session, object: String, role: &str) -> Result<Option<String>, Error> {
    let explain = format!("EXPLAIN DELETE FROM {object} WHERE FALSE");
    match session.rows(&Statement::new(Dialect::MySql, &explain), Vec::new()).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_denied_in_mysql() => {
            let missing =
                Grant { dialect: Dialect::MySql, kind: "", object, rights: vec!["DELETE".to_owned()] };
            Ok(Some(format!("{role} lacks DELETE on {}: {}", missing.object, missing.to(role))))
        }
        Err(error) => Err(error),
    }
}

fn kind(name: &str) -> &'static str {
    match name {
        "SCHEMA" => "SCHEMA ",
        "SEQUENCE" => "SEQUENCE ",
        _ => "",
    }
}

/// SQLite has no rights.
const fn query(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Postgres => Some(include_str!("../sql/postgres/catalog/rights.sql")),
        Dialect::MySql => Some(include_str!("../sql/mysql/catalog/rights.sql")),
        Dialect::Sqlite => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_are_quoted_as_each_store_wants_it() {
        let grant = |dialect| Grant {
            dialect,
            kind: "",
            object: "t".to_owned(),
            rights: vec!["SELECT".to_owned(), "INSERT".to_owned()],
        };
        assert_eq!(grant(Dialect::Postgres).to("my\"app"), "GRANT SELECT, INSERT ON t TO \"my\"\"app\";");
        assert_eq!(grant(Dialect::MySql).to("app"), "GRANT SELECT, INSERT ON t TO 'app'@'%';");
        assert_eq!(
            grant(Dialect::MySql).to("app@10.0.0.%"),
            "GRANT SELECT, INSERT ON t TO 'app'@'10.0.0.%';"
        );
    }
}
