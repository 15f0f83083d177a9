//! How a pipeline is, by part: what is wrong stays until it is right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
