//! How one value is read: the types that a setting can have, and what each one refuses.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::document::{Node, Value};
use super::environment::Environment;

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// What the reference calls this type.
    fn kind() -> String;

    /// Reads a value, or says what would be right.
    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong>;

    /// Whether this value may hold a secret: no message then repeats it, nor shows it in its line.
    fn is_sensitive(_: &Node) -> bool {
        false
    }
}

/// Why a value was refused: what would have been right, or a sentence of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// "found …, expected {0}".
    Expected(String),
    /// A sentence that says it all.
    Because(String),
}

impl Wrong {
    pub(crate) fn expected(what: impl Into<String>) -> Self {
        Self::Expected(what.into())
    }

    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self::Because(why.into())
    }
}

/// The text of a node, for types that are written as text.
pub(crate) fn text<'a>(node: &'a Node, expected: &str) -> Result<&'a str, Wrong> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(Wrong::expected(expected)),
    }
}

/// Defines an enum whose variants are written as fixed words.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// The word for it in the configuration.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn kind() -> String {
                $crate::config::suggestion::alternatives([$($word),+], "\"")
            }

            fn read(
                node: &$crate::config::document::Node,
                _: &$crate::config::environment::Environment,
            ) -> Result<Self, $crate::config::setting::Wrong> {
                let expected = Self::kind();
                match $crate::config::setting::text(node, &expected)? {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::config::setting::Wrong::expected(expected)),
                }
            }
        }
    };
}
pub(crate) use choice;

impl Setting for String {
    fn kind() -> String {
        "text".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        match text(node, "text in quotes")? {
            "" => Err(Wrong::expected("text that is not empty")),
            text => Ok(text.to_owned()),
        }
    }
}

impl Setting for PathBuf {
    fn kind() -> String {
        "path".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        match text(node, "a path in quotes")? {
            "" => Err(Wrong::expected("a path that is not empty")),
            path => Ok(path.into()),
        }
    }
}

impl Setting for SocketAddr {
    fn kind() -> String {
        "address".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "an IP address and a port, such as \"127.0.0.1:7070\" or \"[::1]:7070\"";
        text(node, EXPECTED)?.parse().map_err(|_| Wrong::expected(EXPECTED))
    }
}

impl Setting for bool {
    fn kind() -> String {
        "`true` or `false`".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        match &node.value {
            Value::Boolean(value) => Ok(*value),
            Value::Text(text) if node.is_untyped() => {
                text.trim().parse().map_err(|_| Wrong::expected("true or false"))
            }
            _ => Err(Wrong::expected("true or false")),
        }
    }
}

/// A list of texts that is not empty.
impl Setting for Vec<String> {
    fn kind() -> String {
        "list of texts".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        let expected = || Wrong::expected("a list of texts that is not empty, such as [\"a\", \"b\"]");
        match &node.value {
            Value::List(items) if !items.is_empty() => {
                items.iter().map(|item| String::read(item, environment).map_err(|_| expected())).collect()
            }
            _ => Err(expected()),
        }
    }
}

/// A whole number that may be zero.
impl Setting for u32 {
    fn kind() -> String {
        "number".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        let number = whole_number(node).filter(|number| *number <= HIGHEST_NUMBER);
        number.ok_or_else(|| Wrong::expected(format!("a whole number from 0 to {HIGHEST_NUMBER}")))
    }
}

/// A whole number of things that must be there.
impl Setting for NonZeroU32 {
    fn kind() -> String {
        "number".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        let number = whole_number(node).filter(|number| *number <= HIGHEST_NUMBER);
        let above_zero = number.and_then(Self::new);
        above_zero.ok_or_else(|| Wrong::expected(format!("a whole number from 1 to {HIGHEST_NUMBER}")))
    }
}

/// Far above any sensible batch, far below what overflows when multiplied.
const HIGHEST_NUMBER: u32 = 1_000_000;

fn whole_number(node: &Node) -> Option<u32> {
    match &node.value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::Text(text) if node.is_untyped() => text.trim().parse().ok(),
        _ => None,
    }
}

/// A growth factor of a backoff.
impl Setting for f64 {
    fn kind() -> String {
        "factor".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        let number = match &node.value {
            #[expect(clippy::cast_precision_loss, reason = "a factor beyond 2^53 is refused below anyway")]
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) if node.is_untyped() => text.trim().parse().ok(),
            _ => None,
        };
        let within = number.filter(|number| (1.0..=100.0).contains(number));
        within.ok_or_else(|| Wrong::expected("a number from 1.0 to 100.0, such as 2.0"))
    }
}

impl Setting for Duration {
    fn kind() -> String {
        "duration".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "a duration above zero such as \"100ms\", \"5s\", \"5m\", \"72h\" or \"7d\"";
        // Zero is refused: nothing here may spin.
        let duration =
            redrive_server::duration::parse(text(node, EXPECTED)?).filter(|duration| !duration.is_zero());
        duration.ok_or_else(|| Wrong::expected(EXPECTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::Origin;

    fn read<T: Setting>(value: Value, origin: Origin) -> Result<T, Wrong> {
        T::read(&Node { value, origin }, &Environment::default())
    }

    fn variable() -> Origin {
        Origin::Variable("REDRIVE__X".to_owned())
    }

    #[test]
    fn a_number_may_be_text_in_a_variable_but_not_in_the_file() {
        assert_eq!(read(Value::Text("12".to_owned()), variable()), Ok(12_u32));
        assert!(read::<u32>(Value::Text("12".to_owned()), Origin::File(0..1)).is_err());
        assert_eq!(read(Value::Text("1.5".to_owned()), variable()), Ok(1.5_f64));
    }

    #[test]
    fn numbers_have_an_end_and_some_start_at_one() {
        for number in [-1, i128::from(HIGHEST_NUMBER) + 1, i128::MAX] {
            assert!(read::<u32>(Value::Integer(number), Origin::File(0..1)).is_err(), "{number}");
        }
        assert_eq!(read(Value::Integer(0), Origin::File(0..1)), Ok(0_u32));
        assert!(read::<NonZeroU32>(Value::Integer(0), Origin::File(0..1)).is_err());
    }

    #[test]
    fn factors_shrink_nothing() {
        for factor in [0.5, 0.0, -2.0, f64::NAN, f64::INFINITY] {
            assert!(read::<f64>(Value::Float(factor), Origin::File(0..1)).is_err(), "{factor}");
        }
        assert_eq!(read(Value::Integer(2), Origin::File(0..1)), Ok(2.0_f64));
    }
}
