//! The commands, one file each, and how they fail.

mod audit;
mod check;
mod completions;
mod csv;
mod enqueue;
mod export;
mod groups;
mod letter;
mod ls;
mod man;
mod migrate;
mod missing;
mod operation;
mod ops;
mod pause;
mod resolve;
mod retry;
pub(crate) mod serve;
mod show;
mod status;
mod stores;
mod tail;
mod verify;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::Context as _;
use redrive::config::{Config, Environment, Source};

use crate::args::{Args, Command, To};
use crate::demo::{self, Ending, Scale, Tempo};
use crate::line::Line;

/// Why a command failed, by exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong.
    Configuration(redrive::config::Error),
    /// What was asked for makes no sense.
    Usage(String),
    /// It was not found, or not done.
    Refused(String),
    /// A server or a store does not answer.
    Unavailable(String),
    /// Somebody pressed Ctrl-C; what there is to say about what goes on.
    Interrupted(String),
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
    match &args.command {
        Command::Check { reference: true, .. } => Ok(check::print_reference()?),
        Command::Check { connect, .. } => {
            let (source, config) = configuration(args)?;
            check::run(&source, &config)?;
            if *connect { migrate::check(&config) } else { Ok(()) }
        }
        Command::Demo { fast, keep } => {
            let (scale, tempo) =
                if *fast { (Scale::FAST, Tempo::Quick) } else { (Scale::FULL, Tempo::Readable) };
            let ending = if *keep { Ending::StayOpen } else { Ending::Close };
            match runtime()?.block_on(demo::run(scale, tempo, ending))? {
                demo::Ended::Told => Ok(()),
                demo::Ended::Interrupted => {
                    Err(Failure::Interrupted("interrupted: nothing is left behind".to_owned()))
                }
            }
        }
        Command::Migrate { grants: Some(role), .. } => migrate::grants(&configuration(args)?.1, role),
        Command::Migrate { dry_run: true, .. } => migrate::dry_run(&configuration(args)?.1),
        Command::Migrate { .. } => migrate::run(&configuration(args)?.1),
        Command::Serve => {
            let (source, config) = configuration(args)?;
            Ok(serve::run(&source, &config)?)
        }
        Command::Completions { shell } => Ok(completions::run(*shell)?),
        Command::Man { output } => Ok(man::run(output.as_deref())?),
        command => runtime()?.block_on(over_a_line(args, command)),
    }
}

/// The commands that talk to a console.
async fn over_a_line(args: &Args, command: &Command) -> Result<(), Failure> {
    let line = |to: &To| Line::open(to, || Ok(configuration(args)?.1));
    match command {
        Command::Status { to } => status::run(&line(to)?, to).await,
        Command::Groups { to, pipeline, limit } => {
            groups::run(&line(to)?, to, pipeline.as_deref(), *limit).await
        }
        Command::Ls { to, selection, limit } => ls::run(&line(to)?, to, selection, *limit).await,
        Command::Verify { to } => verify::run(&line(to)?, to).await,
        Command::Show { to, id } => show::run(&line(to)?, to, id).await,
        Command::Retry { to, which, rate, canary, edit } => {
            let how = retry::How { rate: *rate, canary: *canary, edit: edit.as_deref() };
            retry::run(&line(to)?, to, which, &how).await
        }
        Command::Resolve { to, which } => resolve::run(&line(to)?, to, which).await,
        Command::Ops { to, id, turn, follow } => {
            let stay = if *follow { ops::Stay::ToTheEnd } else { ops::Stay::No };
            ops::run(&line(to)?, to, *id, *turn, stay).await
        }
        Command::Pause { to, name } => pause::run(&line(to)?, to, name, pause::Switch::Pause).await,
        Command::Resume { to, name } => pause::run(&line(to)?, to, name, pause::Switch::Resume).await,
        Command::Audit { to, before, limit } => audit::run(&line(to)?, to, *before, *limit).await,
        Command::Tail { to, selection, last } => tail::run(&line(to)?, to, selection, *last).await,
        Command::Enqueue { to, kind, name, event_type, key, payload } => {
            let one = enqueue::One {
                event_type: event_type.as_deref(),
                key: key.as_deref(),
                payload: payload.as_deref(),
            };
            enqueue::run(&line(to)?, to, *kind, name, &one).await
        }
        Command::Export { to, selection, format, whole, output, force } => {
            let extent = if *whole { export::Extent::Whole } else { export::Extent::Summary };
            let form = export::Form { format: *format, extent };
            let onto = if *force { export::Onto::Anything } else { export::Onto::Nothing };
            export::run(&line(to)?, selection, form, output.as_deref(), onto).await
        }
        Command::Check { .. }
        | Command::Demo { .. }
        | Command::Migrate { .. }
        | Command::Serve
        | Command::Completions { .. }
        | Command::Man { .. } => Ok(()),
    }
}

fn configuration(args: &Args) -> Result<(Source, Config), Failure> {
    let source = Source::find(args.config())?;
    let config = Config::load(&source, &Environment::of_process())?;
    Ok((source, config))
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
