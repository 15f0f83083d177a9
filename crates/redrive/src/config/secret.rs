//! Values that must never be seen: not in a log, not in a message, not in `Debug`.

use super::document::Node;
use super::environment::Environment;
use super::setting::{Setting, Wrong, text};

/// Text that shows itself only when asked by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Setting for Secret {
    fn kind() -> String {
        "secret".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        resolved(node, environment, "a secret in quotes, \"env:NAME\" or \"file:PATH\"").map(Self)
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

/// The text of a node, or of the variable that it names with `env:`, or of the file that it names with `file:`.
pub(crate) fn resolved(node: &Node, environment: &Environment, expected: &str) -> Result<String, Wrong> {
    let written = text(node, expected)?;
    if let Some(path) = written.strip_prefix("file:") {
        return of_file(path);
    }
    let Some(name) = written.strip_prefix("env:") else { return not_empty(written, expected) };
    match environment.get(name) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) => Err(Wrong::because(format!("environment variable `{name}` is empty; give it a value"))),
        None => Err(Wrong::because(format!(
            "environment variable `{name}` is not set; set it, or write the value here"
        ))),
    }
}

/// The text of a file, without the end of its last line.
fn of_file(path: &str) -> Result<String, Wrong> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Wrong::because(format!("file `{path}` cannot be read: {error}")))?;
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(Wrong::because(format!("file `{path}` is empty; write the value into it"))),
        text => Ok(text.to_owned()),
    }
}

fn not_empty(text: &str, expected: &str) -> Result<String, Wrong> {
    if text.is_empty() { Err(Wrong::expected(expected)) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_from_the_variable_that_it_names() {
        let environment = Environment::of([("HOOK", "https://hooks/1")]);
        let secret = Secret::read(&Node::of_default("env:HOOK"), &environment).unwrap();
        assert_eq!(secret.expose(), "https://hooks/1");
    }

    #[test]
    fn a_variable_that_is_missing_is_named() {
        let wrong = Secret::read(&Node::of_default("env:HOOK"), &Environment::default()).unwrap_err();
        assert!(matches!(wrong, Wrong::Because(why) if why.contains("`HOOK` is not set")));
    }

    #[test]
    fn a_secret_is_taken_from_the_file_that_it_names() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let named = format!("file:{}", file.path().display());
        let read = || Secret::read(&Node::of_default(&named), &Environment::default());
        assert!(matches!(read().unwrap_err(), Wrong::Because(why) if why.contains("is empty")));
        std::fs::write(file.path(), "hunter2\n").unwrap();
        assert_eq!(read().unwrap().expose(), "hunter2");
        drop(file);
        assert!(matches!(
            Secret::read(&Node::of_default(&named), &Environment::default()).unwrap_err(),
            Wrong::Because(why) if why.contains("cannot be read")
        ));
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret("hunter2".to_owned())), "Secret(***)");
    }
}
