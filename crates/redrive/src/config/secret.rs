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
        resolved(node, environment, "a secret in quotes, or \"env:NAME\"").map(Self)
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

/// The text of a node, or of the variable that it names with `env:`.
pub(crate) fn resolved(node: &Node, environment: &Environment, expected: &str) -> Result<String, Wrong> {
    let written = text(node, expected)?;
    let Some(name) = written.strip_prefix("env:") else { return not_empty(written, expected) };
    match environment.get(name) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) => Err(Wrong::because(format!("environment variable `{name}` is empty; give it a value"))),
        None => Err(Wrong::because(format!(
            "environment variable `{name}` is not set; set it, or write the value here"
        ))),
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
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret("hunter2".to_owned())), "Secret(***)");
    }
}
