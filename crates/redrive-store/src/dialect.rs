//! The three ways to say it in SQL.

use std::fmt;

use crate::error::Error;

/// Which kind of database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// SQLite, embedded.
    Sqlite,
    /// Postgres.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

impl Dialect {
    /// The dialect of a database URL.
    ///
    /// # Errors
    /// [`Error::Setting`] when the scheme is none of `sqlite`, `postgres`, `mysql`, `mariadb`.
    pub fn of_url(url: &str) -> Result<Self, Error> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Ok(Self::Sqlite),
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("mysql" | "mariadb") => Ok(Self::MySql),
            _ => Err(Error::Setting(
                "a database address starts with sqlite:, postgres:// or mysql://".to_owned(),
            )),
        }
    }

    /// The current time, in the type of the time columns.
    pub(crate) const fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
            Self::Postgres => "now()",
            Self::MySql => "UTC_TIMESTAMP(6)",
        }
    }

    /// The time `$1` microseconds from now; before now, if that is negative.
    pub(crate) const fn after_now(self) -> &'static str {
        match self {
            Self::Postgres => "now() + $1::bigint * interval '1 microsecond'",
            Self::MySql => "UTC_TIMESTAMP(6) + INTERVAL $1 MICROSECOND",
            Self::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now', ($1 / 1000000.0) || ' seconds')",
        }
    }

    /// A name in quotes. Names are checked by [`check_name`], so there is nothing to escape.
    pub(crate) fn quote(self, name: &str) -> String {
        let mark = if self == Self::MySql { '`' } else { '"' };
        name.split('.').map(|part| format!("{mark}{part}{mark}")).collect::<Vec<_>>().join(".")
    }

    /// A text as a literal. An odd one is spelled in numbers: backslashes (MySQL), `--`, `{` and `$`
    /// mean something to the server or to [`crate::statement`].
    pub(crate) fn literal(self, text: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ ".contains(c);
        if text.chars().all(plain) && !text.contains("--") {
            return format!("'{text}'");
        }
        let text = text.replace('\0', "");
        let hex = || text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Self::Sqlite => format!("CAST(x'{}' AS TEXT)", hex()),
            Self::MySql => format!("_utf8mb4 x'{}'", hex()),
            Self::Postgres => {
                let code_points =
                    text.chars().map(|c| format!("\\+{:06x}", u32::from(c))).collect::<String>();
                format!("U&'{code_points}'")
            }
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
            Self::MySql => "MySQL",
        })
    }
}

/// The longest name of a table: index names add a suffix, and Postgres cuts at 63.
const MAX_NAME: usize = 48;

/// Checks a table or column name from the configuration: it becomes part of SQL text.
///
/// # Errors
/// [`Error::Setting`] unless it is letters, digits and underscores, with a schema before a dot.
pub fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let parts: Vec<&str> = name.split('.').collect();
    let plain = |part: &&str| {
        part.len() <= MAX_NAME
            && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if parts.len() <= 2 && parts.iter().all(plain) {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "{name:?} cannot be the {what}: use at most {MAX_NAME} letters, digits and underscores, \
         with a schema before a dot if need be"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_change_the_statement_is_refused() {
        for name in ["", "a b", "a;drop table x", "a\"b", "1a", "a.b.c", "a.", "é", &"x".repeat(49)] {
            assert!(check_name("table", name).is_err(), "{name:?}");
        }
        for name in ["outbox_event", "shop.outbox_event", "_x1"] {
            assert!(check_name("table", name).is_ok(), "{name:?}");
        }
    }
}
