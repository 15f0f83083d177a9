//! What the audience sees: acts, progress, alerts, groups, books. Plain lines when not on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_server::number::grouped;
use redrive_server::view::{BooksView, GroupView, KindName};

use super::stage::Stage;
use super::town::Page;
use crate::screen::{plain, short};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ALARM: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();

/// The show.
pub(super) struct Show {
    act: u32,
    live: bool,
    bars: MultiProgress,
}

/// A number on its way to another.
pub(super) struct Bar {
    bar: ProgressBar,
    label: String,
    total: u64,
    begun: Instant,
}

impl Show {
    pub(super) fn new() -> Self {
        let live = std::io::stdout().is_terminal();
        let bars = MultiProgress::new();
        bars.set_draw_target(if live { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() });
        Self { act: 0, live, bars }
    }

    pub(super) fn opening(&self, stage: &Stage) {
        let pipelines =
            if stage.has_kafka() { "five pipelines" } else { "four pipelines (this build has no Kafka)" };
        self.say(&format!(
            "{BOLD}redrive demo{BOLD:#}: {pipelines}, embedded, in {}",
            stage.folder().display()
        ));
        self.say(&format!("   look at it meanwhile: {BOLD}{}{BOLD:#}", stage.address));
    }

    pub(super) fn act(&mut self, title: &str, what: &str) {
        self.act += 1;
        self.say("");
        self.say(&format!("{BOLD}{}. {title}{BOLD:#}  {what}", self.act));
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
            let text =
                if page.text.is_empty() { String::new() } else { format!(": {}", short(&page.text, 90)) };
            self.say(&format!("   {ALARM}▌ pager{ALARM:#}  {}{text}", plain(&page.title)));
        }
        if pages.len() > 4 {
            self.say(&format!("   {ALARM}▌ pager{ALARM:#}  {DIM}and {} more{DIM:#}", pages.len() - 4));
        }
    }

    pub(super) fn groups(&self, groups: &[GroupView]) {
        self.say(&format!("   {BOLD}dead letters, by cause{BOLD:#}"));
        for group in groups {
            let failure = short(&group.failure.message, 70);
            self.say(&format!(
                "   {:>6} × {:<10} {:<16} {failure}",
                grouped(group.count),
                plain(&group.pipeline),
                plain(&group.event_type)
            ));
        }
    }

    pub(super) fn stopped(&self, reason: &str) {
        self.say(&format!("   {ALARM}stopped itself{ALARM:#}  {}", short(reason, 160)));
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
    }

    pub(super) fn closing(&self) {
        self.say("");
        self.say(&format!(
            "{BOLD}Next{BOLD:#}   redrive demo --keep      the same, and it stays open for you to play with"
        ));
        self.say("       redrive serve            your own, with no configuration at all");
        self.say("       redrive.example.toml     points an outbox at your own table, a pipeline at your own topic");
    }

    pub(super) fn staying_open(&self, stage: &Stage) {
        let Stage { address, services, .. } = stage;
        self.say("");
        self.say(&format!("{BOLD}It stays open{BOLD:#} at {BOLD}{address}{BOLD:#} until Ctrl-C, with new dead letters to play with. From another terminal:"));
        self.say(&format!("   redrive groups --server {address}"));
        self.say(&format!("   redrive retry --server {address} --pipeline orders --canary --yes    stops itself: the bank still refuses euros"));
        self.say(&format!(
            "   curl -X POST {services}/mend                 mends every fault; then the same again succeeds"
        ));
        self.say(&format!("   curl {address}/api/v1/dead-letters -H 'content-type: application/json' \\"));
        self.say(
            "        -d '{\"event_type\":\"Mine\",\"key\":\"1\",\"payload\":{\"a\":1},\"error\":{\"message\":\"it broke\"}}'",
        );
    }

    fn say(&self, text: &str) {
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

    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// It will never be full.
    pub(super) fn clear(self) {
        self.bar.finish_and_clear();
    }
}
