//! `redrive resolve`: letters that nobody needs to do anything about.

use redrive_engine::console::Action;
use redrive_server::view::Done;
use serde_json::json;

use super::Failure;
use super::letter::{only_one, told};
use super::operation::{key, many, wanted};
use crate::args::{To, Which};
use crate::line::Line;

/// Closes letters.
pub(crate) async fn run(line: &Line, to: &To, which: &Which) -> Result<(), Failure> {
    let Some(id) = &which.id else {
        return many(line, to, which, Action::Resolve, wanted(which)?).await;
    };
    only_one(which)?;
    let body = json!({"note": which.note});
    let done: Done = line.post_once(&["dead-letters", id, "resolve"], &body, &key()).await?;
    told(to, &done, "closed")
}
