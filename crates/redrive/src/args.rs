//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "\
Examples:
  redrive demo                                the whole story in a minute
  redrive serve                               start with no configuration, embedded under ./redrive-data
  redrive check                               check ./redrive.toml, report every mistake at once
  redrive serve --config /etc/redrive.toml    start with a configuration
  REDRIVE__SERVER__LISTEN=127.0.0.1:8080 redrive serve
                                              override one setting

Configuration: --config FILE, else the file in REDRIVE_CONFIG, else ./redrive.toml when it is there, else
the defaults. `redrive check --reference` prints every setting.

Exit codes:
  0  done
  1  failed: a port is taken, a database cannot be reached, a stop took too long
  2  wrong usage or configuration";

/// The dead-letter layer for event pipelines: classify, retry, isolate, park, dead-letter, redrive.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, about, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(long, global = true, env = "REDRIVE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// How the log on standard error looks; RUST_LOG says how much of it there is.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server: HTTP, stores and pipelines.
    ///
    /// Needs no configuration. Stops cleanly on SIGTERM and Ctrl-C, within server.shutdown-deadline.
    Serve,

    /// Show the whole story in a minute: faults, dead letters, a redrive, balanced books.
    ///
    /// Embedded, in a temporary folder: nothing to install, nothing is left behind.
    Demo {
        /// Less of everything.
        #[arg(long)]
        fast: bool,
    },

    /// Check the configuration and report every mistake with its place.
    Check {
        /// Print the reference of every setting instead, as Markdown.
        #[arg(long)]
        reference: bool,
    },

    /// Create or update the tables of every pipeline, and of the console.
    ///
    /// `serve` does so too; this is for those who separate the two. Safe to run again and at the
    /// same time as others.
    Migrate,
}

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Args {
    /// The file that was named, if one was. An empty variable names none.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
