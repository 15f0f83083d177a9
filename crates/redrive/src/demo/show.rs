//! How the audience sees it: acts, progress, alerts, groups, books. Plain lines when not on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_server::number::grouped;
use redrive_server::view::{BooksView, GroupView, KindName};

use super::pace::{Audience, Pace};
use super::stage::Stage;
use super::town::Page;
use super::words::{self, Act};
use crate::screen::{cut, plain, short, width};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ALARM: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();

/// What is before the words of the pager, as wide as it is.
const PAGER: &str = "   | pager  ";
/// How far the cause of a group is set in.
const INDENT: usize = 9;

/// How quickly it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tempo {
    /// So that one can read it, on a terminal.
    Readable,
    /// Without pauses.
    Quick,
}

/// The show.
pub(super) struct Show {
    act: u32,
    live: bool,
    bars: MultiProgress,
    pace: Pace,
}

/// A number on its way to another.
pub(super) struct Bar {
    bar: ProgressBar,
    label: String,
    total: u64,
    begun: Instant,
}

impl Show {
    /// On a terminal there is a reader, unless the audience is in a hurry.
    pub(super) fn new(tempo: Tempo) -> Self {
        let live = std::io::stdout().is_terminal();
        let bars = MultiProgress::new();
        bars.set_draw_target(if live { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() });
        let audience = if live && tempo == Tempo::Readable { Audience::Reader } else { Audience::Log };
        Self { act: 0, live, bars, pace: Pace::new(audience) }
    }

    pub(super) fn opening(&self, stage: &Stage) {
        let [what, place] = words::opening(stage);
        self.say(&format!("{BOLD}redrive demo{BOLD:#}  {what}"));
        self.note(&place);
    }

    pub(super) fn act(&mut self, act: &Act) {
        self.act += 1;
        self.say("");
        self.say(&format!("{BOLD}{}. {}{BOLD:#}", self.act, act.title));
        for line in act.what {
            self.note(line);
        }
    }

    /// Stays until what was said has been read.
    pub(super) async fn read(&self) {
        self.pace.read().await;
    }

    pub(super) fn note(&self, text: &str) {
        self.say(&format!("   {text}"));
    }

    /// A bar that is drawn until it is full.
    pub(super) fn bar(&self, label: &str, total: u64) -> Bar {
        let bar = self.bars.add(ProgressBar::new(total));
        let style = ProgressStyle::with_template("   {msg:<34} {bar:30} {pos:>6} / {len}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▓░"));
        }
        bar.set_message(label.to_owned());
        Bar { bar, label: label.to_owned(), total, begun: Instant::now() }
    }

    /// The bar is full, or as full as it gets.
    pub(super) fn full(&self, bar: Bar) {
        let Bar { bar, label, total, begun } = bar;
        bar.finish_and_clear();
        self.bars.remove(&bar);
        let took = begun.elapsed().as_secs_f64();
        self.say(&format!("   {GOOD}✔{GOOD:#} {label:<32} {:>6} {DIM}{took:.1} s{DIM:#}", grouped(total)));
    }

    pub(super) fn pager(&self, pages: &[Page]) {
        for page in pages.iter().take(4) {
            let text = if page.text.is_empty() { String::new() } else { format!(": {}", page.text) };
            let said = self.beginning(&format!("{}{text}", plain(&page.title)), PAGER.len());
            self.say(&format!("   {ALARM}▌ pager{ALARM:#}  {said}"));
        }
        if pages.len() > 4 {
            self.say(&format!("   {ALARM}▌ pager{ALARM:#}  {DIM}and {} more{DIM:#}", pages.len() - 4));
        }
    }

    pub(super) fn groups(&self, groups: &[GroupView], causes: &[String]) {
        let count = grouped(groups.iter().map(|group| group.count).sum());
        self.say(&format!("   {BOLD}{count} {}{BOLD:#}", words::GROUPED));
        for (group, cause) in groups.iter().zip(causes) {
            let code = group.failure.code.as_deref().map(|code| format!("  {}", plain(code)));
            self.say(&format!(
                "   {:>6} × {:<10} {}{}",
                grouped(group.count),
                plain(&group.pipeline),
                plain(&group.event_type),
                code.unwrap_or_default()
            ));
            let message = self.beginning(cause, INDENT);
            self.say(&format!("{:INDENT$}{message}", ""));
        }
    }

    /// As much of the beginning as fits on a line after this much: what happened is said first.
    fn beginning(&self, text: &str, after: usize) -> String {
        let text = plain(text);
        width().filter(|_| self.live).map_or(text.clone(), |width| cut(&text, width.saturating_sub(after)))
    }

    pub(super) fn crm(&self, got: &str) {
        self.note(&format!("{GOOD}✔{GOOD:#} the CRM got {got}"));
    }

    pub(super) fn stopped(&self, reason: &str) {
        self.say(&format!("   {ALARM}stopped itself{ALARM:#}  {}", short(reason, 300)));
    }

    pub(super) fn books(&self, books: &BooksView) {
        self.say("");
        self.say(&format!(
            "{BOLD}The books{BOLD:#}   {:<10} {:>8} = {:>9} + {:>9} + {:>4} + {:>8}",
            "pipeline", "accepted", "delivered", "in flight", "open", "resolved"
        ));
        for book in &books.pipelines {
            let Some(line) = &book.balance else { continue };
            // What never failed is in the applications' own tables.
            let letters = matches!(book.kind, KindName::Kafka | KindName::Persist | KindName::Intake);
            let note = if letters { " (its letters)" } else { "" };
            let verdict = match book.gap.unwrap_or_default() {
                0 => format!("{GOOD}balanced{GOOD:#}"),
                gap => format!("{ALARM}GAP {gap}{ALARM:#}"),
            };
            self.say(&format!(
                "            {:<10} {:>8}   {:>9}   {:>9}   {:>4}   {:>8}   {verdict}{DIM}{note}{DIM:#}",
                plain(&book.pipeline),
                line.accepted,
                line.delivered,
                line.in_flight,
                line.open + line.parked,
                line.resolved
            ));
        }
        self.note(words::BALANCED);
    }

    pub(super) fn closing(&self) {
        self.say("");
        self.say(&format!("{BOLD}Next{BOLD:#}"));
        for (command, why) in words::next(&words::program()) {
            self.say(&format!("   {command:<36} {DIM}{why}{DIM:#}"));
        }
    }

    pub(super) fn staying_open(&self, stage: &Stage) {
        self.say("");
        self.say(&format!(
            "{BOLD}It stays open{BOLD:#} until Ctrl-C, with new dead letters to play with: {BOLD}{}{BOLD:#}",
            stage.address
        ));
        self.note("From another terminal, in the same folder:");
        for (command, why) in words::to_try(&words::program(), stage) {
            // Whole, to be copied: the comment goes above it.
            if !why.is_empty() {
                self.say(&format!("{DIM}   # {why}{DIM:#}"));
            }
            self.say(&format!("   {command}"));
        }
        self.say("");
    }

    fn say(&self, text: &str) {
        self.pace.said(text);
        // Nobody is left to tell when standard output is closed.
        if self.live {
            let _ = self.bars.println(text);
        } else {
            let _ = writeln!(anstream::stdout(), "{text}");
        }
    }
}

impl Bar {
    pub(super) fn at(&self, done: u64) {
        self.bar.set_position(done.min(self.total));
    }

    pub(super) fn grow(&mut self, total: u64) {
        self.total = total;
        self.bar.set_length(total);
    }

    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// It will never be full.
    pub(super) fn clear(self) {
        self.bar.finish_and_clear();
    }
}
