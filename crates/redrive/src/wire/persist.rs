//! A persist pipeline from its settings.

use std::sync::Arc;

use anyhow::Context as _;
use redrive::config::{self, PersistConfig};
use redrive_core::backoff::Jitter;
use redrive_engine::persist::{Durability, Schedule};
use redrive_engine::{PersistOptions, Persister};
use redrive_server::{Gate, PersistDoor};
use redrive_spool::{Journal, JournalOptions};
use redrive_store::{FailedEventsOptions, Record, TargetOptions};

use super::part::Persisted;
use super::plant::Surroundings;
use super::stores::Wired;
use super::{Launch, pace};

pub(super) fn target_options(persist: &PersistConfig) -> TargetOptions {
    TargetOptions {
        table: persist.table.as_str().to_owned(),
        key_column: persist.columns.key.as_str().to_owned(),
        payload_column: persist.columns.payload.as_ref().map(|column| column.as_str().to_owned()),
        values: persist.values.clone(),
    }
}

pub(super) fn failed_options(persist: &PersistConfig) -> FailedEventsOptions {
    FailedEventsOptions {
        pipeline: persist.name.clone(),
        table: persist.failed_table.as_str().to_owned(),
        key_column: persist.failed_columns.key.as_str().to_owned(),
        payload_column: persist.failed_columns.payload.as_str().to_owned(),
    }
}

pub(super) fn launch(
    wired: &Wired<'_, PersistConfig, Persisted>,
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<(Launch, PersistDoor)> {
    let Wired { config, store, .. } = wired;
    let durability = match config.durability {
        config::Durability::Memory => Durability::Memory,
        config::Durability::Journal => Durability::Journal,
    };
    let persister = Persister::<Record>::builder(store.target.clone(), store.failed.clone())
        .alerting(Arc::clone(&surroundings.alerts))
        .journaling(journal(config)?, durability)
        .build(options(config, surroundings)?);
    let gate = Gate::default();
    if durability == Durability::Journal {
        // Its journal takes events before the database answers.
        gate.open();
    }
    let launch = Launch {
        pipeline: Arc::clone(persister.pipeline()),
        watch: surroundings.watch(config.alert_threshold.get()),
        rules: Vec::new(),
        retention: Vec::new(),
        gate: gate.clone(),
        persister: Some(persister.clone()),
        beside: None,
    };
    Ok((launch, PersistDoor::new(persister, gate)))
}

fn journal(config: &PersistConfig) -> anyhow::Result<Journal> {
    let options = JournalOptions { max_size: config.journal.max_size.bytes(), ..JournalOptions::default() };
    let journal = Journal::open(&config.journal.dir, options).context("its journal cannot be used")?;
    let events = journal.recovery().records;
    if events > 0 {
        tracing::info!(pipeline = %config.name, events, "events of the last run are in the journal");
    }
    Ok(journal)
}

fn options(config: &PersistConfig, surroundings: &Surroundings<'_>) -> anyhow::Result<PersistOptions> {
    Ok(PersistOptions {
        batch_size: config.batch_size.get() as usize,
        queue: config.queue.max_events.get() as usize,
        queue_bytes: config.queue.max_size.as_len(),
        retries: config.retry.attempts,
        backoff: pace::backoff(&config.retry.backoff)?.with_jitter(Jitter::None),
        schedule: Schedule {
            initial_delay: config.dlq.initial_delay,
            fixed_delay: config.dlq.fixed_delay,
            max_retry_count: config.dlq.max_retry_count.get(),
            cleanup: config.dlq.cleanup_cron.schedule().clone(),
            keep_resolved: config.dlq.keep_resolved,
            ..Schedule::default()
        },
        metrics_prefix: config.metrics_prefix.clone(),
        grace: surroundings.grace,
    })
}
