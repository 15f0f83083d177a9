//! `redrive export`: letters into a file, page by page.

use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use redrive_engine::alerts::escape_json;
use redrive_server::view::{LetterPage, LetterView, PayloadView, SummaryView};

use super::Failure;
use super::csv;
use super::groups::missing;
use super::ls::{PAGE, page};
use crate::args::Format;
use crate::line::Line;
use crate::selection::Selection;

/// Writes the letters that are meant, a page at a time.
pub(crate) async fn run(
    line: &Line,
    selection: &Selection,
    format: Format,
    whole: bool,
    output: Option<&Path>,
) -> Result<(), Failure> {
    // Before the file is made: what makes no sense leaves nothing behind.
    let first = page(line, selection, PAGE, None).await?;
    let mut out = open(output)?;
    let bar = match output {
        None if std::io::stdout().is_terminal() => ProgressBar::hidden(),
        _ => ProgressBar::new_spinner(),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    let written = pages(line, selection, format, whole, first, &mut out, &bar).await;
    bar.finish_and_clear();
    let ended = written?;
    out.flush().context("the letters cannot be written")?;
    missing(&ended.unavailable)
}

async fn pages(
    line: &Line,
    selection: &Selection,
    format: Format,
    whole: bool,
    first: LetterPage,
    out: &mut Box<dyn Write>,
    bar: &ProgressBar,
) -> Result<LetterPage, Failure> {
    if format == Format::Csv {
        let payload = if whole { ",payload_format,payload" } else { "" };
        put(out, &format!("{}{payload}", csv::HEADER), format)?;
    }
    let mut now = first;
    loop {
        for letter in &now.letters {
            put(out, &text(line, letter, format, whole).await?, format)?;
            bar.inc(1);
        }
        bar.set_message(format!("{} letters", bar.position()));
        let Some(next) = now.next.take() else { return Ok(now) };
        now = page(line, selection, PAGE, Some(next)).await?;
    }
}

async fn text(line: &Line, letter: &SummaryView, format: Format, whole: bool) -> Result<String, Failure> {
    let json = |text: serde_json::Result<String>| -> Result<String, Failure> {
        Ok(escape_json(&text.context("a letter cannot be written as JSON")?))
    };
    if !whole {
        return match format {
            Format::Csv => Ok(csv::row(letter)),
            Format::Jsonl => json(serde_json::to_string(letter)),
        };
    }
    let mut letter: LetterView = line.get(&["dead-letters", &letter.id], &[]).await?;
    if letter.payload.cut {
        let payload = line.get_bytes(&["dead-letters", &letter.summary.id, "payload"]).await?;
        letter.payload = PayloadView::whole(&payload);
    }
    match format {
        Format::Jsonl => json(serde_json::to_string(&letter)),
        Format::Csv => {
            let format = serde_json::to_string(&letter.payload.format).context("invariant: a word")?;
            let payload = csv::cell(&letter.payload.text);
            Ok(format!("{},{format},{payload}", csv::row(&letter.summary)))
        }
    }
}

fn put(out: &mut Box<dyn Write>, text: &str, format: Format) -> anyhow::Result<()> {
    let end = match format {
        Format::Csv => "\r\n",
        Format::Jsonl => "\n",
    };
    out.write_all(text.as_bytes())?;
    out.write_all(end.as_bytes())?;
    Ok(())
}

/// A file for this user only: it holds what producers wrote.
fn open(output: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    let Some(path) = output else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    Ok(Box::new(BufWriter::new(file.with_context(|| format!("{} cannot be written", path.display()))?)))
}
