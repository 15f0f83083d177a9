//! The commands, one file each, and how they fail.

mod check;
mod migrate;
mod serve;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::Context as _;
use redrive::config::{Config, Environment, Source};

use crate::args::{Args, Command};
use crate::demo::{self, Scale};

/// Why a command failed, by exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong.
    Configuration(redrive::config::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl From<redrive::config::Error> for Failure {
    fn from(error: redrive::config::Error) -> Self {
        Self::Configuration(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Runs the command that was asked for.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match args.command {
        Command::Check { reference: true } => return Ok(check::print_reference()?),
        Command::Demo { fast } => {
            let scale = if fast { Scale::FAST } else { Scale::FULL };
            return Ok(runtime()?.block_on(demo::run(scale))?);
        }
        _ => {}
    }
    let source = Source::find(args.config())?;
    let config = Config::load(&source, &Environment::of_process())?;
    match args.command {
        Command::Check { .. } | Command::Demo { .. } => Ok(check::run(&source, &config)?),
        Command::Migrate => Ok(migrate::run(&config)?),
        Command::Serve => Ok(serve::run(&source, &config)?),
    }
}

/// Makes the data directory, for this user only: it holds payloads.
fn prepare_data_dir(dir: &Path) -> anyhow::Result<()> {
    let advice = || {
        format!(
            "the data directory {} cannot be used: let this user create and write it, or set server.data-dir",
            dir.display()
        )
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(advice)?;
    let probe = dir.join(format!(".write-check-{}", std::process::id()));
    std::fs::write(&probe, []).with_context(advice)?;
    std::fs::remove_file(&probe).with_context(advice)
}

/// A runtime for the commands that wait for others.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("the system gives no threads to work with")
}
