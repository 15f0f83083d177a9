//! Pausing pipelines: here at once, and written down, so that other instances and the next start follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::dead_letter::{Operator, PipelineKind};

use super::{Console, ConsoleError};

/// What this process knows of pauses.
#[derive(Default)]
pub(super) struct Pausing(Mutex<State>);

#[derive(Default)]
struct State {
    /// The pipelines that are paused, as was last read or switched here: what differs from it is news.
    known: BTreeSet<String>,
    /// What was switched here and is not written down yet: it goes before what is written.
    unwritten: BTreeMap<String, Switched>,
    /// How often something was switched here: what was read before the last time is old.
    times: u64,
}

#[derive(Clone)]
struct Switched {
    paused: bool,
    operator: Operator,
    /// Which switching it was.
    number: u64,
}

impl Console {
    /// Stops or restarts the workers of a pipeline: those of this process at once, those of others when they look,
    /// within seconds, and also after a restart. It is done here whether or not it can be written down now: it may
    /// be needed most while a database is away, and is written as soon as that is back.
    ///
    /// Where nobody works on it in this process, it is only written down.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`]; [`ConsoleError::NoWorkers`] for ingest, which has none anywhere;
    /// [`ConsoleError::Store`] when it cannot be written down, and nobody works on it here.
    pub async fn set_paused(
        &self,
        pipeline: &str,
        paused: bool,
        operator: &Operator,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(pipeline)?;
        match &desk.workers {
            Some(workers) => {
                workers.switch.set_paused(paused);
                self.pausing.switched(pipeline, paused, operator);
                self.write_switched().await;
            }
            None if desk.queue.kind() == PipelineKind::Ingest => {
                return Err(ConsoleError::NoWorkers(pipeline.to_owned()));
            }
            None => self.records.pauses.set(pipeline, paused, operator).await?,
        }
        let action = if paused { "pause pipeline" } else { "resume pipeline" };
        self.write_down(operator, action, pipeline, 0, "").await;
        Ok(())
    }

    /// Pauses and resumes the pipelines of this process as it is written down; whether that could be read.
    pub async fn follow_pauses(&self) -> bool {
        self.write_switched().await;
        let times = self.pausing.lock().times;
        let paused = match self.records.pauses.all().await {
            Ok(paused) => paused,
            Err(error) => {
                tracing::debug!(%error, "it cannot be read which pipelines are paused");
                // Without the table nobody has ever paused any.
                return !error.is_unavailable();
            }
        };
        let mut state = self.pausing.lock();
        // One that was switched meanwhile is not switched back by what was read before.
        if state.times != times || !state.unwritten.is_empty() {
            return true;
        }
        // What did not change is left alone: the program around us may use the switches, too.
        for name in paused.symmetric_difference(&state.known) {
            if let Some(workers) = self.desks.get(name).and_then(|desk| desk.workers.as_ref()) {
                workers.switch.set_paused(paused.contains(name));
            }
        }
        state.known = paused;
        true
    }

    async fn write_switched(&self) {
        let unwritten = self.pausing.lock().unwritten.clone();
        for (pipeline, Switched { paused, operator, number }) in unwritten {
            match self.records.pauses.set(&pipeline, paused, &operator).await {
                Ok(()) => self.pausing.written(&pipeline, number),
                Err(error) => {
                    tracing::warn!(pipeline, paused, %error, "switched here, and not written down yet");
                }
            }
        }
    }
}

impl Pausing {
    fn switched(&self, pipeline: &str, paused: bool, operator: &Operator) {
        let mut state = self.lock();
        state.times += 1;
        match paused {
            true => state.known.insert(pipeline.to_owned()),
            false => state.known.remove(pipeline),
        };
        let switched = Switched { paused, operator: operator.clone(), number: state.times };
        state.unwritten.insert(pipeline.to_owned(), switched);
    }

    /// It is written as it was switched, unless that has been done again since.
    fn written(&self, pipeline: &str, number: u64) {
        let mut state = self.lock();
        if state.unwritten.get(pipeline).is_some_and(|switched| switched.number == number) {
            state.unwritten.remove(pipeline);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
