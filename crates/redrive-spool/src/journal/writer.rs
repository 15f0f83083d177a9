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
    loop {
        match inbox.recv_timeout(LINGER) {
            Ok(command) => work(&mut log, command, inbox),
            Err(RecvTimeoutError::Timeout) => rest(&mut log, inbox),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    note(log.tell_acknowledged());
    note(log.tidy());
}

/// Nothing came for a while: writes down what was acknowledged, and sleeps until something comes.
fn rest(log: &mut Log, inbox: &Receiver<Command>) {
    note(log.tell_acknowledged());
    note(log.tidy());
    if let Ok(command) = inbox.recv() {
        work(log, command, inbox);
    }
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
    fn take(&mut self, log: &Log, command: Command) {
        let Command::Append(append) = command else {
            self.tidy = true;
            return;
        };
        let size: usize = append.records.iter().map(|record| record.len() + HEADER).sum();
        match log.check_room(self.bytes + size as u64) {
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
            Err(error) => self.appends.into_iter().for_each(|append| answer(append, Err(error.clone()))),
        }
    }
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
