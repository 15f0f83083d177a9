//! SQL text from `sql/`, made ready once for a dialect and its table names.
//!
//! A file may use `$1 $2 …` for parameters (each once, in order, so that MySQL's `?` can say the
//! same), `{name}` for a table or column from the configuration, and `{now}` for the store's clock.
//! Values never become text.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::dialect::Dialect;

/// The text of one statement for each dialect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) mysql: &'static str,
}

impl Sql {
    /// The text for this dialect.
    pub(crate) const fn text(self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
            Dialect::MySql => self.mysql,
        }
    }
}

/// `sql!("outbox/extend.sql")`: one portable file, or
/// `sql!(sqlite: "…", postgres: "…", mysql: "…")`: one for each, from the folder of its name.
macro_rules! sql {
    ($file:literal) => {
        $crate::statement::Sql {
            sqlite: include_str!(concat!("../sql/", $file)),
            postgres: include_str!(concat!("../sql/", $file)),
            mysql: include_str!(concat!("../sql/", $file)),
        }
    };
    (each $file:literal) => {
        $crate::statement::Sql {
            sqlite: include_str!(concat!("../sql/sqlite/", $file)),
            postgres: include_str!(concat!("../sql/postgres/", $file)),
            mysql: include_str!(concat!("../sql/mysql/", $file)),
        }
    };
}
pub(crate) use sql;

/// What `{name}` stands for in the files of one store.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    dialect: Dialect,
    names: Vec<(&'static str, String)>,
}

impl Names {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, names: vec![("now", dialect.now().to_owned())] }
    }

    /// `{name}` is this table or column, in quotes.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, identifier: &str) -> Self {
        self.names.push((name, self.dialect.quote(identifier)));
        self
    }

    /// `{name}` is this table, and `{prefix}` what the names of its indexes start with: they live in
    /// the schema of their table and do not repeat it.
    #[must_use]
    pub(crate) fn with_table(self, name: &'static str, prefix: &'static str, table: &str) -> Self {
        let plain = table.rsplit('.').next().unwrap_or(table);
        self.with(name, table).with_sql(prefix, plain)
    }

    /// `{name}` is this text, as a literal.
    #[must_use]
    pub(crate) fn with_literal(mut self, name: &'static str, text: &str) -> Self {
        self.names.push((name, self.dialect.literal(text)));
        self
    }

    /// `{name}` is this piece of SQL, as it stands.
    #[must_use]
    pub(crate) fn with_sql(mut self, name: &'static str, text: &str) -> Self {
        let text = self.fill(text);
        self.names.push((name, text));
        self
    }

    /// The statement for this dialect and these names.
    pub(crate) fn statement(&self, sql: Sql) -> Statement {
        Statement::new(self.dialect, &self.fill(self.text(sql)))
    }

    /// The text of the dialect, before its names are filled in.
    pub(crate) const fn text(&self, sql: Sql) -> &'static str {
        sql.text(self.dialect)
    }

    /// The text with every `{name}` filled in, and without its comments: they may name names, too.
    pub(crate) fn fill(&self, text: &str) -> String {
        let text = without_comments(text);
        self.names.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }
}

/// A statement that is ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    text: Arc<str>,
    effort: Effort,
}

/// How much a statement may have to do, and so how long it may take: see [`crate::Deadlines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Some rows, by an index.
    Ordinary,
    /// Every row of a table.
    Count,
    /// A change of a table, or the wait for somebody who changes it.
    Migration,
}

impl Statement {
    pub(crate) fn new(dialect: Dialect, text: &str) -> Self {
        let text = without_comments(text);
        debug_assert!(!text.contains('{'), "invariant: every name is filled in: {text}");
        let text = if dialect == Dialect::MySql { question_marks(&text).into() } else { text.into() };
        Self { text, effort: Effort::Ordinary }
    }

    /// Text that is not from our files, such as the condition of a constraint: exactly as it is, without parameters.
    pub(crate) fn verbatim(text: &str) -> Self {
        Self { text: text.into(), effort: Effort::Ordinary }
    }

    /// The same statement, with as much time as this takes.
    #[must_use]
    pub(crate) fn taking(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    pub(crate) const fn effort(&self) -> Effort {
        self.effort
    }

    /// How it begins, for a log: the whole text may fill a page.
    pub(crate) fn beginning(&self) -> String {
        const WORDS: usize = 6;
        let mut words = self.text.split_whitespace();
        let beginning = words.by_ref().take(WORDS).collect::<Vec<_>>().join(" ");
        if words.next().is_none() { beginning } else { format!("{beginning} …") }
    }

    /// For the driver. Safe: the text comes from our files, with names that were checked.
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.text)).into_sql_str()
    }

    /// For tests and logs.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Comments are for readers of the files; servers need not parse them each time.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code).trim_end());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The text with its parameters counted on after so many others: it becomes part of a larger statement.
pub(crate) fn parameters_after(others: usize, text: &str) -> String {
    let mut parts = text.split('$');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match part[..part.len() - rest.len()].parse::<usize>() {
            Ok(number) => format!("{out}${}{rest}", number + others),
            Err(_) => format!("{out}${part}"),
        }
    })
}

/// `$1`, `$2` … become `?`; a `$` that starts a JSON path stays.
fn question_marks(text: &str) -> String {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut expected = 1;
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &part[..part.len() - rest.len()];
        if number.is_empty() {
            out.push('$');
        } else {
            debug_assert_eq!(number, expected.to_string(), "invariant: parameters are in order: {text}");
            expected += 1;
            out.push('?');
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_parameters_are_the_dialects_own() {
        let sql = Sql {
            sqlite: "UPDATE {t} SET a = $1 WHERE b = $2 -- why",
            postgres: "UPDATE {t} SET a = $1 WHERE b = $2 -- why",
            mysql: "UPDATE {t} SET a = $1 WHERE b = $2 -- why",
        };
        let text = |dialect| Names::new(dialect).with("t", "shop.x").statement(sql).as_str().to_owned();
        assert_eq!(text(Dialect::MySql), "UPDATE `shop`.`x` SET a = ? WHERE b = ?");
        assert_eq!(text(Dialect::Postgres), "UPDATE \"shop\".\"x\" SET a = $1 WHERE b = $2");
    }
}
