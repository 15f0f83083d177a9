//! The few colours that there are, and what each means.

use std::fmt;

use anstyle::{AnsiColor, Style};

/// Headings, and what one looks for first.
const STRONG: Style = Style::new().bold();
/// What is there for completeness.
const DIM: Style = Style::new().dimmed();
/// Something is as it should be.
const GOOD: Style = AnsiColor::Green.on_default();
/// Somebody has to decide something.
const WAITING: Style = AnsiColor::Yellow.on_default();
/// Something is wrong.
const TROUBLE: Style = AnsiColor::Red.on_default();

/// What a text says about how things are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Strong,
    Dim,
    Good,
    Waiting,
    Trouble,
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => STRONG,
            Self::Dim => DIM,
            Self::Good => GOOD,
            Self::Waiting => WAITING,
            Self::Trouble => TROUBLE,
        }
    }
}

/// A text in its colour.
pub(crate) struct Paint<'a> {
    tone: Tone,
    text: &'a str,
}

/// This text in this tone.
pub(crate) const fn paint(tone: Tone, text: &str) -> Paint<'_> {
    Paint { tone, text }
}

impl fmt::Display for Paint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = self.tone.style();
        write!(f, "{style}{}{style:#}", self.text)
    }
}
