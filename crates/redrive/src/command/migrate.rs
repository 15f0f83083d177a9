//! `redrive migrate`: tables for every pipeline, now or not at all.

use std::io::Write as _;

use anyhow::bail;
use redrive::config::Config;

use super::{prepare_data_dir, runtime};
use crate::wire::Stores;

/// Migrates every part, and names each one that failed.
pub(crate) fn run(config: &Config) -> anyhow::Result<()> {
    prepare_data_dir(&config.server.data_dir)?;
    runtime()?.block_on(migrate(config))
}

async fn migrate(config: &Config) -> anyhow::Result<()> {
    let parts = Stores::of(config)?.parts;
    let mut failed = 0;
    for part in &parts {
        if let Err(error) = part.prepare().await {
            failed += 1;
            let (kind, name, place) = (part.kind(), part.name(), part.place());
            writeln!(std::io::stderr(), "error: {kind} {name} at {place}: {error}")?;
        } else {
            writeln!(std::io::stdout(), "ok: {} {} ({})", part.kind(), part.name(), part.place())?;
        }
    }
    if failed > 0 {
        bail!(
            "{failed} of {} could not be migrated, see above: check that the database runs and that address and \
             password are right, then run it again: what is there already stays as it is",
            parts.len()
        );
    }
    Ok(())
}
