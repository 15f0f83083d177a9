//! `redrive completions`: what a shell needs to complete the command line.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Args;

/// Prints the script.
pub(crate) fn run(shell: Shell) -> anyhow::Result<()> {
    // Into memory first: the generator panics when its reader goes away.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "redrive", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
