//! `redrive tail`: letters, as they die.
//!
//! A server tells when something changes, and then the latest letters are asked for; without one the stores
//! are asked every second. A letter is told once.
//!
//! The latest are those that failed last, and those that came last: a letter that is handed in, or read from a topic,
//! may have failed long ago.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use redrive_server::view::{LetterPage, SummaryView, Unanswered};
use tokio::time::Instant;

use super::Failure;
use super::ls::{PAGE, page};
use crate::args::To;
use crate::line::Line;
use crate::screen::{plain, say, say_json_line, short};
use crate::selection::Selection;

const PAUSE: Duration = Duration::from_secs(1);
/// How many letters are remembered as told.
const TOLD: usize = 20_000;
/// How many pages back a look goes for those that are new.
const PAGES: usize = 20;
/// How far back a look goes beyond the one before it: for letters that were being stored then, and for clocks that
/// differ.
const OVERLAP: Duration = Duration::from_secs(15);

/// Prints letters until somebody stops it.
pub(crate) async fn run(line: &Line, to: &To, selection: &Selection, last: u32) -> Result<(), Failure> {
    let mut tail = Tail { line, to, selection, told: Told::default(), begun: None, looked: Instant::now() };
    tail.begin(last).await?;
    let mut is_away = false;
    loop {
        // A server that is restarted is back in a moment: whoever tails waits for it, and is told so once.
        is_away = match tail.follow().await {
            Ok(()) => false,
            Err(Failure::Unavailable(said)) => {
                if !is_away {
                    eprintln!("{said}\nasking again until it answers");
                }
                true
            }
            Err(other) => return Err(other),
        };
        tokio::time::sleep(PAUSE).await;
    }
}

/// A look at the letters that goes on.
struct Tail<'a> {
    line: &'a Line,
    to: &'a To,
    selection: &'a Selection,
    told: Told,
    /// A letter that was there before is not new, however far down the list.
    begun: Option<jiff::Timestamp>,
    /// When it was last asked what came.
    looked: Instant,
}

impl Tail<'_> {
    /// Prints the latest, and remembers what was there.
    async fn begin(&mut self, last: u32) -> Result<(), Failure> {
        self.arrived().await?;
        // More than is shown is remembered: several may have died at the same moment.
        let first = page(self.line, self.selection, PAGE, None).await?;
        self.told.note_missing(&first.unavailable);
        for (at, letter) in first.letters.iter().enumerate().rev() {
            self.told.is_new(letter);
            if at < last as usize {
                print(self.to, letter)?;
            }
        }
        self.begun = first.letters.first().map(|letter| letter.failed_at);
        Ok(())
    }

    /// Prints letters until the server ends the stream.
    async fn follow(&mut self) -> Result<(), Failure> {
        let mut changes = self.line.changes().await?;
        loop {
            let failed = self.failed().await?;
            for letter in failed.iter().chain(&self.arrived().await?) {
                print(self.to, letter)?;
            }
            let Some(stream) = &mut changes else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Between two changes there are comments that keep the connection alive.
            if !matches!(stream.chunk().await, Ok(Some(_))) {
                return Ok(());
            }
        }
    }

    /// The letters that failed since it began and have not been told, oldest first.
    async fn failed(&mut self) -> Result<Vec<SummaryView>, Failure> {
        let mut news = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let found = page(self.line, self.selection, PAGE, cursor).await?;
            let all = found.letters.len();
            let begun = self.begun;
            let (fresh, next) =
                self.fresh(found, |letter| begun.is_none_or(|begun| letter.failed_at >= begun));
            let is_last = fresh.len() < all;
            news.extend(fresh);
            cursor = next;
            if is_last || cursor.is_none() {
                break;
            }
        }
        news.reverse();
        Ok(news)
    }

    /// The letters that came since the last look, whenever they failed, and have not been told; oldest first.
    async fn arrived(&mut self) -> Result<Vec<SummaryView>, Failure> {
        let now = Instant::now();
        let window = (now - self.looked + OVERLAP).as_secs() + 1;
        let mut news = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let mut query = self.selection.query();
            query.extend([("arrived_since", format!("{window}s")), ("limit", PAGE.to_string())]);
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            let found: LetterPage = self.line.get(&["dead-letters"], &query).await?;
            let (fresh, next) = self.fresh(found, |_| true);
            news.extend(fresh);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        self.looked = now;
        news.reverse();
        Ok(news)
    }

    /// What of a page is meant and has not been told, and where the next page begins.
    fn fresh(
        &mut self,
        found: LetterPage,
        is_meant: impl Fn(&SummaryView) -> bool,
    ) -> (Vec<SummaryView>, Option<String>) {
        self.told.note_missing(&found.unavailable);
        let meant = found.letters.into_iter().filter(|letter| is_meant(letter));
        (meant.filter(|letter| self.told.is_new(letter)).collect(), found.next)
    }
}

fn print(to: &To, letter: &SummaryView) -> anyhow::Result<()> {
    if to.json {
        return say_json_line(letter);
    }
    say(&format!(
        "{}  {}  {}  {}  {}  {}",
        letter.failed_at,
        plain(&letter.id),
        letter.status,
        short(&letter.event_type, 40),
        plain(letter.failure.code.as_deref().unwrap_or("-")),
        short(&letter.failure.message, 120)
    ))
}

/// Which letters have been told, the latest of them.
#[derive(Default)]
struct Told {
    known: HashSet<(String, jiff::Timestamp)>,
    order: VecDeque<(String, jiff::Timestamp)>,
    /// The pipelines whose letters are missing now.
    missing: HashSet<String>,
}

impl Told {
    /// Whether it is told for the first time. One that died again is another.
    fn is_new(&mut self, letter: &SummaryView) -> bool {
        let name = (letter.id.clone(), letter.failed_at);
        if !self.known.insert(name.clone()) {
            return false;
        }
        self.order.push_back(name);
        if self.order.len() > TOLD
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// Says once of each pipeline that its letters are missing, as long as they are.
    fn note_missing(&mut self, unavailable: &[Unanswered]) {
        self.missing.retain(|name| unavailable.iter().any(|one| one.pipeline == *name));
        for one in unavailable {
            if self.missing.insert(one.pipeline.clone()) {
                eprintln!("the letters of {} are missing: {}", plain(&one.pipeline), plain(&one.reason));
            }
        }
    }
}
