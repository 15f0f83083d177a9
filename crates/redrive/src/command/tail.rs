//! `redrive tail`: letters, as they die.
//!
//! A server tells when something changes, and then the latest letters are asked for; without one the stores
//! are asked every second. A letter is told once.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use redrive_server::view::{SummaryView, Unanswered};

use super::Failure;
use super::ls::{PAGE, page};
use crate::args::To;
use crate::line::Line;
use crate::screen::{plain, say, say_json_line, short};
use crate::selection::Selection;

const PAUSE: Duration = Duration::from_secs(1);
/// How many letters are remembered as told.
const TOLD: usize = 10_000;
/// How many pages back a look goes for those that are new.
const PAGES: usize = 20;

/// Prints letters until somebody stops it.
pub(crate) async fn run(line: &Line, to: &To, selection: &Selection, last: u32) -> Result<(), Failure> {
    let mut told = Told::default();
    // More than is shown is remembered: several may have died at the same moment.
    let first = page(line, selection, PAGE, None).await?;
    told.note_missing(&first.unavailable);
    for (at, letter) in first.letters.iter().enumerate().rev() {
        told.is_new(letter);
        if at < last as usize {
            print(to, letter)?;
        }
    }
    // A letter that was there before is not new, however far down the list.
    let begun = first.letters.first().map(|letter| letter.failed_at);
    let mut is_away = false;
    loop {
        // A server that is restarted is back in a moment: whoever tails waits for it, and is told so once.
        is_away = match follow(line, to, selection, &mut told, begun).await {
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

/// Prints letters until the server ends the stream.
async fn follow(
    line: &Line,
    to: &To,
    selection: &Selection,
    told: &mut Told,
    begun: Option<jiff::Timestamp>,
) -> Result<(), Failure> {
    let mut changes = line.changes().await?;
    loop {
        for letter in news(line, selection, told, begun).await? {
            print(to, &letter)?;
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

/// The letters that have not been told, oldest first.
async fn news(
    line: &Line,
    selection: &Selection,
    told: &mut Told,
    begun: Option<jiff::Timestamp>,
) -> Result<Vec<SummaryView>, Failure> {
    let mut news = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let found = page(line, selection, PAGE, cursor).await?;
        told.note_missing(&found.unavailable);
        let all = found.letters.len();
        let recent =
            found.letters.into_iter().filter(|letter| begun.is_none_or(|begun| letter.failed_at >= begun));
        let fresh: Vec<SummaryView> = recent.filter(|letter| told.is_new(letter)).collect();
        let is_last = fresh.len() < all;
        news.extend(fresh);
        cursor = found.next;
        if is_last || cursor.is_none() {
            break;
        }
    }
    news.reverse();
    Ok(news)
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
