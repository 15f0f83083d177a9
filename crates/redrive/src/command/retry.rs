//! `redrive retry`: letters back to work, one or many.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_engine::console::Action;
use redrive_server::view::Done;
use serde_json::json;

use super::Failure;
use super::letter::{only_one, told};
use super::operation::{key, many, wanted};
use crate::args::{To, Which};
use crate::line::Line;

/// How letters are sent back.
pub(crate) struct How<'a> {
    pub(crate) rate: Option<u32>,
    pub(crate) canary: bool,
    pub(crate) edit: Option<&'a Path>,
}

/// Sends letters back.
pub(crate) async fn run(line: &Line, to: &To, which: &Which, how: &How<'_>) -> Result<(), Failure> {
    let Some(id) = &which.id else {
        // The parser does not see to it: it forgets that --edit needs an id where a flag of many rules ids out.
        if how.edit.is_some() {
            let said = "--edit sends one payload in place of one letter's: give the id of that letter, and no filter";
            return Err(Failure::Usage(said.to_owned()));
        }
        let mut request = wanted(which)?;
        request["canary"] = how.canary.into();
        if let Some(rate) = how.rate {
            request["rate"] = rate.into();
        }
        return many(line, to, which, Action::Redrive, request).await;
    };
    only_one(which)?;
    let body = match how.edit {
        Some(file) => json!({"payload_base64": STANDARD.encode(payload(file)?)}),
        None => json!({}),
    };
    let done: Done = line.post_once(&["dead-letters", id, "redrive"], &body, &key()).await?;
    told(to, &done, "sent back to work")
}

/// What is sent instead. A file with nothing in it is what a command leaves behind that failed.
fn payload(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read(file)?;
    if bytes.is_empty() {
        let said = format!("{} is empty: nothing was sent", file.display());
        return Err(Failure::Usage(said));
    }
    Ok(bytes)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}
