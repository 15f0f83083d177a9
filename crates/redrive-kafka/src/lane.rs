//! A lane: the records of one partition, in batches, one batch after the other.
//!
//! Lanes run side by side; within a lane the order of the partition is kept, and a batch is begun when every
//! record before it is safe: so how far it is done is how far may be committed. A lane ends when its
//! partition is taken away. What it was doing is then finished within a short time, or dropped: only what
//! is finished is committed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::pause::Pause;
use crate::record::Record;

/// When a batch is full.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// After so many records.
    pub max_records: usize,
    /// Or so many bytes.
    pub max_bytes: usize,
    /// Or after so long.
    pub max_delay: Duration,
}

/// What is done with a batch.
#[async_trait]
pub(crate) trait Processor: Send + Sync + 'static {
    /// Brings every record of the batch to safety. `false` when it was told to stop before that: then
    /// nothing is committed, and the records come again.
    async fn process(&self, batch: &[Record], stop: &CancellationToken) -> bool;
}

/// How far each partition is done; taken by whoever commits.
#[derive(Debug, Default)]
pub(crate) struct Finished(Mutex<HashMap<i32, i64>>);

impl Finished {
    pub(crate) fn note(&self, partition: i32, next: i64) {
        raise(&mut self.locked(), partition, next);
    }

    /// Looked at under the lock: a lane that is disowned before its partition is taken notes nothing after that.
    fn note_unless(&self, disowned: &CancellationToken, partition: i32, next: i64) {
        let mut map = self.locked();
        if !disowned.is_cancelled() {
            raise(&mut map, partition, next);
        }
    }

    pub(crate) fn take(&self) -> HashMap<i32, i64> {
        std::mem::take(&mut self.locked())
    }

    pub(crate) fn take_of(&self, partition: i32) -> Option<i64> {
        self.locked().remove(&partition)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<i32, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn raise(map: &mut HashMap<i32, i64>, partition: i32, next: i64) {
    let known = map.entry(partition).or_insert(next);
    *known = (*known).max(next);
}

/// Tells the poller that some lane has room again.
#[derive(Debug, Default)]
pub(crate) struct Room {
    changed: Mutex<()>,
    signal: Condvar,
}

impl Room {
    fn made(&self) {
        drop(self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        self.signal.notify_all();
    }

    pub(crate) fn wait(&self, at_most: Duration) {
        let held = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.signal.wait_timeout(held, at_most));
    }
}

/// How much waits in a lane.
#[derive(Debug, Default)]
struct Load {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

impl Load {
    fn add(&self, records: &[Record]) {
        self.records.fetch_add(records.len(), Ordering::Relaxed);
        self.bytes.fetch_add(records.iter().map(Record::size).sum(), Ordering::Relaxed);
    }

    fn remove(&self, records: &[Record]) {
        self.records.fetch_sub(records.len(), Ordering::Relaxed);
        self.bytes.fetch_sub(records.iter().map(Record::size).sum(), Ordering::Relaxed);
    }

    fn exceeds(&self, records: usize, bytes: usize) -> bool {
        self.records.load(Ordering::Relaxed) > records || self.bytes.load(Ordering::Relaxed) > bytes
    }
}

/// A lane, as the poller sees it.
#[derive(Debug)]
pub(crate) struct Lane {
    sender: mpsc::UnboundedSender<Vec<Record>>,
    load: Arc<Load>,
    options: BatchOptions,
    /// Nothing new is begun.
    stop: CancellationToken,
    /// Whatever it finishes from now on is not committed.
    disowned: CancellationToken,
    task: JoinHandle<()>,
    pub(crate) paused: bool,
}

impl Lane {
    pub(crate) fn start(
        runtime: &Handle,
        partition: i32,
        options: BatchOptions,
        (processor, pause): (Arc<dyn Processor>, Pause),
        finished: Arc<Finished>,
        room: Arc<Room>,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (stop, disowned) = (CancellationToken::new(), CancellationToken::new());
        let load = Arc::new(Load::default());
        let run = Run {
            partition,
            options,
            receiver,
            waiting: VecDeque::new(),
            load: Arc::clone(&load),
            room,
            processor,
            pause,
            finished,
            stop: stop.clone(),
            disowned: disowned.clone(),
        };
        let task = runtime.spawn(run.run());
        Self { sender, load, options, stop, disowned, task, paused: false }
    }

    pub(crate) fn push(&self, records: Vec<Record>) {
        self.load.add(&records);
        // A lane that has ended has no use for them; they come again elsewhere.
        let _ = self.sender.send(records);
    }

    /// Whether it should get no more for now; so many bytes are its share.
    pub(crate) fn is_full(&self, share: usize) -> bool {
        self.load.exceeds(4 * self.options.max_records, share)
    }

    /// Whether it could do with more.
    pub(crate) fn has_room(&self, share: usize) -> bool {
        !self.load.exceeds(self.options.max_records, share / 2)
    }

    /// Whether it ended without being told to: it panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.task.is_finished() && !self.stop.is_cancelled()
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for it to end; what is not finished by then is dropped, and never committed.
    pub(crate) async fn end(mut self, deadline: Instant) {
        self.stop.cancel();
        if tokio::time::timeout_at(deadline, &mut self.task).await.is_err() {
            self.disowned.cancel();
            self.task.abort();
        }
    }
}

struct Run {
    partition: i32,
    options: BatchOptions,
    receiver: mpsc::UnboundedReceiver<Vec<Record>>,
    waiting: VecDeque<Record>,
    load: Arc<Load>,
    room: Arc<Room>,
    processor: Arc<dyn Processor>,
    pause: Pause,
    finished: Arc<Finished>,
    stop: CancellationToken,
    disowned: CancellationToken,
}

impl Run {
    async fn run(mut self) {
        while let Some(batch) = self.collect().await {
            let Some(next) = batch.last().map(|record| record.position.offset + 1) else { continue };
            if !self.pause.is_resumed(&self.stop).await {
                return;
            }
            let done = self.processor.process(&batch, &self.stop).await;
            self.load.remove(&batch);
            self.room.made();
            if !done {
                return;
            }
            self.finished.note_unless(&self.disowned, self.partition, next);
        }
    }

    /// The next batch: as many as fit, or as many as came in time. None when the lane ends.
    async fn collect(&mut self) -> Option<Vec<Record>> {
        if self.waiting.is_empty() {
            let stop = self.stop.clone();
            let first = stop.run_until_cancelled(self.receiver.recv()).await??;
            self.waiting.extend(first);
        }
        let deadline = Instant::now() + self.options.max_delay;
        while !self.is_enough() {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = sleep_until(deadline) => break,
                more = self.receiver.recv() => self.waiting.extend(more?),
            }
        }
        if self.stop.is_cancelled() {
            return None;
        }
        let many = self.fitting();
        Some(self.waiting.drain(..many).collect())
    }

    fn is_enough(&self) -> bool {
        self.waiting.len() >= self.options.max_records || self.fitting() < self.waiting.len()
    }

    /// How many of those that wait go into one batch; at least one, however large.
    fn fitting(&self) -> usize {
        let mut bytes = 0;
        for (at, record) in self.waiting.iter().take(self.options.max_records).enumerate() {
            bytes += record.size();
            if at > 0 && bytes > self.options.max_bytes {
                return at;
            }
        }
        self.waiting.len().min(self.options.max_records)
    }
}
