//! `redrive man`: the manual pages, from the same definitions as `--help`.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::Args;

/// Prints the page of redrive, or writes that of redrive and of each command into a folder.
pub(crate) fn run(folder: Option<&Path>) -> anyhow::Result<()> {
    match folder {
        Some(folder) => write_all(folder),
        None => Ok(std::io::stdout().write_all(&page(Args::command())?)?),
    }
}

fn write_all(folder: &Path) -> anyhow::Result<()> {
    let cannot = || format!("the manual cannot be written to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Args::command(), folder).with_context(cannot)
}

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).context("the manual cannot be made")?;
    Ok(page)
}
