//! What the audience sees: acts, progress, alerts, groups, books. Plain lines when not on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use redrive_core::dead_letter::Group;

use super::books::Books;
use super::stage::Notice;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const ALARM: Style = AnsiColor::Red.on_default();

/// How wide a progress bar is.
const WIDTH: usize = 30;

pub(crate) struct Show {
    act: usize,
    live: bool,
    /// The progress line that stands at the cursor.
    line: Option<String>,
}

impl Show {
    pub(crate) fn new() -> Self {
        Self { act: 0, live: std::io::stdout().is_terminal(), line: None }
    }

    pub(crate) fn opening(&mut self, folder: &Path) {
        self.say(&format!(
            "{BOLD}redrive demo{BOLD:#}: an outbox and a job queue, on SQLite in {}",
            folder.display()
        ));
    }

    pub(crate) fn act(&mut self, title: &str, what: &str) {
        self.act += 1;
        self.say("");
        self.say(&format!("{BOLD}{}. {title}{BOLD:#}: {what}", self.act));
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.say(&format!("   {text}"));
    }

    /// Replaces the progress line; without a terminal only its last form is written.
    pub(crate) fn progress(&mut self, what: &str, done: usize, total: usize) {
        let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
        let line = format!("   {bar} {done:>6} / {total:<6} {what}");
        if self.live && self.line.as_ref() != Some(&line) {
            let mut out = anstream::stdout();
            let _ = write!(out, "\r\x1b[2K{line}");
            let _ = out.flush();
        }
        self.line = Some(line);
    }

    /// Ends the progress line.
    pub(crate) fn done(&mut self, took: Duration) {
        if let Some(line) = self.line.take() {
            if self.live {
                let _ = write!(anstream::stdout(), "\r\x1b[2K");
            }
            self.say(&format!("{line} {DIM}{:.1} s{DIM:#}", took.as_secs_f64()));
        }
    }

    pub(crate) fn alerts(&mut self, notices: &[Notice]) {
        for notice in notices {
            self.say(&format!("   {ALARM}┌─ {}{ALARM:#}", notice.title));
            for line in &notice.lines {
                self.say(&format!("   {ALARM}│{ALARM:#} {line}"));
            }
            let more = match notice.more {
                0 => String::new(),
                more => format!(" and {more} more of the same"),
            };
            self.say(&format!("   {ALARM}└─{more}{ALARM:#}"));
        }
    }

    pub(crate) fn groups(&mut self, orders: &[Group], articles: &[Group]) {
        self.say(&format!("   {BOLD}dead letters, by cause{BOLD:#}"));
        for (pipeline, groups) in [("orders", orders), ("articles", articles)] {
            for group in groups {
                let Group { fingerprint, event_type, failure, count, .. } = group;
                self.say(&format!(
                    "   {count:>6} × {pipeline:<9} {event_type:<16} {failure} {DIM}{fingerprint}{DIM:#}"
                ));
            }
        }
    }

    pub(crate) fn books(&mut self, books: &Books) {
        self.say("");
        self.say(&format!(
            "{BOLD}The books{BOLD:#}   pipeline   accepted = delivered + waiting + dead + resolved"
        ));
        for line in &books.lines {
            let verdict = if line.balances() {
                format!("{GOOD}balanced{GOOD:#}")
            } else {
                format!("{ALARM}GAP{ALARM:#}")
            };
            self.say(&format!(
                "            {:<10} {:>8} = {:>9} + {:>7} + {:>4} + {:>8}   {verdict}",
                line.pipeline, line.accepted, line.delivered, line.waiting, line.dead, line.resolved
            ));
        }
    }

    pub(crate) fn closing(&mut self) {
        self.say("");
        self.say("Next: `redrive serve` starts with no configuration; `redrive check --reference` lists every setting;");
        self.say("      redrive.example.toml points an outbox at your own table.");
    }

    fn say(&mut self, text: &str) {
        // Nobody is left to tell when standard output is closed.
        let _ = writeln!(anstream::stdout(), "{text}");
    }
}
