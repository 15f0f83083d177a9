//! The log, on standard error: standard output is for results.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{Command, LogFormat};

/// What chooses how much is in the log, such as `debug` or `info,redrive_kafka=trace`.
const LOG: &str = "RUST_LOG";

/// Starts the log. `RUST_LOG` chooses what is in it; by default that is `info` and above, and only
/// errors where the command itself tells what happens.
pub(crate) fn start(format: LogFormat, command: &Command) {
    let level = match command {
        Command::Demo { .. } => LevelFilter::ERROR,
        Command::Serve | Command::Check { .. } | Command::Migrate { .. } => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    let asked = std::env::var(LOG).unwrap_or_default();
    let (filter, mistake) = filter(&asked, level);
    // Whoever read the log may be gone: that is no reason to stop working, and there is nobody to complain to.
    let log = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let log = match format {
        LogFormat::Text => {
            let log = log.with_target(false).with_ansi(std::io::stderr().is_terminal());
            tracing_subscriber::registry().with(filter).with(log).try_init()
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true);
            tracing_subscriber::registry().with(filter).with(log).try_init()
        }
    };
    if let Some(mistake) = mistake.or(log.err().map(|error| error.to_string())) {
        // Above every level that a command begins with.
        tracing::error!("{mistake}");
    }
}

/// What is let through, and what was wrong with what was asked for.
fn filter(asked: &str, level: LevelFilter) -> (Targets, Option<String>) {
    // What the client of object stores reports while it tries again has their addresses in it.
    let usual = Targets::new().with_default(level).with_target("object_store", level.min(LevelFilter::WARN));
    if asked.trim().is_empty() {
        return (usual, None);
    }
    match asked.parse::<Targets>() {
        Ok(targets) if targets.default_level().is_some() => (targets, None),
        // Whoever asks for more of one room wants to see the others as before.
        Ok(targets) => (targets.with_default(level), None),
        Err(error) => {
            let mistake = format!("{LOG} is {asked:?}, and that is not understood ({error}): it is ignored");
            (usual, Some(mistake))
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_variable_chooses_and_a_mistake_in_it_is_told() {
        let lets = |asked: &str, target: &str, level: &Level| {
            let (filter, mistake) = filter(asked, LevelFilter::INFO);
            assert_eq!(mistake, None);
            filter.would_enable(target, level)
        };
        assert!(lets("", "redrive_engine", &Level::INFO) && !lets("", "redrive_engine", &Level::DEBUG));
        assert!(lets("debug", "redrive_engine", &Level::DEBUG));
        assert!(!lets("warn", "redrive_engine", &Level::INFO));
        assert!(lets("redrive_kafka=trace", "redrive_kafka::consumer", &Level::TRACE));
        assert!(lets("redrive_kafka=trace", "redrive_engine", &Level::INFO), "the others as before");
        let (usual, mistake) = filter("redrive=loud", LevelFilter::INFO);
        assert!(mistake.unwrap().contains("redrive=loud"));
        assert!(usual.would_enable("redrive", &Level::INFO));
    }
}
