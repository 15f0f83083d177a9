//! An outbox from its settings.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use redrive::config::{Ids, OnDead, Ordering, OutboxConfig, Processed};
use redrive_core::dead_letter::PipelineKind;
use redrive_core::policy::Policy;
use redrive_engine::{Pace, Pipeline, Route, Routes};
use redrive_server::{Gate, OutboxDoor};
use redrive_store::{Outbox, OutboxOptions};

use super::plant::Surroundings;
use super::stores::Wired;
use super::{Launch, handlers, pace, rules};
use crate::retention::Retention;

pub(super) fn options(outbox: &OutboxConfig) -> OutboxOptions {
    OutboxOptions {
        pipeline: outbox.name.clone(),
        table: outbox.table.as_str().to_owned(),
        letters_table: outbox.dlq_table.as_str().to_owned(),
        ordering: match (outbox.ordering, outbox.on_dead) {
            (Ordering::None, _) => redrive_store::Ordering::None,
            (Ordering::Aggregate, OnDead::Hold) => redrive_store::Ordering::AggregateHold,
            (Ordering::Aggregate, OnDead::Skip) => redrive_store::Ordering::AggregateSkip,
        },
        processed: match (outbox.processed, outbox.keep_processed) {
            (Processed::Keep, None) => redrive_store::Processed::Keep,
            (Processed::Keep, Some(_)) => redrive_store::Processed::KeepForAWhile,
            (Processed::Delete, _) => redrive_store::Processed::Delete,
        },
        ids: store_ids(outbox.ids),
    }
}

pub(super) const fn store_ids(ids: Ids) -> redrive_store::Ids {
    match ids {
        Ids::Generated => redrive_store::Ids::Generated,
        Ids::Unique => redrive_store::Ids::Unique,
    }
}

pub(super) fn launch(
    wired: &Wired<'_, OutboxConfig, Outbox>,
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Launch> {
    let Wired { config, listen, store } = wired;
    // The first attempt is no retry.
    let policy = Policy::new(config.max_retry_count.saturating_add(1), pace::backoff(&config.retry)?);
    let pipeline = Pipeline::new(&config.name, PipelineKind::Outbox, store.clone(), store.clone(), policy)
        .handled_by(routes(config)?)
        .at(pace(config, surroundings))
        .alerting(Arc::clone(&surroundings.alerts))
        .listening_to(listen.as_ref());
    Ok(Launch {
        pipeline: Arc::new(pipeline),
        persister: None,
        watch: surroundings.watch(config.alert_threshold.get()),
        rules: rules::rules(&config.auto_redrive)?,
        retention: retention(config, store),
        gate: Gate::default(),
        beside: None,
    })
}

pub(super) fn door(wired: &Wired<'_, OutboxConfig, Outbox>, launch: &Launch) -> OutboxDoor {
    OutboxDoor::new(Arc::clone(&launch.pipeline), Arc::clone(&wired.store), launch.gate.clone())
}

fn retention(config: &OutboxConfig, store: &Arc<Outbox>) -> Vec<Retention> {
    let processed = |keep| Retention::of_processed(&config.name, Arc::clone(store), keep);
    let closed = |keep| Retention::of_closed(store.clone(), keep);
    config.keep_processed.map(processed).into_iter().chain(config.keep_resolved.map(closed)).collect()
}

fn routes(config: &OutboxConfig) -> anyhow::Result<Routes> {
    if config.handlers.is_empty() {
        tracing::warn!(pipeline = %config.name, "no handlers: every event becomes a dead letter at once");
    }
    let mut routes = HashMap::new();
    for (event_type, setting) in &config.handlers {
        let handler = handlers::handler(&config.name, setting, config.handler_timeout)
            .with_context(|| format!("handlers.{event_type}"))?;
        routes.insert(event_type.clone(), Route::new(event_type, handler));
    }
    Ok(Routes::ByType(routes))
}

fn pace(config: &OutboxConfig, surroundings: &Surroundings<'_>) -> Pace {
    let (workers, concurrency) = pace::shares(config.workers, config.concurrency);
    let timeouts =
        config.handlers.iter().map(|(_, handler)| handlers::timeout(handler, config.handler_timeout));
    Pace {
        batch_size: config.batch_size.get(),
        concurrency,
        workers,
        lease: config.lease,
        poll_interval: config.poll_interval,
        handler_timeout: pace::patience(timeouts),
        grace: surroundings.grace,
    }
}
