//! One letter by its id: what the commands say about what was done to it.

use redrive_server::view::Done;

use super::Failure;
use crate::args::{To, Which};
use crate::screen::{plain, say, say_json};

/// Says what was done to one letter.
pub(super) fn told(to: &To, done: &Done, what: &str) -> Result<(), Failure> {
    if to.json {
        return Ok(say_json(done)?);
    }
    Ok(say(&format!("{}: {what}", plain(&done.id)))?)
}

/// The flags of many do not fit one letter.
pub(super) fn only_one(which: &Which) -> Result<(), Failure> {
    if which.selection.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage("there is an id and a filter: give one of the two".to_owned()))
}
