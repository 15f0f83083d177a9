//! The `redrive` command: arguments → raw configuration → valid configuration → wiring → command.

mod args;
mod command;
mod demo;
mod line;
mod log;
mod monitor;
mod retention;
mod running;
mod screen;
mod selection;
mod signal;
mod wire;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use args::Args;
use command::Failure;
use screen::{Tone, paint};

/// As a shell reports a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    log::start(args.log_format, &args.command);
    match command::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if reader_went_away(&failure) => ExitCode::SUCCESS,
        Err(failure) => tell(&failure),
    }
}

/// Says what went wrong, without a backtrace, and picks the exit code that `--help` promises.
fn tell(failure: &Failure) -> ExitCode {
    let (code, text) = match failure {
        Failure::Configuration(error @ redrive::config::Error::Wrong(_)) => (2, error.to_string()),
        Failure::Configuration(error) => (2, format!("error: {}", chain(error))),
        Failure::Usage(said) => (2, format!("error: {said}")),
        Failure::Refused(said) => (3, format!("error: {said}")),
        Failure::Unavailable(said) => (4, format!("error: {said}")),
        Failure::Interrupted(said) => (INTERRUPTED, said.clone()),
        Failure::Other(error) => (1, format!("error: {error:#}")),
    };
    let text = match text.strip_prefix("error:") {
        Some(said) => format!("{}{said}", paint(Tone::Trouble, "error:")),
        None => text,
    };
    // Nobody is left to be told when this fails too.
    let _ = writeln!(anstream::stderr(), "{text}");
    ExitCode::from(code)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// `redrive … | head` ends early, and that is fine.
fn reader_went_away(failure: &Failure) -> bool {
    let Failure::Other(error) = failure else { return false };
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
