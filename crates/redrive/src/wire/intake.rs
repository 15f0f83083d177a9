//! The intake from its settings: letters that other services hand in, and the way to their targets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive::config::IntakeConfig;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::policy::Policy;
use redrive_engine::{Pace, Pipeline, Route, Routes};
use redrive_server::Gate;
use redrive_store::Letters;

use super::plant::Surroundings;
use super::{Launch, handlers, pace, rules};
use crate::retention::Retention;

pub(super) fn launch(
    config: &IntakeConfig,
    store: &Arc<Letters>,
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Launch> {
    let name = PipelineKind::Intake.name();
    let mut routes = HashMap::new();
    for (target, setting) in &config.targets {
        let handler =
            handlers::handler(name, setting, config.timeout).with_context(|| format!("targets.{target}"))?;
        routes.insert(target.clone(), Route::new(target, handler));
    }
    let policy = Policy::new(config.max_attempts.get(), pace::backoff(&config.retry)?);
    let timeouts = config.targets.iter().map(|(_, handler)| handlers::timeout(handler, config.timeout));
    let pipeline = Pipeline::new(name, PipelineKind::Intake, store.clone(), store.clone(), policy)
        .handled_by(Routes::ByTarget(routes))
        .at(Pace {
            concurrency: config.concurrency.get() as usize,
            poll_interval: Duration::from_secs(1),
            handler_timeout: pace::patience(timeouts),
            grace: surroundings.grace,
            ..Pace::default()
        })
        .alerting(Arc::clone(&surroundings.alerts));
    Ok(Launch {
        pipeline: Arc::new(pipeline),
        persister: None,
        watch: surroundings.watch(config.alert_threshold.get()),
        rules: rules::rules(&config.auto_redrive)?,
        retention: config
            .keep_resolved
            .map(|keep| Retention::of_closed(store.clone(), keep))
            .into_iter()
            .collect(),
        gate: Gate::default(),
        beside: None,
    })
}
