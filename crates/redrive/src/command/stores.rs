//! `redrive check --connect`: whether every object store takes an object, gives it back and deletes it.

use std::io::Write as _;

use redrive::config::{Config, IngestConfig};

use super::Failure;
use crate::wire::ingest_target;

/// Asks the store of each ingest pipeline, and names each one that refused.
pub(super) async fn check(config: &Config) -> Result<(), Failure> {
    let mut failed = 0;
    for ingest in &config.ingests {
        let (name, place) = (&ingest.name, &ingest.store.address);
        match probe(ingest).await {
            Ok(()) => {
                let line = format!("ok: ingest {name} ({place}): an object was written, read and deleted");
                writeln!(std::io::stdout(), "{line}").map_err(anyhow::Error::from)?;
            }
            Err(why) => {
                failed += 1;
                let line = format!("error: ingest {name} at {place}: {why}");
                writeln!(std::io::stderr(), "{line}").map_err(anyhow::Error::from)?;
            }
        }
    }
    if failed == 0 {
        return Ok(());
    }
    let of = config.ingests.len();
    Err(Failure::Unavailable(format!(
        "{failed} of {of} object stores cannot be used, see above; batches would wait on disk"
    )))
}

async fn probe(ingest: &IngestConfig) -> Result<(), String> {
    let target = ingest_target(ingest).map_err(|error| format!("{error:#}"))?;
    target.check().await.map_err(|failure| failure.to_string())
}
