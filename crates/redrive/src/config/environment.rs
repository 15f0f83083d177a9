//! The environment variables that the configuration may look at, as a value: tests bring their own.

use std::collections::BTreeMap;

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

/// What the name of an override starts with, and what separates its sections.
const PREFIX: &str = "REDRIVE__";
const SEPARATOR: &str = "__";

impl Environment {
    /// The variables of this process. Text that is not UTF-8 is kept readable, not dropped.
    #[must_use]
    pub fn of_process() -> Self {
        let readable = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self { variables: std::env::vars_os().map(|(name, text)| (readable(name), readable(text))).collect() }
    }

    /// Exactly these variables.
    #[must_use]
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = variables.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self { variables: owned.collect() }
    }

    /// The value of one variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Every `REDRIVE__SECTION__KEY`: its name, its segments, its text.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = (&str, Vec<&str>, &str)> {
        self.variables.iter().filter_map(|(name, text)| {
            let path = name.strip_prefix(PREFIX)?;
            Some((name.as_str(), path.split(SEPARATOR).collect(), text.as_str()))
        })
    }
}

/// Names only: the values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
