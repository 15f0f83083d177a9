//! Which file is the configuration.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Error;

/// The file that is used when none is named.
const DEFAULT: &str = "redrive.toml";

/// The text of a configuration and where it came from.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Reads the named file; or `./redrive.toml` when it is there; or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] for a named file that is not there, [`Error::Unreadable`] for any other
    /// trouble with it.
    pub fn find(named: Option<&Path>) -> Result<Self, Error> {
        let path = named.unwrap_or(Path::new(DEFAULT));
        match std::fs::read(path) {
            Ok(bytes) => Self::of_bytes(path, bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => match named {
                Some(path) => Err(Error::Missing { path: path.to_owned() }),
                None => Ok(Self::none()),
            },
            Err(source) => Err(Error::Unreadable { path: path.to_owned(), source }),
        }
    }

    /// A text that stands for a file of this name.
    #[must_use]
    pub fn of_text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }

    /// No file: every setting has its default.
    #[must_use]
    pub fn none() -> Self {
        Self::of_text("no configuration file", "")
    }

    /// What to call it in a message.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn of_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n');
            Error::NotText { path: PathBuf::from(path), line: line.count() + 1 }
        })?;
        Ok(Self { name: path.display().to_string(), text })
    }
}
