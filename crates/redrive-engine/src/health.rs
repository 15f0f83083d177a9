//! How a pipeline is, for `/ready` and the console.

use std::sync::{Arc, Mutex, PoisonError};

/// Whether a pipeline's store answers, and if not, what it said.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Result<(), String>>>);

impl Default for Health {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Ok(()))))
    }
}

impl Health {
    /// How it is now.
    ///
    /// # Errors
    /// What the store said when it last failed.
    pub fn get(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, health: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}
