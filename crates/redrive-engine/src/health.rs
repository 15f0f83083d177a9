//! How a pipeline is, for `/ready` and the console.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether a pipeline works, and if not, why: what its store said, or which part of it ended in a defect.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What keeps it from working, until that has passed.
    trouble: Option<String>,
    /// What only a restart mends.
    defect: Option<String>,
}

impl Health {
    /// How it is now.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn get(&self) -> Result<(), String> {
        let state = self.state();
        state.defect.as_ref().or(state.trouble.as_ref()).map_or(Ok(()), |why| Err(why.clone()))
    }

    /// How its store is, or where its events go.
    pub(crate) fn set(&self, health: Result<(), String>) {
        self.state().trouble = health.err();
    }

    /// A part of it has ended for good: whatever else gets better, it stays so.
    pub(crate) fn set_broken(&self, why: String) {
        self.state().defect = Some(why);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store came back, and `/ready` said that all was well, though nobody kept watch any more.
    #[test]
    fn a_defect_is_not_forgotten_when_the_store_is_back() {
        let health = Health::default();
        assert_eq!(health.get(), Ok(()));
        health.set(Err("away".into()));
        health.set_broken("its watch ended".into());
        health.set(Ok(()));
        assert_eq!(health.get(), Err("its watch ended".into()));
    }
}
