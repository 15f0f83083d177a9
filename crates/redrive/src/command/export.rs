//! `redrive export`: letters into a file, page by page.

use std::fs::{OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, IsTerminal as _, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use redrive_engine::alerts::escape_json;
use redrive_server::number::counted;
use redrive_server::view::{LetterPage, LetterView, PayloadView, SummaryView};
use serde::Serialize;

use super::Failure;
use super::csv;
use super::ls::{PAGE, page};
use super::missing::Missing;
use crate::args::Format;
use crate::line::Line;
use crate::selection::Selection;

/// How letters are written.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) extent: Extent,
}

/// How much of each letter is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What a list shows.
    Summary,
    /// Payload, headers and history, too.
    Whole,
}

/// What may be where the letters are written to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onto {
    /// No file yet.
    Nothing,
    /// A file, which is replaced.
    Anything,
}

/// Writes the letters that are meant, a page at a time.
pub(crate) async fn run(
    line: &Line,
    selection: &Selection,
    form: Form,
    output: Option<&Path>,
    onto: Onto,
) -> Result<(), Failure> {
    // Before the file is made: what makes no sense leaves nothing behind.
    let first = page(line, selection, PAGE, None).await?;
    let mut export = Export {
        line,
        form,
        out: open(output, onto)?,
        bar: bar(output),
        missing: Missing::default(),
        gone: 0,
    };
    let written = export.write_all(selection, first).await;
    export.bar.finish_and_clear();
    written?;
    export.end()
}

/// An export on its way.
struct Export<'a> {
    line: &'a Line,
    form: Form,
    out: Box<dyn Write>,
    bar: ProgressBar,
    missing: Missing,
    /// Letters that were listed and are none any more: work goes on meanwhile.
    gone: u64,
}

impl Export<'_> {
    async fn write_all(&mut self, selection: &Selection, first: LetterPage) -> Result<(), Failure> {
        if self.form.format == Format::Csv {
            self.put(&header(self.form.extent))?;
        }
        let mut now = first;
        loop {
            for letter in &now.letters {
                self.write(letter).await?;
                self.bar.inc(1);
            }
            self.bar.set_message(format!("{} letters", self.bar.position()));
            self.missing.add(now.unavailable);
            let Some(next) = now.next else { return Ok(()) };
            now = page(self.line, selection, PAGE, Some(next)).await?;
        }
    }

    async fn write(&mut self, letter: &SummaryView) -> Result<(), Failure> {
        if self.form.extent == Extent::Summary {
            return Ok(self.put(&summary(letter, self.form.format)?)?);
        }
        match whole(self.line, &letter.id).await? {
            Some(letter) => self.put(&text(&letter, self.form.format)?)?,
            None => self.gone += 1,
        }
        Ok(())
    }

    fn put(&mut self, text: &str) -> anyhow::Result<()> {
        let end = match self.form.format {
            Format::Csv => "\r\n",
            Format::Jsonl => "\n",
        };
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(end.as_bytes())?;
        Ok(())
    }

    fn end(mut self) -> Result<(), Failure> {
        self.out.flush().context("the letters cannot be written")?;
        if self.gone > 0 {
            let gone = counted(self.gone, "letter");
            eprintln!("note: {gone} not exported: sent back to work or purged since the list was made");
        }
        self.missing.report()
    }
}

/// A letter with all of its payload; nothing when it is no letter any more.
async fn whole(line: &Line, id: &str) -> Result<Option<LetterView>, Failure> {
    let Some(mut letter) = line.find::<LetterView>(&["dead-letters", id]).await? else { return Ok(None) };
    if letter.payload.cut {
        let payload = line.get_bytes(&["dead-letters", id, "payload"]).await?;
        letter.payload = PayloadView::whole(&payload);
    }
    Ok(Some(letter))
}

fn header(extent: Extent) -> String {
    match extent {
        Extent::Summary => csv::HEADER.to_owned(),
        Extent::Whole => format!("{},payload_format,payload", csv::HEADER),
    }
}

fn summary(letter: &SummaryView, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Csv => Ok(csv::row(letter)),
        Format::Jsonl => json(letter),
    }
}

fn text(letter: &LetterView, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Jsonl => json(letter),
        Format::Csv => {
            let format = serde_json::to_string(&letter.payload.format).context("invariant: a word")?;
            let payload = csv::cell(&letter.payload.text);
            Ok(format!("{},{format},{payload}", csv::row(&letter.summary)))
        }
    }
}

fn json(letter: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(letter).context("a letter cannot be written as JSON")?;
    Ok(escape_json(&text))
}

/// A file for this user only: it holds what producers wrote.
fn open(output: Option<&Path>, onto: Onto) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = output else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    // A pipe or a device is not replaced by being written to.
    let is_special = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    match if is_special { Onto::Anything } else { onto } {
        Onto::Nothing => options.create_new(true),
        Onto::Anything => options.create(true).truncate(true),
    };
    match options.open(path) {
        Ok(file) => {
            if onto == Onto::Anything && !is_special {
                // The file that was there may be one that everybody reads.
                file.set_permissions(Permissions::from_mode(0o600)).with_context(|| cannot_write(path))?;
            }
            Ok(Box::new(BufWriter::new(file)))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::Usage(format!(
            "{} is there already: give another name, or --force to replace it",
            path.display()
        ))),
        Err(error) => Err(anyhow::Error::new(error).context(cannot_write(path)).into()),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

/// Where letters go to the terminal, they are the progress.
fn bar(output: Option<&Path>) -> ProgressBar {
    if output.is_none() && std::io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
