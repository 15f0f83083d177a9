//! The pulse: what changes, as it changes, for whoever watches. It beats only while somebody does.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::dead_letter::PipelineKind;
use redrive_store::{Operation, OperationState};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Console;

const BEAT: Duration = Duration::from_secs(1);
/// A look takes at most one part in this many of the stores' time.
const SHARE: u32 = 10;
/// How many operations it tells about.
const OPERATIONS: u32 = 20;

/// How things are at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The pipelines.
    pub pipelines: Vec<PulsePipeline>,
    /// The latest operations, newest first.
    pub operations: Vec<PulseOperation>,
}

/// One pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PulsePipeline {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PipelineKind,
    /// How many letters wait; nothing while its store does not answer.
    pub waiting: Option<u64>,
    /// Whether its workers are paused.
    pub paused: Option<bool>,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PulseOperation {
    /// Its number.
    pub id: i64,
    /// Its state, by name.
    pub state: &'static str,
    /// Why it is in that state.
    pub reason: String,
    /// How many letters it was confirmed for.
    pub total: u64,
    /// How many are done.
    pub done: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many have failed again.
    pub failed: u64,
}

impl From<Operation> for PulseOperation {
    fn from(operation: Operation) -> Self {
        Self {
            id: operation.id,
            state: OperationState::name(operation.state),
            reason: operation.reason,
            total: operation.total,
            done: operation.done,
            refused: operation.refused,
            failed: operation.failed,
        }
    }
}

/// Tells watchers how things are.
#[derive(Debug, Clone)]
pub struct Pulse(watch::Sender<Arc<Snapshot>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(watch::Sender::new(Arc::default()))
    }
}

impl Pulse {
    /// What there is to know from now on, each time that it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.subscribe()
    }

    /// Beats until it is told to stop.
    pub async fn beat(self, console: Arc<Console>, stop: CancellationToken) {
        loop {
            let begun = Instant::now();
            if self.0.receiver_count() > 0 {
                let Some(snapshot) = stop.run_until_cancelled(snapshot(&console)).await else { return };
                let snapshot = Arc::new(snapshot);
                self.0.send_if_modified(|last| {
                    let changed = *last != snapshot;
                    *last = snapshot;
                    changed
                });
            }
            let pause = BEAT.max(begun.elapsed() * SHARE);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}

async fn snapshot(console: &Console) -> Snapshot {
    let (overviews, operations) = tokio::join!(console.overviews(), console.operations(None, OPERATIONS));
    let pipelines = overviews.into_iter().map(|overview| PulsePipeline {
        name: overview.name,
        kind: overview.kind,
        waiting: overview.stats.map(|stats| stats.waiting()),
        paused: overview.paused,
        trouble: overview.trouble,
    });
    Snapshot {
        pipelines: pipelines.collect(),
        operations: operations.unwrap_or_default().into_iter().map(PulseOperation::from).collect(),
    }
}
