//! Who is told what a pipeline does.

use redrive_core::failure::Failure;
use redrive_spool::Journal;

use crate::plan::Destination;
use crate::record::Position;

/// Who is told. Calls come from the middle of a pipeline and must not wait.
pub trait Observer: Send + Sync {
    /// A record became a letter, and is safe.
    fn letter(&self, letter: &NewLetterNotice<'_>) {
        let _ = letter;
    }

    /// A journal of letters was opened: its recovery has what was not as it should be.
    fn opened(&self, journal: &Journal) {
        let dir = journal.dir().display();
        for found in &journal.recovery().damaged {
            tracing::error!(%dir, %found, "a journal of letters is not as it should be");
        }
    }

    /// Something that the pipeline needs is away, and why.
    fn down(&self, part: &str, error: &str) {
        let _ = (part, error);
    }

    /// It is back.
    fn up(&self, part: &str) {
        let _ = part;
    }
}

/// A record that became a letter.
#[derive(Debug, Clone, Copy)]
pub struct NewLetterNotice<'a> {
    /// Where the record was.
    pub position: &'a Position,
    /// Its key, as far as it is text.
    pub key: &'a str,
    /// Where it went.
    pub destination: Destination,
    /// The topic that is.
    pub topic: &'a str,
    /// Why.
    pub failure: &'a Failure,
    /// How often it was tried.
    pub attempts: u32,
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
