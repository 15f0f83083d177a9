//! `auto-redrive`: which dead letters go back by themselves, and when.

use std::time::Duration;

use redrive_core::failure::Code;

use super::document::Node;
use super::environment::Environment;
use super::section::Section;
use super::setting::{Setting, Wrong, choice, text};

/// A rule: these letters are redriven after a delay, so many times.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoRedrive {
    /// Which letters.
    pub letters: Letters,
    /// How long after the failure.
    pub after: Duration,
    /// How much longer it takes each further time.
    pub factor: f64,
    /// The longest delay.
    pub max_after: Duration,
    /// How many times at most.
    pub max_redrives: u32,
}

/// Which letters a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letters {
    /// Those of a class.
    Class(FailureClass),
    /// Those with a code.
    Code(Code),
}

choice! {
    /// The classes of failures.
    FailureClass {
        /// The same event may succeed later.
        Transient = "transient",
        /// The other side said when to come back.
        Throttled = "throttled",
        /// The same event fails every time.
        Permanent = "permanent",
        /// The event cannot be read.
        Malformed = "malformed",
        /// Nobody was registered for its type.
        Unhandled = "unhandled",
        /// The handler gave no hint.
        Unclassified = "unclassified",
    }
}

/// The ways to say which letters are meant.
const WAYS: [&str; 2] = ["class", "code"];

impl AutoRedrive {
    /// Reads the rules of a pipeline.
    pub(crate) fn read_all(section: &mut Section<'_>) -> Vec<Self> {
        section.list(
            "auto-redrive",
            "Dead letters that are redriven by themselves: a list of rules.",
            Self::read,
        )
    }

    fn read(section: &mut Section<'_>) -> Option<Self> {
        let class = section.optional("class", "Letters whose failure is of this class; or:");
        let code = section.optional(
            "code",
            "Letters whose failure has this code, such as `\"http:503\"` or `\"sqlstate:40001\"`.",
        );
        section.exactly_one(&WAYS);
        let after = section.get("after", "10m", "How long after the failure.");
        let factor = section.get("factor", "2.0", "How much longer it takes each further time.");
        let max_after = section.get("max-after", "1h", "The longest delay.");
        let max_redrives = section.get("max-redrives", "3", "How many times a letter is redriven at most.");
        refuse_shrinking(section, after, max_after);
        let letters = class.map(Letters::Class).or(code.map(Letters::Code))?;
        Some(Self { letters, after, factor, max_after, max_redrives })
    }
}

fn refuse_shrinking(section: &mut Section<'_>, after: Duration, max_after: Duration) {
    if after > max_after {
        let key = if section.has("max-after") { "max-after" } else { "after" };
        let (after, max_after) =
            (redrive_server::duration::show(after), redrive_server::duration::show(max_after));
        let message = format!(
            "found after = \"{after}\" above max-after = \"{max_after}\", expected after to be at most max-after"
        );
        section.refuse(key, message);
    }
}

impl Setting for Code {
    fn kind() -> String {
        "failure code".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        let expected = || {
            let schemes = Self::SCHEMES.join(", ");
            format!("a code such as \"http:503\" (scheme:value, where the scheme is one of {schemes})")
        };
        let code: Self = text(node, &expected())?.parse().map_err(|_| Wrong::expected(expected()))?;
        if code.to_string().ends_with(':') { Err(Wrong::expected(expected())) } else { Ok(code) }
    }
}
