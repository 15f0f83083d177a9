//! The command line.

use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::selection::Selection;

const AFTER_HELP: &str = "\
Examples:
  redrive demo                                the whole story in a minute
  redrive serve                               start with no configuration, embedded under ./redrive-data
  redrive check                               check ./redrive.toml, report every mistake at once
  redrive serve --config /etc/redrive.toml    start with a configuration
  REDRIVE__SERVER__LISTEN=127.0.0.1:8080 redrive serve
                                              override one setting
  redrive status; redrive groups              what is dead, and why
  redrive retry orders:42                     send one letter back to work
  redrive retry --group 00c0ffee00c0ffee --canary --rate 50
                                              send a group back: a few first, stop if they fail again
  redrive pause orders; redrive resume orders stop and restart the workers of a pipeline
  redrive export --format csv --since 1d > letters.csv
  redrive man | man -l -                      the manual

The commands about letters talk to a server (--server, REDRIVE_SERVER, with a token in REDRIVE_TOKEN or
--token-file), or without one open the stores of the configuration themselves.

Configuration: --config FILE, else the file in REDRIVE_CONFIG, else ./redrive.toml when it is there, else
the defaults. `redrive check --reference` prints every setting.

Exit codes:
  0  done
  1  failed: a port is taken, a stop took too long, an operation stopped itself
  2  wrong usage or configuration
  3  nothing found, or refused: no such letter, somebody was faster, the token does not allow it
  4  unavailable: a server or a store does not answer
  130  interrupted by Ctrl-C (serve, which stops cleanly then: 0)";

