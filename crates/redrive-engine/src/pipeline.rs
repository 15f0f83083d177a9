//! A pipeline that works: a store of work, the handlers, and how failures are judged.

use std::sync::Arc;

use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind};
use redrive_core::policy::Policy;
use redrive_store::{Announcements, Database, WorkStore};

use crate::aftermath::Aftermath;
use crate::alerts::{AlertService, Silence};
use crate::bell::Bell;
use crate::health::Health;
use crate::pace::Pace;
use crate::routes::Routes;
use crate::switch::Switch;
use crate::watch::Nudge;
use crate::witness::Labels;

/// A pipeline that works.
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PipelineKind,
    /// Where its work is.
    pub store: Arc<dyn WorkStore>,
    /// Where its dead letters are.
    pub letters: Arc<dyn DeadLetterQueue>,
    /// Who handles its events; nobody when other programs claim them over HTTP.
    pub routes: Option<Routes>,
    /// How failures are judged.
    pub policy: Policy,
    /// How it works.
    pub pace: Pace,
    /// Who is told.
    pub alerts: Arc<dyn AlertService>,
    /// Where its database announces new work; its workers listen there while an engine runs it.
    pub announcements: Option<Announcements>,
    /// Where its workers are woken.
    pub bell: Bell,
    /// Whether it claims.
    pub switch: Switch,
    /// Where its watch is told that something died.
    pub watch: Nudge,
    /// Whether its store answers.
    pub health: Health,
    /// What its store's last outage left behind.
    pub(crate) aftermath: Aftermath,
    /// Which types its metrics name.
    pub(crate) labels: Labels,
}

impl Pipeline {
    /// A pipeline that nobody works on yet, with the founding pace, and alerts that nobody hears.
    #[must_use]
    pub fn new(
        name: &str,
        kind: PipelineKind,
        store: Arc<dyn WorkStore>,
        letters: Arc<dyn DeadLetterQueue>,
        policy: Policy,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            announcements: store.announcements(),
            store,
            letters,
            routes: None,
            policy,
            pace: Pace::default(),
            alerts: Arc::new(Silence),
            bell: Bell::default(),
            switch: Switch::default(),
            watch: Nudge::default(),
            health: Health::default(),
            aftermath: Aftermath::default(),
            labels: Labels::default(),
        }
    }

    /// The same pipeline with these handlers.
    #[must_use]
    pub fn handled_by(mut self, routes: Routes) -> Self {
        self.routes = Some(routes);
        self
    }

    /// The same pipeline at this pace.
    #[must_use]
    pub fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The same pipeline with somebody who is told.
    #[must_use]
    pub fn alerting(mut self, alerts: Arc<dyn AlertService>) -> Self {
        self.alerts = alerts;
        self
    }

    /// The same pipeline, which claims as this switch says: others may follow it, too.
    #[must_use]
    pub fn switched_by(mut self, switch: Switch) -> Self {
        self.switch = switch;
        self
    }

    /// The same pipeline, listening for new work in this database: its own, past a pooler.
    #[must_use]
    pub fn listening_to(mut self, database: Option<&Database>) -> Self {
        if let (Some(announcements), Some(database)) = (&mut self.announcements, database) {
            announcements.database = database.clone();
        }
        self
    }
}
