//! An ingest pipeline from its settings.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive::config::{Durability, IngestConfig, OnFull};
use redrive_engine::alerts::AlertService;
use redrive_engine::ingest::{Ingest, IngestOptions, WhenFull};
use redrive_spool::spool::{self, instance};
use redrive_spool::target::Patience;
use redrive_spool::{JournalOptions, SpoolOptions, Target};

/// A batch is cut at so many bytes, however few events that is.
const MAX_BATCH: usize = 8 << 20;

/// Opens its spool and its journal.
pub(super) fn open(
    config: &IngestConfig,
    alerts: Arc<dyn AlertService>,
    grace: Duration,
) -> anyhow::Result<Arc<Ingest>> {
    let target = target(config)?;
    Ingest::open(&config.name, options(config, grace), target, alerts).context("its folders cannot be used")
}

/// The store that its batches go to; nothing is sent yet.
pub(crate) fn target(config: &IngestConfig) -> anyhow::Result<Target> {
    Target::open_with(&config.store, &config.raw_prefix, &config.dlq_prefix, &patience(config))
        .context("store")
}

fn patience(config: &IngestConfig) -> Patience {
    let timeout = config.upload.timeout;
    Patience {
        retries: config.upload.retries as usize,
        request: timeout,
        give_up_after: timeout,
        ..Patience::default()
    }
}

fn options(config: &IngestConfig, grace: Duration) -> IngestOptions {
    let journal = JournalOptions { max_size: config.journal.max_size.bytes(), ..JournalOptions::default() };
    IngestOptions {
        max_events: config.batch.max_events.get().into(),
        max_bytes: MAX_BATCH.min(config.queue.as_len() / 4),
        max_delay: config.batch.max_delay,
        queue: config.queue.as_len(),
        uploads: config.upload.concurrency.get() as usize,
        spool: config.spool.dir.clone(),
        spool_options: spool_options(config),
        on_full: match config.spool.on_full {
            OnFull::EvictOldest => WhenFull::EvictOldest,
            OnFull::Reject => WhenFull::Reject,
            OnFull::Pause => WhenFull::Pause,
        },
        journal: (config.durability == Durability::Journal).then(|| (config.journal.dir.clone(), journal)),
        recovery_interval: config.recovery.interval,
        recovery_files: config.recovery.files.get(),
        recovery_share: config.recovery.batches_per_file.get(),
        grace,
    }
}

fn spool_options(config: &IngestConfig) -> SpoolOptions {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    SpoolOptions {
        instance: instance(&host),
        max_age: config.spool.max_age,
        max_size: config.spool.max_size.bytes(),
        on_full: match config.spool.on_full {
            OnFull::EvictOldest => spool::OnFull::EvictOldest,
            OnFull::Reject | OnFull::Pause => spool::OnFull::Refuse,
        },
        scan: config.spool.scan.get() as usize,
    }
}
