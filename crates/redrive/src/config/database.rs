//! Where a database is: checked for a scheme that we speak, never shown with its password.

use url::Url;

use super::document::Node;
use super::environment::Environment;
use super::secret::resolved;
use super::setting::{Setting, Wrong};

/// The address of a database. It may hold a password: `Display` and `Debug` leave that out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DatabaseUrl {
    url: String,
    backend: Backend,
}

/// The kinds of database that redrive speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A file, opened in this process.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A MySQL or MariaDB server.
    MySql,
}

const EXPECTED: &str = "a database address that starts with sqlite:, postgres://, postgresql://, mysql:// or mariadb://, \
                        or \"env:NAME\" (a variable that holds one)";

impl DatabaseUrl {
    /// The whole address, for connecting. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.url
    }

    /// What kind of database is there.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// A SQLite file at this path.
    pub(crate) fn of_file(path: &std::path::Path) -> Self {
        Self { url: format!("sqlite:{}", path.display()), backend: Backend::Sqlite }
    }

    fn parse(url: String) -> Result<Self, Wrong> {
        let scheme = url.split(':').next().unwrap_or_default();
        let backend = match scheme {
            "sqlite" => Backend::Sqlite,
            "postgres" | "postgresql" => Backend::Postgres,
            "mysql" | "mariadb" => Backend::MySql,
            _ => return Err(unknown_scheme(&url, scheme)),
        };
        match backend {
            Backend::Sqlite => sqlite_file(&url)?,
            Backend::Postgres | Backend::MySql => server_address(&url)?,
        }
        Ok(Self { url, backend })
    }
}

/// Without user, password and parameters.
impl std::fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.backend == Backend::Sqlite {
            return f.write_str(self.url.split('?').next().unwrap_or_default());
        }
        let Ok(url) = Url::parse(&self.url) else { return f.write_str("(a database)") };
        write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path())
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

impl Setting for DatabaseUrl {
    fn kind() -> String {
        "database address".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        Self::parse(resolved(node, environment, EXPECTED)?)
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

/// Only the scheme may be repeated: what follows may hold a password.
fn unknown_scheme(url: &str, scheme: &str) -> Wrong {
    let is_scheme =
        url.contains("://") && scheme.len() < 20 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_scheme {
        return Wrong::because(format!("found an address that starts with {scheme}://, expected {EXPECTED}"));
    }
    Wrong::expected(EXPECTED)
}

fn sqlite_file(url: &str) -> Result<(), Wrong> {
    let file = url.trim_start_matches("sqlite:").trim_start_matches("//");
    match file.split('?').next() {
        Some("" | ":memory:") | None => Err(Wrong::expected(
            "the path of a file after sqlite:, such as \"sqlite:./redrive-data/redrive.db\"",
        )),
        Some(_) => Ok(()),
    }
}

fn server_address(url: &str) -> Result<(), Wrong> {
    let example = || Wrong::expected("a whole address, such as postgres://user:password@127.0.0.1:5432/shop");
    let parsed = Url::parse(url).map_err(|_| example())?;
    if !url.contains("://") || parsed.path().len() <= 1 {
        return Err(example());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatabaseUrl, Wrong> {
        DatabaseUrl::parse(text.to_owned())
    }

    #[test]
    fn every_backend_has_its_schemes() {
        let backend = |text: &str| parse(text).unwrap().backend();
        assert_eq!(backend("sqlite:./a.db"), Backend::Sqlite);
        assert_eq!(backend("sqlite:///var/a.db"), Backend::Sqlite);
        assert_eq!(backend("postgresql://localhost/shop"), Backend::Postgres);
        assert_eq!(backend("mariadb://root@[::1]:3306/shop"), Backend::MySql);
    }

    #[test]
    fn addresses_that_cannot_be_opened_are_refused() {
        for text in
            ["", "shop.db", "oracle://a/b", "sqlite:", "sqlite::memory:", "postgres://", "mysql://host"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = parse("postgres://shop:hunter2@db:5432/shop?sslpassword=hunter2").unwrap();
        assert_eq!(url.to_string(), "postgres://db:5432/shop");
        assert_eq!(format!("{url:?}"), "DatabaseUrl(postgres://db:5432/shop)");
    }
}
