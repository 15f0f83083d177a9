//! The heartbeat of a worker: extends its leases in a task and on a connection of its own.
//!
//! The exchange with the store may wait for long, for a row that somebody has locked or for a server that is busy. What
//! the worker holds meanwhile, what it is settling included, stays its own, or another process would take it over and
//! count an attempt. A locked row holds up the heartbeat of no other: first everything is extended that nobody has
//! locked, and a further task waits for the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_core::event::WorkId;
use redrive_core::lease::Lease;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{GIVE_UP, gave_up};
use crate::leases::HeldLeases;
use crate::pipeline::Pipeline;

/// How many times a lease is extended while it lasts.
const BEATS: u32 = 3;

/// What came of one call.
#[derive(Debug, Default)]
pub(super) struct Beat {
    /// With the new times.
    pub(super) extended: Vec<Lease>,
    /// Somebody else has them, or they are settled.
    pub(super) lost: Vec<Lease>,
}

/// The task, which ends when this is dropped, and what it says.
pub(super) struct Heartbeat {
    beats: mpsc::UnboundedReceiver<Beat>,
    _task: JoinSet<()>,
}

impl Heartbeat {
    /// Extends these leases from now on.
    pub(super) fn start(pipeline: Arc<Pipeline>, leases: HeldLeases) -> Self {
        let (said, beats) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(Extender { pipeline, leases, said }.run());
        Self { beats, _task: task }
    }

    /// The next call's outcome.
    pub(super) async fn next(&mut self) -> Option<Beat> {
        self.beats.recv().await
    }

    /// The next one, if it is there.
    pub(super) fn also(&mut self) -> Option<Beat> {
        self.beats.try_recv().ok()
    }
}

#[derive(Clone)]
struct Extender {
    pipeline: Arc<Pipeline>,
    leases: HeldLeases,
    said: mpsc::UnboundedSender<Beat>,
}

impl Extender {
    async fn run(self) {
        let mut waiting = JoinSet::new();
        loop {
            sleep(self.length() / BEATS).await;
            let locked = self.extend_unlocked().await;
            while waiting.try_join_next().is_some() {}
            // One at a time: each of them holds a connection for as long as the lock lasts.
            if !locked.is_empty() && waiting.is_empty() {
                waiting.spawn(self.clone().extend_locked(locked));
            }
        }
    }

    /// Extends what nobody has locked, and returns what is left of ours.
    async fn extend_unlocked(&self) -> Vec<Lease> {
        let mut leases = self.leases.all();
        if leases.is_empty() {
            return leases;
        }
        let (begun, asked) = (Instant::now(), self.leases.now());
        let call = {
            let mut all: Vec<&mut Lease> = leases.iter_mut().collect();
            // A call that takes longer than this is too late for some of them.
            let patience = (self.length() / 2).clamp(Duration::from_secs(1), GIVE_UP);
            timeout(patience, self.pipeline.store.extend_unlocked(&mut all, self.length())).await
        };
        match call {
            Ok(Ok(others)) => {
                self.pipeline.aftermath.answered(begun, Instant::now(), self.length());
                let (left, extended) = split(leases, &others);
                self.leases.extended(&extended, asked, self.length());
                self.say(Beat { extended, lost: Vec::new() });
                left.into_iter().filter(|lease| self.leases.holds(lease)).collect()
            }
            Ok(Err(error)) => self.fails(begun, &error.to_string()),
            Err(_) => self.fails(begun, "the store did not answer in time"),
        }
    }

    /// Waits for rows that somebody has locked: those that are still ours are extended as soon as they are free.
    async fn extend_locked(self, mut leases: Vec<Lease>) {
        let asked = self.leases.now();
        let call = {
            let mut all: Vec<&mut Lease> = leases.iter_mut().collect();
            timeout(GIVE_UP, self.pipeline.store.extend(&mut all, self.length())).await
        };
        match call {
            Ok(Ok(lost)) => {
                let (lost, extended) = split(leases, &lost);
                self.leases.extended(&extended, asked, self.length());
                self.say(Beat { extended, lost });
            }
            Ok(Err(error)) => self.warn(&error.to_string()),
            Err(_) => self.warn(&gave_up().detail),
        }
    }

    fn fails(&self, begun: Instant, error: &str) -> Vec<Lease> {
        self.warn(error);
        self.pipeline.aftermath.failed(begun, Instant::now(), self.length());
        Vec::new()
    }

    fn warn(&self, error: &str) {
        tracing::warn!(pipeline = %self.pipeline.name, error, "leases could not be extended");
    }

    fn say(&self, beat: Beat) {
        // Nobody listens when the worker is gone, and this task with it.
        drop(self.said.send(beat));
    }

    fn length(&self) -> Duration {
        self.pipeline.pace.lease
    }
}

/// Those of this work, and the others.
fn split(leases: Vec<Lease>, work: &[WorkId]) -> (Vec<Lease>, Vec<Lease>) {
    leases.into_iter().partition(|lease| work.contains(&lease.work()))
}
