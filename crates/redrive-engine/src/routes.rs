//! Which handler an event goes to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use redrive_core::event::Event;
use redrive_core::failure::{Class, Failure};
use redrive_core::handler::Handler;

use crate::breaker::Breaker;

/// A handler with its name and its breaker.
#[derive(Clone)]
pub struct Route {
    name: Arc<str>,
    handler: Arc<dyn Handler>,
    breaker: Arc<Mutex<Breaker>>,
}

impl Route {
    /// A handler under the name that alerts and logs use.
    pub fn new(name: &str, handler: Arc<dyn Handler>) -> Self {
        Self { name: name.into(), handler, breaker: Arc::default() }
    }

    /// What alerts and logs call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its handler is down: events wait for it.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !self.breaker().is_closed()
    }

    /// That its handler is down, since when, and what it failed with, for a person.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let (age, failure) = {
            let breaker = self.breaker();
            let outage = breaker.outage()?;
            (outage.since.elapsed(), outage.failure.to_string())
        };
        let now = Timestamp::now();
        let since = SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok());
        // To the second: it is computed anew each time, and must stay the same.
        let since = since.unwrap_or(now).round(jiff::Unit::Second).unwrap_or(now);
        Some(format!("handler {} is down since {since}, its events wait: {failure}", self.name))
    }

    pub(crate) fn handler(&self) -> &dyn Handler {
        &*self.handler
    }

    pub(crate) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handlers of a pipeline.
#[derive(Clone)]
pub enum Routes {
    /// One for each type of event (the outbox).
    ByType(HashMap<String, Route>),
    /// One for everything (a job queue).
    All(Route),
    /// One for each target that a letter may name (the intake).
    ByTarget(HashMap<String, Route>),
}

impl Routes {
    /// The handler for this event.
    ///
    /// # Errors
    /// What becomes of an event that nobody handles.
    pub fn find(&self, event: &Event) -> Result<&Route, Failure> {
        match self {
            Self::All(route) => Ok(route),
            Self::ByType(routes) => {
                routes.get(&event.event_type).ok_or_else(|| Failure::unhandled(&event.event_type))
            }
            Self::ByTarget(routes) => routes.get(&event.aggregate_type).ok_or_else(|| {
                let message = format!(
                    "the target {} is not in the configuration any more: add it to [intake.targets]",
                    event.aggregate_type
                );
                Failure::new(Class::Unhandled, "NoTarget", message)
            }),
        }
    }

    /// Every handler.
    pub fn iter(&self) -> Box<dyn Iterator<Item = &Route> + '_> {
        match self {
            Self::ByType(routes) | Self::ByTarget(routes) => Box::new(routes.values()),
            Self::All(route) => Box::new(std::iter::once(route)),
        }
    }
}
