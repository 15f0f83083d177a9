//! `[ingest.NAME]`: HTTP events into object storage, with a spool on disk.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use redrive_spool::target::{StoreOptions, check_prefix};

use super::address::StoreUrl;
use super::context::Context;
use super::persist::Durability;
use super::section::Section;
use super::setting::choice;
use super::size::ByteSize;
use super::store;

/// One ingest pipeline.
#[derive(Debug, Clone)]
pub struct IngestConfig {
    /// The name of the pipeline.
    pub name: String,
    /// Where batches are uploaded to.
    pub store: StoreOptions,
    /// The prefix of good batches.
    pub raw_prefix: String,
    /// The prefix of damaged files.
    pub dlq_prefix: String,
    /// When the sender is answered.
    pub durability: Durability,
    /// When a batch is full.
    pub batch: IngestBatch,
    /// How many bytes of events may be in memory.
    pub queue: ByteSize,
    /// How batches are uploaded.
    pub upload: UploadConfig,
    /// Where events are kept before the sender is answered.
    pub journal: JournalConfig,
    /// What happens to batches that could not be uploaded.
    pub spool: SpoolConfig,
    /// How they are uploaded later.
    pub recovery: RecoveryConfig,
}

/// How batches are uploaded.
#[derive(Debug, Clone)]
pub struct UploadConfig {
    /// How often a failed upload is tried again before the batch goes to disk.
    pub retries: u32,
    /// How long one request may take.
    pub timeout: Duration,
    /// How many batches at a time.
    pub concurrency: NonZeroU32,
}

/// The journal of accepted events.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// The folder.
    pub dir: PathBuf,
    /// How large it may get.
    pub max_size: ByteSize,
}

/// How files are uploaded later.
#[derive(Debug, Clone)]
pub struct RecoveryConfig {
    /// How often a file is taken while nothing else is uploaded.
    pub interval: Duration,
    /// How many each time.
    pub files: NonZeroU32,
    /// Under load, one file beside so many live batches.
    pub batches_per_file: NonZeroU32,
}

/// When a batch is full.
#[derive(Debug, Clone)]
pub struct IngestBatch {
    /// After so many events.
    pub max_events: NonZeroU32,
    /// Or after so long.
    pub max_delay: Duration,
}

/// The folder of batches that could not be uploaded.
#[derive(Debug, Clone)]
pub struct SpoolConfig {
    /// The folder.
    pub dir: PathBuf,
    /// How old a file may get.
    pub max_age: Duration,
    /// How large the folder may get.
    pub max_size: ByteSize,
    /// What happens when it is full.
    pub on_full: OnFull,
    /// How many entries of the folder are read at a time, beside a step of recovery.
    pub scan: NonZeroU32,
}

choice! {
    /// What happens when the spool is full.
    OnFull {
        /// While the store is away the oldest files are deleted, counted and alerted.
        EvictOldest = "evict-oldest",
        /// Senders get 503; nothing is lost.
        Reject = "reject",
        /// Uploads wait; nothing is lost.
        Pause = "pause",
    }
}

impl IngestConfig {
    pub(crate) fn read(name: &str, section: &mut Section<'_>, context: &mut Context) -> Option<Self> {
        section.about(
            "HTTP events into object storage, in gzip JSONL batches; what cannot be uploaded waits in a \
             spool on disk.",
        );
        context.name(section, name);
        let ingest = Self {
            name: name.to_owned(),
            store: store::read(
                section,
                StoreUrl::of_folder(&context.data_dir.join("ingest").join(name)),
            ),
            raw_prefix: section.get(
                "raw-prefix",
                "RAW",
                "The prefix of good batches. It may have partitions by the time at which a batch was cut, in UTC: `{date}` \
                 (such as `2026-11-18`), `{hour}`, `{year}`, `{month}`, `{day}`, as in `RAW/dt={date}/hour={hour}`.",
            ),
            dlq_prefix: section.get(
                "dlq-prefix",
                "RAW_DLQ",
                "The prefix of damaged files, which may have the same partitions.",
            ),
            durability: section.get(
                "durability",
                "journal",
                "`\"journal\"` answers the sender once the events are on disk; `\"memory\"` at once.",
            ),
            batch: section.table("batch", "When a batch is full.", IngestBatch::read),
            queue: section.get(
                "queue",
                "32MiB",
                "How many bytes of events may be in memory; then senders get 503.",
            ),
            upload: section.table("upload", "How batches are uploaded.", UploadConfig::read),
            journal: section.table(
                "journal",
                "Where events are kept before the sender is answered.",
                |section| JournalConfig::read(section, context.data_dir.join("journal").join(name)),
            ),
            recovery: section.table(
                "recovery",
                "How batches that waited are uploaded.",
                RecoveryConfig::read,
            ),
            spool: section.table("spool", "Batches that could not be uploaded.", |section| {
                SpoolConfig::read(section, context.data_dir.join("spool").join(name))
            }),
        };
        if ingest.raw_prefix == ingest.dlq_prefix {
            section.refuse("dlq-prefix", "found the same prefix as `raw-prefix`, expected another one");
        }
        for (name, prefix) in [("raw-prefix", &ingest.raw_prefix), ("dlq-prefix", &ingest.dlq_prefix)] {
            if let Err(error) = check_prefix(prefix) {
                section.refuse(name, error.to_string());
            }
        }
        Some(ingest)
    }
}

impl IngestBatch {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            max_events: section.get("max-events", "5000", "After so many events."),
            max_delay: section.get("max-delay", "1s", "Or after so long."),
        }
    }
}

impl UploadConfig {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            retries: section.get(
                "retries",
                "3",
                "How often a failed upload is tried again before it goes to disk.",
            ),
            timeout: section.get("timeout", "30s", "How long one request may take."),
            concurrency: section.get("concurrency", "4", "How many batches are uploaded at a time."),
        }
    }
}

impl JournalConfig {
    fn read(section: &mut Section<'_>, dir: PathBuf) -> Self {
        Self {
            dir: section.derived("dir", dir, "`DATA-DIR/journal/NAME`", "The folder."),
            max_size: section.get("max-size", "1GiB", "How large it may get; then senders get 503."),
        }
    }
}

impl RecoveryConfig {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            interval: section.get(
                "interval",
                "100ms",
                "How often a file is taken while nothing else is uploaded.",
            ),
            files: section.get("files", "1", "How many each time: more make up for a long outage sooner."),
            batches_per_file: section.get(
                "batches-per-file",
                "4",
                "Under load, one file is uploaded beside so many new batches: more often the nearer the oldest file \
                 is to `spool.max-age`, and one after another while the spool has no room.",
            ),
        }
    }
}

impl SpoolConfig {
    fn read(section: &mut Section<'_>, dir: PathBuf) -> Self {
        Self {
            dir: section.derived("dir", dir, "`DATA-DIR/spool/NAME`", "The folder."),
            max_age: section.get("max-age", "72h", "Older files are deleted, counted and alerted, once the store was asked in vain to take them."),
            max_size: section.get("max-size", "1GiB", "How large the folder may get."),
            on_full: section.get(
                "on-full",
                "evict-oldest",
                "`\"evict-oldest\"` deletes the oldest files while the store is away, and answers 503 while it is not; \
                 `\"reject\"` answers 503, `\"pause\"` waits.",
            ),
            scan: section.get(
                "scan",
                "1000",
                "How many entries of the folder are read at a time, beside a step of recovery.",
            ),
        }
    }
}
