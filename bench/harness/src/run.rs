//! What every bench does around its measuring.

use std::process::ExitCode;

use crate::machine::load;
use crate::postgres::Scratch;
use crate::stop::asked_to_stop;
use crate::target::{Target, verdict};

/// Prints which targets were met, or what went wrong with this bench.
pub fn conclude(bench: &str, measured: anyhow::Result<Vec<Target>>) -> ExitCode {
    ended(
        bench,
        measured.map(|targets| {
            println!("\n## Targets\n\nload average at the end: {}\n\n{}", load(), verdict(&targets));
        }),
    )
}

/// The end of a process that does a part of the work for another one.
pub fn ended(bench: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
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
