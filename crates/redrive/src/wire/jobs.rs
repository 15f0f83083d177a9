//! A job queue from its settings.

use std::sync::Arc;

use anyhow::Context as _;
use redrive::config::{JobsConfig, Processed};
use redrive_core::dead_letter::PipelineKind;
use redrive_core::policy::Policy;
use redrive_engine::{Pace, Pipeline, Route, Routes};
use redrive_server::{Gate, JobsDoor};
use redrive_store::{Completed, Jobs, JobsOptions};

use super::plant::Surroundings;
use super::stores::Wired;
use super::{Launch, handlers, pace, rules};
use crate::retention::Retention;

pub(super) fn options(jobs: &JobsConfig) -> JobsOptions {
    JobsOptions {
        pipeline: jobs.name.clone(),
        table: jobs.table.as_str().to_owned(),
        subject_column: jobs.subject_column.as_str().to_owned(),
        max_retries: jobs.max_retries,
        completed: match jobs.completed {
            Processed::Keep => Completed::Keep,
            Processed::Delete => Completed::Delete,
        },
        ids: super::outbox::store_ids(jobs.ids),
    }
}

pub(super) fn launch(
    wired: &Wired<'_, JobsConfig, Jobs>,
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Launch> {
    let Wired { config, listen, store } = wired;
    let policy = Policy::new(config.max_retries, pace::backoff(&config.retry)?);
    let mut pipeline = Pipeline::new(&config.name, PipelineKind::Jobs, store.clone(), store.clone(), policy)
        .at(pace(config, surroundings))
        .alerting(Arc::clone(&surroundings.alerts))
        .listening_to(listen.as_ref());
    if let Some(setting) = &config.handler {
        let handler = handlers::handler(&config.name, setting, config.timeout).context("handler")?;
        pipeline = pipeline.handled_by(Routes::All(Route::new(&config.name, handler)));
    }
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

pub(super) fn door(wired: &Wired<'_, JobsConfig, Jobs>, launch: &Launch) -> JobsDoor {
    JobsDoor::new(Arc::clone(&launch.pipeline), Arc::clone(&wired.store), launch.gate.clone())
}

fn pace(config: &JobsConfig, surroundings: &Surroundings<'_>) -> Pace {
    let (workers, concurrency) = pace::shares(config.workers, config.concurrency);
    let timeout = config.handler.as_ref().map(|handler| handlers::timeout(handler, config.timeout));
    Pace {
        // Jobs may be long: one that waits in a busy worker's hand could be running somewhere else.
        batch_size: config.batch_size.get().min(u32::try_from(concurrency).unwrap_or(u32::MAX)),
        concurrency,
        workers,
        lease: config.lease,
        poll_interval: config.poll_interval,
        handler_timeout: pace::patience(timeout),
        grace: surroundings.grace,
    }
}
