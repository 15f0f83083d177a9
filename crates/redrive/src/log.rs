//! The log, on standard error: standard output is for results.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{Command, LogFormat};

/// Starts the log. `RUST_LOG` chooses what is in it; by default that is `info` and above, and only
/// errors where the command itself tells what happens.
pub(crate) fn start(format: LogFormat, command: &Command) {
    let level = match command {
        Command::Demo { .. } => LevelFilter::ERROR,
        Command::Serve | Command::Check { .. } | Command::Migrate => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    // Whoever read the log may be gone: that is no reason to stop working, and there is nobody to complain to.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_target(false).with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
