//! What people should know of the folder of a spool: told once, for as long as it stays so.

use std::collections::BTreeSet;

/// So many names are remembered: a folder full of other things is told in part.
const MOST: usize = 1_000;

/// What people should know of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Somebody has deleted the folder. It was made again, without the files that were in it.
    FolderGone {
        /// How many files waited in it.
        files: u64,
    },
    /// Something in it is no file: it is left alone.
    NoFile {
        /// Its name.
        name: String,
        /// What it is.
        what: &'static str,
    },
}

/// What was found, and what of it nobody was told yet.
#[derive(Debug, Default)]
pub(super) struct Findings {
    others: BTreeSet<String>,
    untold: Vec<Finding>,
}

impl Findings {
    /// Something hidden is nobody's batch.
    pub(super) fn note_other(&mut self, name: &str, what: &'static str) {
        if !name.starts_with('.') && self.others.len() < MOST && self.others.insert(name.to_owned()) {
            self.untold.push(Finding::NoFile { name: name.to_owned(), what });
        }
    }

    pub(super) fn note_folder_gone(&mut self, files: u64) {
        self.others.clear();
        self.untold.push(Finding::FolderGone { files });
    }

    pub(super) fn take(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.untold)
    }
}
