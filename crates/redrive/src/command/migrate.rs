//! `redrive migrate`: tables for every pipeline, now or not at all.

use std::io::Write as _;

use redrive::config::Config;
use redrive_store::Error;

use super::{Failure, prepare_data_dir, runtime};
use crate::wire::Stores;

/// Migrates every part, and names each one that failed.
pub(crate) fn run(config: &Config) -> Result<(), Failure> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(migrate(config))
}

async fn migrate(config: &Config) -> Result<(), Failure> {
    let parts = Stores::of(config).map_err(anyhow::Error::from)?.parts;
    let mut failed = Vec::new();
    for part in &parts {
        let (kind, name, place) = (part.kind(), part.name(), part.place());
        let told = match part.prepare().await {
            Ok(()) => writeln!(std::io::stdout(), "ok: {kind} {name} ({place})"),
            Err(error) => {
                let told = writeln!(std::io::stderr(), "error: {kind} {name} at {place}: {error}");
                failed.push(error);
                told
            }
        };
        told.map_err(anyhow::Error::from)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failure(&failed, parts.len())) }
}

/// As every command: a store that no connection can be made to is unavailable, a table that is refused is a failure.
fn failure(failed: &[Error], of: usize) -> Failure {
    let said = format!(
        "{} of {of} could not be migrated, see above. Run it again once that is corrected: what is there already \
         stays as it is",
        failed.len()
    );
    match failed.iter().all(Error::is_unavailable) {
        true => Failure::Unavailable(said),
        false => Failure::Other(anyhow::Error::msg(said)),
    }
}
