//! The `command` handler: one run of a program per event.
//!
//! The payload is on standard input; the [envelope](Envelope) and `REDRIVE_PIPELINE` are in the
//! environment. Exit status 0 is done, 75 (`EX_TEMPFAIL`) is transient, any other is permanent; death by
//! a signal is unclassified. The end of standard error becomes part of the message; standard output goes
//! nowhere. No shell is involved.
//!
//! - The program runs in a process group of its own. At the time-out, and when the call is cancelled,
//!   the whole group is killed, so that no grandchild works on for an event that somebody else has now.
//! - A program that ends without reading its input has decided what it needs: its status counts.
//! - What the program leaves running in the background when it ends is left alone, and not waited for.
//! - A program that cannot be started says nothing about the event: that is transient.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use futures_util::{StreamExt as _, stream};
use redrive_core::classify::{exit, io as io_table};
use redrive_core::event::Event;
use redrive_core::failure::{Class, Code, Failure};
use redrive_core::handler::Handler;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdin, Command};
use tokio::time::timeout;

use super::envelope::Envelope;
use super::process::Process;
use super::setup::SetupError;
use super::tail::Tail;
use super::{MAX_EXCERPT, timed_out};

/// How many events of one batch are under way at a time.
const CONCURRENCY: usize = 4;
/// How long the rest of standard error is waited for after the end: a background process may hold it.
const REST: Duration = Duration::from_millis(100);
/// How long a killed program may take to die; one that the kernel holds is reaped in the background.
const DEATH: Duration = Duration::from_secs(1);

/// Which program a `command` handler runs.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How long one run may take.
    pub timeout: Duration,
}

/// Runs a program for each event.
#[derive(Debug)]
pub struct CommandHandler {
    pipeline: String,
    program: OsString,
    arguments: Vec<OsString>,
    timeout: Duration,
}

impl CommandHandler {
    /// A handler for the events of this pipeline.
    ///
    /// # Errors
    /// [`SetupError::EmptyCommand`]. Whether the program exists is only found when it is started: it may
    /// be installed later.
    pub fn new(pipeline: &str, options: CommandOptions) -> Result<Self, SetupError> {
        let mut command = options.command.into_iter();
        let program = command.next().filter(|program| !program.is_empty()).ok_or(SetupError::EmptyCommand)?;
        Ok(Self {
            pipeline: pipeline.to_owned(),
            program,
            arguments: command.collect(),
            timeout: options.timeout,
        })
    }

    async fn run(&self, event: &Event) -> Result<(), Failure> {
        let mut process =
            Process::start(&mut self.command(event)).map_err(|error| self.not_started(&error))?;
        let mut tail = Tail::new(MAX_EXCERPT);
        let (stdin, stderr) = process.pipes();
        match timeout(self.timeout, finish(&mut process, stdin, &event.payload, stderr, &mut tail)).await {
            Ok(status) => self.judge(status, &tail),
            Err(_) => {
                process.kill();
                let _ = timeout(DEATH, process.wait()).await;
                Err(self.with_tail(timed_out(&self.name(), self.timeout), &tail))
            }
        }
    }

    fn command(&self, event: &Event) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(Envelope::of(&self.pipeline, event).variables())
            .env("REDRIVE_PIPELINE", &self.pipeline)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn judge(&self, status: std::io::Result<ExitStatus>, tail: &Tail) -> Result<(), Failure> {
        let name = self.name();
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                let message = format!("{name}: how it ended is unknown: {error}");
                return Err(Failure::unclassified("CommandLost", message));
            }
        };
        match exit::classify(status.code()) {
            None => Ok(()),
            Some(class) => Err(self.with_tail(ended(class, &name, status), tail)),
        }
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        let message = format!(
            "{} cannot be started: {error}; check that it is installed, executable, and where the configuration says",
            self.name()
        );
        Failure::transient("CommandNotStarted", message)
            .with_code(Code::Io(io_table::name(error.kind()).to_owned()))
    }

    fn with_tail(&self, mut failure: Failure, tail: &Tail) -> Failure {
        let said = tail.text();
        if !said.is_empty() {
            let message = format!("{}: {said}", failure.message);
            failure.message = redrive_core::failure::clean(&message);
        }
        failure
    }

    /// The program; its arguments may hold a password.
    fn name(&self) -> String {
        format!("{:?}", self.program.to_string_lossy())
    }
}

#[async_trait]
impl Handler for CommandHandler {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let runs: Vec<_> = batch.iter().map(|event| self.run(event)).collect();
        stream::iter(runs).buffered(CONCURRENCY).collect().await
    }
}

/// Feeds the program and listens to it until it ends.
async fn finish(
    process: &mut Process,
    stdin: Option<ChildStdin>,
    payload: &[u8],
    stderr: Option<ChildStderr>,
    tail: &mut Tail,
) -> std::io::Result<ExitStatus> {
    let listen = async {
        if let Some(stderr) = stderr {
            tail.drain(stderr).await;
        }
    };
    let talk = join(feed(stdin, payload), listen);
    tokio::pin!(talk);
    let status = tokio::select! {
        status = process.wait() => status,
        _ = &mut talk => return process.wait().await,
    };
    let _ = timeout(REST, &mut talk).await;
    status
}

/// A program that closes its input early, or ends, has read what it wanted.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload).await;
    }
}

fn ended(class: Class, name: &str, status: ExitStatus) -> Failure {
    match status.signal() {
        Some(signal) => Failure::new(class, "CommandKilled", format!("{name} was killed by signal {signal}"))
            .with_code(Code::Exit(-signal)),
        None => {
            let code = status.code().unwrap_or(-1);
            Failure::new(class, "CommandFailed", format!("{name} ended with status {code}"))
                .with_code(Code::Exit(code))
        }
    }
}
