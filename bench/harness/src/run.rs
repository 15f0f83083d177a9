//! What every bench does around its measuring.

use std::process::ExitCode;

use crate::machine::load;
use crate::postgres::Scratch;
use crate::stop::asked_to_stop;
use crate::target::{Target, verdict};

/// Prints which targets were met, or what went wrong with this bench.
pub fn conclude(bench: &str, measured: anyhow::Result<Vec<Target>>) -> ExitCode {
    match measured {
        Ok(targets) => {
            println!("\n## Targets\n\nload average at the end: {}\n\n{}", load(), verdict(&targets));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench/run {bench}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures on a database of its own, which is dropped however it ends.
///
/// # Errors
/// What the measuring says, or the server.
pub async fn on_scratch(
    server: &str,
    measure: impl AsyncFnOnce(&Scratch) -> anyhow::Result<Vec<Target>>,
) -> anyhow::Result<Vec<Target>> {
    let scratch = Scratch::create(server).await?;
    let measured = tokio::select! {
        measured = measure(&scratch) => measured,
        stopped = asked_to_stop() => stopped,
    };
    scratch.drop().await?;
    measured
}
