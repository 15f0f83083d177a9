//! What a person sees: tables that fit the terminal, times and numbers to read, text that does nothing.
//!
//! Colours are written always, and taken out again where standard output is no terminal, or `NO_COLOR` is set.

mod style;
mod table;

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use redrive_engine::alerts::{Inert, escape_json};
use redrive_server::view::OperationView;
use serde::Serialize;

pub(crate) use style::{Tone, paint};
pub(crate) use table::{Cell, Column, Table, cut};

/// Writes lines to standard output, in colour on a terminal.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Writes lines to standard output, byte for byte.
fn say_exactly(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Writes a value for programs: what is harmful on a terminal is escaped, as JSON may.
pub(crate) fn say_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    say_exactly(&escape_json(&serde_json::to_string_pretty(value)?))
}

/// The same on one line.
pub(crate) fn say_json_line<T: Serialize>(value: &T) -> anyhow::Result<()> {
    say_exactly(&escape_json(&serde_json::to_string(value)?))
}

/// Writes a table that fits the terminal; elsewhere everything is written whole.
pub(crate) fn say_table(table: &Table) -> anyhow::Result<()> {
    say(&table.render(width()))
}

/// How many columns the terminal has; none where there is no terminal.
pub(crate) fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    // A terminal that does not know its size says 0.
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Text from outside, on one line and without effect.
pub(crate) fn plain(text: &str) -> String {
    Inert::new(text).as_str().to_owned()
}

/// The beginning of it.
pub(crate) fn short(text: &str, letters: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= letters {
        return text;
    }
    let cut: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// How long ago something was, in one unit.
pub(crate) fn ago(at: Timestamp) -> String {
    age(at, Timestamp::now())
}

/// How long before `now` something was, in one unit.
pub(crate) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3_600 => format!("{}m ago", seconds / 60),
        3_600..86_400 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// Twenty-four numbers as a line of bars.
pub(crate) fn bars(history: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = history.iter().copied().max().unwrap_or(0);
    let bar = |number: &u64| match (*number, most) {
        (0, _) | (_, 0) => ' ',
        (number, most) => BARS[usize::try_from((number * 7).div_ceil(most)).unwrap_or(7).min(7)],
    };
    history.iter().map(bar).collect()
}

/// The progress of an operation, on a terminal only.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        Self(style.map_or(bar.clone(), |style| bar.with_style(style)))
    }

    pub(crate) fn show(&self, operation: &OperationView) {
        self.0.set_length(operation.total);
        self.0.set_position(operation.done + operation.refused);
        let reason = if operation.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", plain(&operation.reason))
        };
        self.0.set_message(format!("{}{reason}", operation.state));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_letters_and_does_nothing() {
        assert_eq!(short("héllo wörld", 6), "héllo…");
        assert_eq!(short("a\u{1b}[31m", 20), "a\\u{1b}[31m");
    }

    #[test]
    fn whatever_is_not_nothing_has_a_bar() {
        assert_eq!(bars(&[0, 1, 7]), " ▂█");
        assert_eq!(bars(&[0, 0]), "  ");
    }
}
