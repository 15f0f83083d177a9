//! An answer of the console, and what it means for the exit code.

use anyhow::Context as _;
use redrive_engine::alerts::Inert;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::command::Failure;

/// An answer.
pub(crate) struct Reply {
    pub(super) status: u16,
    pub(super) bytes: Vec<u8>,
}

/// What to do about a 401, here.
const UNKNOWN: &str = "the server asks who you are: put one of its tokens into REDRIVE_TOKEN; if there is one, \
                       the server does not know it";

/// As much of a problem document as people read.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Reply {
    /// The answer as this type, or why there is none.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let bytes = self.whole()?;
        let text = if bytes.is_empty() { b"null".as_slice() } else { &bytes };
        let read = serde_json::from_slice(text);
        Ok(read.context("the answer cannot be read: is there a redrive of this version at the other end?")?)
    }

    /// The answer as it came, or why there is none.
    pub(crate) fn whole(self) -> Result<Vec<u8>, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self.bytes);
        }
        let problem = serde_json::from_slice::<Problem>(&self.bytes);
        let said = problem.map_or_else(
            |_| format!("the server answered with status {}, and without a reason", self.status),
            |problem| Inert::new(&problem.detail).as_str().to_owned(),
        );
        Err(match self.status {
            401 => Failure::Refused(UNKNOWN.to_owned()),
            403 | 404 | 409 => Failure::Refused(said),
            400 | 413 | 415 | 422 => Failure::Usage(said),
            502..=504 => Failure::Unavailable(said),
            _ => Failure::Other(anyhow::Error::msg(said)),
        })
    }
}
