//! The thread that writes: whatever was handed in while the last group was being synced is the next group.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Span;
use super::frame::HEADER;
use super::log::Log;
use super::state::Shared;
use crate::error::Error;

/// How long acknowledgements wait for an append that takes them along.
const LINGER: Duration = Duration::from_millis(200);
/// The longest pause between tries to write them down while the disk fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The most bytes of one group: bounds the memory, and how long the first of it waits.
const GROUP: u64 = 8 * 1024 * 1024;

/// Somebody who waits for records to be durable.
pub(super) struct Append {
    pub(super) records: Vec<Bytes>,
    pub(super) answer: oneshot::Sender<Result<Span, Error>>,
}

/// What the thread is asked for.
pub(super) enum Command {
    Append(Append),
    /// Segments may have become superfluous.
    Tidy,
    /// Something was acknowledged: it is written down in a while, if nothing takes it along.
    Tell,
}

/// The thread, which ends when this is dropped: after the last group, and after the last acknowledgement
/// is written.
#[derive(Debug)]
pub(super) struct Writer {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, Error> {
        let dir = shared.dir.clone();
        let (commands, inbox) = channel();
        let thread = Builder::new()
            .name("redrive-journal".to_owned())
            .spawn(move || run(Log::new(shared), &inbox))
            .map_err(Error::io("start the writer of", &dir))?;
        Ok(Self { commands: Some(commands), thread: Some(thread) })
    }

    /// Hands something in. It is dropped when the thread is gone: whoever waits for an answer sees that.
    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut log: Log, inbox: &Receiver<Command>) {
    let mut pause = LINGER;
    loop {
        match next(&log, inbox, pause) {
            Ok(command) => work(&mut log, command, inbox),
            Err(RecvTimeoutError::Timeout) => {
                let told = log.tell_acknowledged();
                // On a full disk that makes room.
                let done = told.and(log.tidy());
                // A disk that fails is not asked five times a second.
                pause = if done.is_ok() { LINGER } else { (pause * 2).min(LONGEST_PAUSE) };
                note(done);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    note(log.seal());
    note(log.tidy());
}

/// What comes next; the time is over only if there is something to write down.
fn next(log: &Log, inbox: &Receiver<Command>, pause: Duration) -> Result<Command, RecvTimeoutError> {
    if log.has_untold() {
        return inbox.recv_timeout(pause);
    }
    inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
}

fn work(log: &mut Log, command: Command, inbox: &Receiver<Command>) {
    let mut group = Group::default();
    group.take(log, command);
    while group.bytes < GROUP
        && let Ok(command) = inbox.try_recv()
    {
        group.take(log, command);
    }
    let tidy = group.tidy;
    group.commit(log);
    if tidy {
        note(log.tidy());
    }
}

/// What is made durable by one sync.
#[derive(Default)]
struct Group {
    appends: Vec<Append>,
    bytes: u64,
    tidy: bool,
}

impl Group {
    fn take(&mut self, log: &mut Log, command: Command) {
        let append = match command {
            Command::Append(append) => append,
            Command::Tidy => {
                self.tidy = true;
                return;
            }
            // Whoever waits for the next command knows.
            Command::Tell => return,
        };
        let size: usize = append.records.iter().map(|record| record.len() + HEADER).sum();
        match make_room(log, self.bytes + size as u64) {
            Ok(()) => {
                self.bytes += size as u64;
                self.appends.push(append);
            }
            Err(error) => answer(append, Err(error)),
        }
    }

    fn commit(self, log: &mut Log) {
        if self.appends.is_empty() {
            return;
        }
        let records: Vec<_> = self.appends.iter().map(|append| append.records.as_slice()).collect();
        match log.append(&records) {
            Ok(spans) => {
                self.appends.into_iter().zip(spans).for_each(|(append, span)| answer(append, Ok(span)));
            }
            Err(error) => {
                self.appends.into_iter().for_each(|append| answer(append, Err(error.clone())));
                // Room for the next, if anything can go.
                note(log.tidy());
            }
        }
    }
}

/// Before anybody is refused, what is acknowledged goes.
fn make_room(log: &mut Log, size: u64) -> Result<(), Error> {
    if log.check_room(size).is_ok() {
        return Ok(());
    }
    note(log.tidy());
    log.check_room(size)
}

/// Whoever asked may have gone; then the record is there, and nobody was told: it is delivered.
fn answer(append: Append, result: Result<Span, Error>) {
    let _ = append.answer.send(result);
}

/// The caller of an append hears of its error; that of a tidying up goes to the log.
fn note(done: Result<(), Error>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the journal could not be tidied up: acknowledged records may be delivered again");
    }
}
