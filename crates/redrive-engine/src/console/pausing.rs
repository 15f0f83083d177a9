//! Pausing pipelines: here at once, and written down, so that other instances and the next start follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::dead_letter::Operator;

use super::{Console, ConsoleError};

/// What this process knows of pauses.
#[derive(Default)]
pub(super) struct Pausing(Mutex<State>);

#[derive(Default)]
struct State {
    /// The pipelines that were paused when it was read last.
    seen: BTreeSet<String>,
    /// What was switched here and is not written down yet: it goes before what is written.
    switched: BTreeMap<String, (bool, Operator)>,
    /// How often something was switched here: what was read before the last time is old.
    times: u64,
}

impl Console {
    /// Stops or restarts the workers of a pipeline: those of this process at once, those of others when they look,
    /// within seconds, and also after a restart. It is done here whether or not it can be written down now: it may
    /// be needed most while a database is away, and is written as soon as that is back.
    ///
    /// # Errors
    /// [`ConsoleError::NoPipeline`]; [`ConsoleError::NoWorkers`] when nobody works on it here.
    pub async fn set_paused(
        &self,
        pipeline: &str,
        paused: bool,
        operator: &Operator,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(pipeline)?;
        let workers = desk.workers.as_ref().ok_or_else(|| ConsoleError::NoWorkers(pipeline.to_owned()))?;
        workers.switch.set_paused(paused);
        self.pausing.switched(pipeline, paused, operator);
        self.write_switched().await;
        let action = if paused { "pause pipeline" } else { "resume pipeline" };
        self.write_down(operator, action, pipeline, 0, "").await;
        Ok(())
    }

    /// Pauses and resumes the pipelines of this process as it is written down.
    pub async fn follow_pauses(&self) {
        self.write_switched().await;
        let (times, switched) = self.pausing.now();
        let paused = match self.records.pauses.all().await {
            Ok(paused) => paused,
            Err(error) => {
                tracing::debug!(%error, "it cannot be read which pipelines are paused");
                return;
            }
        };
        // One that was switched meanwhile is not switched back by what was read before.
        let mut state = self.pausing.lock();
        if state.times != times {
            return;
        }
        // What did not change is left alone: the program around us may use the switches, too.
        for name in paused.symmetric_difference(&state.seen).filter(|name| !switched.contains_key(*name)) {
            if let Some(workers) = self.desks.get(name).and_then(|desk| desk.workers.as_ref()) {
                workers.switch.set_paused(paused.contains(name));
            }
        }
        state.seen = paused;
    }

    async fn write_switched(&self) {
        let (times, switched) = self.pausing.now();
        for (pipeline, (paused, operator)) in switched {
            match self.records.pauses.set(&pipeline, paused, &operator).await {
                Ok(()) => self.pausing.written(&pipeline, times),
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
        state.switched.insert(pipeline.to_owned(), (paused, operator.clone()));
    }

    /// It is written as it was switched, unless that has been done again since.
    fn written(&self, pipeline: &str, times: u64) {
        let mut state = self.lock();
        if state.times == times {
            state.switched.remove(pipeline);
        }
    }

    fn now(&self) -> (u64, BTreeMap<String, (bool, Operator)>) {
        let state = self.lock();
        (state.times, state.switched.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
