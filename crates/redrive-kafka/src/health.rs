//! How a pipeline is, by part: what is wrong stays until it is right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use redrive_core::trouble::{Reason, Trouble};
use redrive_spool::Journal;

use crate::observer::Observer;

/// How a pipeline is. Clones are one.
#[derive(Clone)]
pub struct Health {
    problems: Arc<Mutex<BTreeMap<&'static str, String>>>,
    observer: Arc<dyn Observer>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Health").field(&self.get()).finish()
    }
}

impl Health {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { problems: Arc::default(), observer }
    }

    /// How it is now.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn get(&self) -> Result<(), String> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.is_empty() {
            return Ok(());
        }
        Err(problems.values().cloned().collect::<Vec<_>>().join("; "))
    }

    /// What is wrong, as the fixed code of its first part and in the words of all.
    ///
    /// # Errors
    /// As [`Health::get`].
    pub fn check(&self) -> Result<(), Trouble> {
        let detail = self.get();
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = problems.keys().next().map_or(Reason::KafkaUnavailable, |part| reason(part));
        detail.map_err(|detail| Trouble::new(reason, detail))
    }

    /// A journal of letters was opened.
    pub(crate) fn opened(&self, journal: &Journal) {
        self.observer.opened(journal);
    }

    /// Notes how one part is; the observer hears of changes only.
    pub(crate) fn note(&self, part: &'static str, state: Result<(), String>) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Ok(()) => {
                if problems.remove(part).is_some() {
                    self.observer.up(part);
                }
            }
            Err(error) => {
                if !problems.contains_key(part) {
                    self.observer.down(part, &error);
                }
                problems.insert(part, error);
            }
        }
    }
}

/// What a part that does not work means; those that are not listed talk to Kafka.
fn reason(part: &str) -> Reason {
    match part {
        "sink" => Reason::SinkUnavailable,
        "index" => Reason::IndexUnavailable,
        "disk" | "letters on disk" => Reason::DiskUnusable,
        "refused" => Reason::LettersRefused,
        _ => Reason::KafkaUnavailable,
    }
}