/// The dead-letter layer for event pipelines: classify, retry, isolate, park, dead-letter, redrive.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, about, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(long, global = true, env = "REDRIVE_CONFIG", value_name = "FILE", value_parser = path_or_nothing())]
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
        /// Less of everything, and no pauses for reading.
        #[arg(long)]
        fast: bool,
        /// Leave it running at the end, with new faults to play with, until Ctrl-C.
        #[arg(long)]
        keep: bool,
    },

    /// Check the configuration and report every mistake with its place.
    Check {
        /// Print the reference of every setting instead, as Markdown.
        #[arg(long)]
        reference: bool,
        /// Also connect to every database and look at its tables: name what cannot be used, change nothing. In every
        /// object store an object is written, read and deleted.
        #[arg(long, conflicts_with = "reference")]
        connect: bool,
    },

    /// Create or update the tables of every pipeline, and of the console.
    ///
    /// `serve` does so too; this is for those who separate the two. Safe to run again and at the
    /// same time as others. Tables that are there are looked at first: while one of them cannot be used,
    /// nothing is changed.
    Migrate {
        /// Print every statement that would be run and every problem, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print the statements that grant this role what `serve` needs on the tables, and change nothing.
        #[arg(long, value_name = "ROLE", conflicts_with = "dry_run")]
        grants: Option<String>,
    },

    /// Show every pipeline: its letters, its backlog, what is wrong with it.
    Status {
        #[command(flatten)]
        to: To,
    },

    /// List the groups of letters that wait, the largest first.
    Groups {
        #[command(flatten)]
        to: To,
        /// Of this pipeline.
        #[arg(long, short, value_name = "NAME")]
        pipeline: Option<String>,
        /// How many.
        #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },

    /// List letters, newest first.
    #[command(alias = "list")]
    Ls {
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        selection: Selection,
        /// How many.
        #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },

    /// Show one letter: payload, failures, origin, edits.
    Show {
        #[command(flatten)]
        to: To,
        /// The letter, such as orders:42.
        id: String,
    },

    /// Send letters back to work: one by its id, or all that match.
    ///
    /// Many are an operation: counted and confirmed first, then carried out and followed to the end.
    Retry {
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        which: Which,
        /// The most letters per second.
        #[arg(long, value_name = "LETTERS", conflicts_with = "id", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rate: Option<u32>,
        /// 1, 5, 20 letters first, each followed to its outcome; stop if they fail again.
        #[arg(long, conflicts_with = "id")]
        canary: bool,
        /// Send what is in this file instead of the payload of that one letter; - is standard input.
        #[arg(long, value_name = "FILE")]
        edit: Option<PathBuf>,
    },

    /// Close letters: one by its id, or all that match.
    Resolve {
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        which: Which,
    },

    /// List operations, show one, pause, resume or cancel it.
    Ops {
        #[command(flatten)]
        to: To,
        /// The operation.
        id: Option<i64>,
        /// What to do with it.
        #[arg(value_enum, requires = "id")]
        turn: Option<Turn>,
        /// Stay until it ends, is paused, or stops itself.
        #[arg(long, short, requires = "id")]
        follow: bool,
    },

    /// Stop the workers of a pipeline: in every instance, also after a restart, until it is resumed.
    ///
    /// What is in hand is finished; new work waits.
    Pause {
        #[command(flatten)]
        to: To,
        /// The pipeline.
        name: String,
    },

    /// Restart the workers of a pipeline that was paused.
    Resume {
        #[command(flatten)]
        to: To,
        /// The pipeline.
        name: String,
    },

    /// Show the audit log: who did what, when, to how many letters, and why. Newest first.
    Audit {
        #[command(flatten)]
        to: To,
        /// Only entries before this number.
        #[arg(long, value_name = "NUMBER")]
        before: Option<i64>,
        /// How many.
        #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },

    /// Follow letters live, as they die.
    Tail {
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        selection: Selection,
        /// How many of the latest to show first.
        #[arg(long, short = 'n', default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=500))]
        last: u32,
    },

    /// Check the books of every pipeline: what its tables or counters know is in one place each. What that proves
    /// is another thing for each kind, and is said.
    Verify {
        #[command(flatten)]
        to: To,
    },

    /// Put work in: one piece from flags, or many from standard input.
    ///
    /// Standard input has one JSON object per line, in the shape of the API:
    /// {"event_type": "OrderCreated", "aggregate_id": "42", "payload": …} for an outbox,
    /// {"subject": "7", "payload": …} for a job queue.
    Enqueue {
        #[command(flatten)]
        to: To,
        /// The kind of the pipeline.
        #[arg(value_enum)]
        kind: Work,
        /// The pipeline.
        name: String,
        /// The type of one event; an outbox only.
        #[arg(long = "type", short, value_name = "TYPE")]
        event_type: Option<String>,
        /// The key of one event, or the subject of one job.
        #[arg(long, short, value_name = "KEY", allow_hyphen_values = true)]
        key: Option<String>,
        /// The payload of the one; else standard input is.
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        payload: Option<String>,
    },

    /// Write letters to a file or to standard output, all that match.
    Export {
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        selection: Selection,
        /// How.
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// With payloads, headers and history: one request per letter.
        #[arg(long)]
        whole: bool,
        /// Where to; else to standard output. A file that is there already is not touched.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file.
        #[arg(long, requires = "output")]
        force: bool,
    },

    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },

    /// Print the manual page, or write one for each command.
    Man {
        /// Write redrive.1, redrive-serve.1 and so on into this folder.
        #[arg(long, short, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

/// A path; an empty one, such as that of a variable that is set to nothing, names none.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Which console, and how it answers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct To {
    /// The address of a server, such as localhost:7070; without one the stores of the configuration are opened.
    #[arg(long, env = "REDRIVE_SERVER", value_name = "URL", help_heading = "Console")]
    server: Option<String>,
    /// A file with the token; else it is in REDRIVE_TOKEN.
    #[arg(long, env = "REDRIVE_TOKEN_FILE", value_name = "FILE", help_heading = "Console", value_parser = path_or_nothing())]
    token_file: Option<PathBuf>,
    /// Answer with JSON, for programs.
    #[arg(long, help_heading = "Console")]
    pub(crate) json: bool,
}

impl To {
    /// The server, if one was named. An empty variable names none.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.is_empty())
    }

    /// The file with the token.
    pub(crate) fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

/// One letter, or many.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Which {
    /// The letter, such as orders:42.
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Every letter that waits.
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    /// Only count.
    #[arg(long, conflicts_with = "id")]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Start it and do not wait for its end; needs a server that goes on with it.
    #[arg(long, conflicts_with = "id")]
    pub(crate) detach: bool,
    /// Why, for the audit log.
    #[arg(long, short = 'm', default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub(crate) note: String,
}

/// What to do with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Turn {
    /// Stop for a while.
    Pause,
    /// Go on.
    Resume,
    /// End it; what is done stays done.
    Cancel,
}

/// Where work is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Events into an outbox.
    Outbox,
    /// Jobs into a queue.
    Jobs,
}

/// How letters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for spreadsheets; formulas in it are text.
    Csv,
    /// One JSON object per line.
    Jsonl,
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
