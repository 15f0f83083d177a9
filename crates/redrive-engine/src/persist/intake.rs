//! The intake: a bounded queue between callers and the writer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::event::Refused;
use redrive_store::Record;
use tokio::sync::Notify;

/// Why events were not accepted. None of them was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// One of them cannot be kept.
    #[error("item {item}: {source}")]
    Refused {
        /// Which one, from 0.
        item: usize,
        /// What is wrong with it.
        source: Refused,
    },
    /// There is no room: send it again, later.
    #[error("{waiting} events wait already: the target is slow or away, send it again later")]
    Full {
        /// How many events wait.
        waiting: usize,
    },
    /// The journal cannot keep it: send it again, later.
    #[error("the journal did not take it, send it again later: {0}")]
    Disk(String),
    /// It is being stopped.
    #[error("the pipeline is stopping: send it to another instance, or again later")]
    Stopping,
}

impl From<redrive_spool::Error> for NotAccepted {
    fn from(error: redrive_spool::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

/// A bounded queue. What is larger than all of it is taken when nothing else waits.
pub(super) struct Intake {
    max_events: usize,
    max_bytes: usize,
    state: Mutex<State>,
    arrived: Notify,
    /// Somebody finished with what it took.
    finished: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Record>,
    bytes: usize,
    /// Taken and not finished.
    in_hand: usize,
    closed: bool,
}

impl Intake {
    pub(super) fn new(max_events: usize, max_bytes: usize) -> Self {
        let state = Mutex::default();
        Self { max_events, max_bytes, state, arrived: Notify::new(), finished: Notify::new() }
    }

    /// Takes the records in, all or none.
    pub(super) fn offer(&self, records: Vec<Record>) -> Result<(), NotAccepted> {
        let bytes: usize = records.iter().map(Record::size).sum();
        let mut state = self.state();
        if state.closed {
            return Err(NotAccepted::Stopping);
        }
        let waiting = state.queue.len();
        let fits = waiting + records.len() <= self.max_events && state.bytes + bytes <= self.max_bytes;
        if waiting > 0 && !fits {
            return Err(NotAccepted::Full { waiting });
        }
        state.bytes += bytes;
        state.queue.extend(records);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The next records, as soon as there are any; none once it is closed and empty.
    pub(super) async fn take(&self, max: usize) -> Option<Vec<Record>> {
        loop {
            {
                let mut state = self.state();
                if !state.queue.is_empty() {
                    return Some(state.take(max));
                }
                if state.closed {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    /// What was taken last is saved or set aside.
    pub(super) fn finish(&self) {
        self.state().in_hand = 0;
        self.finished.notify_waiters();
    }

    /// Something on disk is saved or set aside.
    pub(super) fn finish_disk(&self) {
        self.finished.notify_waiters();
    }

    /// Takes no more; what is there can still be taken.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_one();
    }

    pub(super) fn waiting(&self) -> usize {
        let state = self.state();
        state.queue.len() + state.in_hand
    }

    /// Waits until this holds; it is asked again whenever somebody finishes something.
    pub(super) async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let finished = self.finished.notified();
            tokio::pin!(finished);
            finished.as_mut().enable();
            if holds() {
                return;
            }
            finished.await;
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, max: usize) -> Vec<Record> {
        let count = self.queue.len().min(max.max(1));
        let taken: Vec<Record> = self.queue.drain(..count).collect();
        self.bytes -= taken.iter().map(Record::size).sum::<usize>();
        self.in_hand = taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn records(count: usize) -> Vec<Record> {
        let record = |n: usize| Record {
            key: n.to_string(),
            payload: "12345678".into(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        (0..count).map(record).collect()
    }

    #[tokio::test]
    async fn what_does_not_fit_is_refused_whole_and_fits_later() {
        let intake = Intake::new(5, 1_000);
        intake.offer(records(3)).unwrap();
        assert_eq!(intake.offer(records(3)), Err(NotAccepted::Full { waiting: 3 }));
        intake.offer(records(2)).unwrap();
        assert_eq!(intake.take(4).await.unwrap().len(), 4);
        intake.offer(records(4)).unwrap();
    }

    #[test]
    fn bytes_are_bounded_like_events() {
        let intake = Intake::new(1_000, 30);
        intake.offer(records(3)).unwrap();
        assert!(matches!(intake.offer(records(1)), Err(NotAccepted::Full { .. })));
    }

    #[test]
    fn what_is_larger_than_the_queue_is_taken_alone() {
        let intake = Intake::new(2, 10);
        intake.offer(records(100)).unwrap();
        assert!(intake.offer(records(1)).is_err());
    }

    #[tokio::test]
    async fn a_closed_one_refuses_and_can_be_emptied() {
        let intake = Intake::new(5, 1_000);
        intake.offer(records(2)).unwrap();
        intake.close();
        assert_eq!(intake.offer(records(1)), Err(NotAccepted::Stopping));
        assert_eq!(intake.take(10).await.unwrap().len(), 2);
        assert_eq!(intake.take(10).await, None);
    }
}
