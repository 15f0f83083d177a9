//! The engine: starts the pipelines and stops them.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::trouble::{Reason, Trouble};
use redrive_store::{Announcements, Audit};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auto_redrive::{self, Rule};
use crate::persist::{Persistent, Persister};
use crate::pipeline::Pipeline;
use crate::routes::Routes;
use crate::trial::{CrashIsolation, Suspicion};
use crate::watch::{self, WatchOptions};
use crate::worker::Worker;

/// How often the policies look for letters.
const POLICY_INTERVAL: Duration = Duration::from_secs(10);

/// How long to wait before a worker that ended in a defect is replaced.
const REPLACE_AFTER: Duration = Duration::from_secs(1);

/// The pipelines at work. Every task that it starts ends with it.
#[derive(Debug, Default)]
pub struct Engine {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// One for all its pipelines: an event that kills its worker kills the process.
    isolation: CrashIsolation,
}

impl Engine {
    /// An engine with nothing to do yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the workers of a pipeline that has handlers, and the watch over its dead letters. On Postgres it listens
    /// for new work, so that nobody waits for the next poll.
    pub fn start(&self, pipeline: &Arc<Pipeline>, watch: WatchOptions) {
        if let Some(routes) = &pipeline.routes {
            let isolation = (self.isolation.clone(), Arc::new(Suspicion::new(pipeline.pace.lease)));
            for number in 1..=pipeline.pace.workers.max(1) {
                let name = worker_name(&pipeline.name, number);
                let (pipeline, routes, stop) =
                    (Arc::clone(pipeline), routes.clone(), self.stop.child_token());
                self.tasks.spawn(keep_working(pipeline, routes, name, isolation.clone(), stop));
            }
        }
        self.listen(pipeline);
        self.spawn(pipeline, "watch", watch::watch(Arc::clone(pipeline), watch, self.stop.child_token()));
    }

    /// Starts a persister: its writer, its schedules, and the watch over its failed events.
    pub fn persist<E: Persistent>(&self, persister: &Persister<E>, watch: WatchOptions) {
        let core = persister.core();
        let stop = || self.stop.child_token();
        let worker = worker_name(&core.pipeline().name, 1);
        let pipeline = core.pipeline();
        self.spawn(pipeline, "writer", Arc::clone(core).write(stop()));
        self.spawn(pipeline, "schedule", Arc::clone(core).reprocess(worker, stop()));
        self.spawn(pipeline, "clean-up", Arc::clone(core).clean_up(stop()));
        self.spawn(pipeline, "watch", watch::watch(Arc::clone(pipeline), watch, stop()));
    }

    /// Redrives the letters of a pipeline by these rules, and writes that down, if there is a log.
    pub fn auto_redrive(&self, pipeline: &Arc<Pipeline>, rules: Vec<Rule>, audit: Option<Arc<Audit>>) {
        if !rules.is_empty() {
            let stop = self.stop.child_token();
            let apply = auto_redrive::apply(Arc::clone(pipeline), rules, audit, POLICY_INTERVAL, stop);
            self.spawn(pipeline, "auto-redrive", apply);
        }
    }

    /// Stops claiming, finishes or hands back what is in hand, and ends every task.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Wakes the pipeline when its database says that there is work.
    fn listen(&self, pipeline: &Arc<Pipeline>) {
        let Some(Announcements { database, channel }) = pipeline.announcements.clone() else { return };
        let (listening, stop) = (Arc::clone(pipeline), self.stop.child_token());
        self.spawn(pipeline, "listener", async move {
            if stop.run_until_cancelled(listening.bell.listen(&database, &channel)).await.is_some() {
                tracing::info!(
                    pipeline = %listening.name,
                    poll_interval = ?listening.pace.poll_interval,
                    "notifications do not come through a pooler: new work is found by polling; \
                     set `listen-database` to the address of Postgres itself to hear of it at once"
                );
            }
        });
    }

    /// Starts a task of a pipeline; should a defect end it, readiness says so from then on.
    fn spawn(
        &self,
        pipeline: &Arc<Pipeline>,
        what: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let pipeline = Arc::clone(pipeline);
        self.tasks.spawn(async move {
            let mut running = JoinSet::new();
            running.spawn(task);
            if let Some(Err(error)) = running.join_next().await
                && error.is_panic()
            {
                tracing::error!(pipeline = %pipeline.name, what, %error, "a task ended in a defect");
                pipeline
                    .health
                    .set_broken(format!("its {what} ended in a defect: restart redrive ({error})"));
            }
        });
    }
}

/// A worker, and another one in its place when a defect has ended it: what it had in hand is taken over when its
/// leases run out.
async fn keep_working(
    pipeline: Arc<Pipeline>,
    routes: Routes,
    name: String,
    isolation: (CrashIsolation, Arc<Suspicion>),
    stop: CancellationToken,
) {
    loop {
        let (pipeline, routes, isolation) = (Arc::clone(&pipeline), routes.clone(), isolation.clone());
        let worker = Worker::new(Arc::clone(&pipeline), routes, name.clone(), isolation, stop.clone());
        // Dropped, it ends with this task.
        let mut working = JoinSet::new();
        working.spawn(worker.run());
        match working.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                let said = format!("a worker ended in a defect and was replaced: {error}");
                tracing::error!(pipeline = %pipeline.name, worker = %name, %error, "a worker ended in a defect");
                pipeline.health.set(Err(Trouble::new(Reason::Defect, said)));
            }
            _ => return,
        }
        if stop.run_until_cancelled(tokio::time::sleep(REPLACE_AFTER)).await.is_none() {
            return;
        }
    }
}

/// Who holds a lease, for a person who looks at the table: host, process, worker.
fn worker_name(pipeline: &str, number: usize) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("{host}/{}/{pipeline}-{number}", std::process::id());
    name.chars().take(100).collect()
}
