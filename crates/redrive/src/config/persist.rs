//! `[persist.NAME]`: write-behind persistence into a table.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use redrive_core::column::Column;
use redrive_engine::persist::Cron as Schedule;
use redrive_store::FailedEventsOptions;

use super::column;
use super::context::Context;
use super::database::DatabaseUrl;
use super::document::Node;
use super::environment::Environment;
use super::identifier::{ColumnName, TableName};
use super::retry::{BackoffDefaults, Retry};
use super::section::Section;
use super::setting::{Setting, Wrong, choice, text};
use super::size::ByteSize;

/// One write-behind pipeline.
#[derive(Debug, Clone)]
pub struct PersistConfig {
    /// The name of the pipeline.
    pub name: String,
    /// Where its tables are.
    pub database: DatabaseUrl,
    /// The table that events are saved in.
    pub table: TableName,
    /// The columns of key and payload.
    pub columns: PersistColumns,
    /// Further columns, and which part of the payload goes into which.
    pub values: Vec<Column>,
    /// The table of events that could not be saved.
    pub failed_table: TableName,
    /// The columns of key and payload there.
    pub failed_columns: FailedColumns,
    /// When the sender is answered.
    pub durability: Durability,
    /// The journal on disk.
    pub journal: PersistJournal,
    /// How many events are saved at once.
    pub batch_size: NonZeroU32,
    /// What waits in memory.
    pub queue: PersistQueue,
    /// The quick retries of a save.
    pub retry: Retry,
    /// The slow retries of failed events.
    pub dlq: PersistDlq,
    /// How many failed events raise an alert.
    pub alert_threshold: NonZeroU32,
    /// What the names of its metrics start with.
    pub metrics_prefix: String,
}

/// The journal on disk: in front of everything, or below the failed events.
#[derive(Debug, Clone)]
pub struct PersistJournal {
    /// Its folder.
    pub dir: PathBuf,
    /// How large it may get.
    pub max_size: ByteSize,
}

/// What waits in memory.
#[derive(Debug, Clone)]
pub struct PersistQueue {
    /// So many events at most.
    pub max_events: NonZeroU32,
    /// And so many bytes of them.
    pub max_size: ByteSize,
}

/// The columns of key and payload in the target table.
#[derive(Debug, Clone)]
pub struct PersistColumns {
    /// The key.
    pub key: ColumnName,
    /// The payload; none where only parts of it are kept.
    pub payload: Option<ColumnName>,
}

/// The columns of key and payload in the table of failed events.
#[derive(Debug, Clone)]
pub struct FailedColumns {
    /// The key.
    pub key: ColumnName,
    /// The payload.
    pub payload: ColumnName,
}

/// The slow retries of failed events.
#[derive(Debug, Clone)]
pub struct PersistDlq {
    /// From start to the first run.
    pub initial_delay: Duration,
    /// From the end of a run to the next.
    pub fixed_delay: Duration,
    /// How many failed reprocessings make an event `FAILED`.
    pub max_retry_count: NonZeroU32,
    /// When resolved events are cleaned up.
    pub cleanup_cron: Cron,
    /// How long resolved events are kept.
    pub keep_resolved: Duration,
}

choice! {
    /// When a sender is answered.
    Durability {
        /// After the event is synced to the journal on disk.
        Journal = "journal",
        /// At once; a killed process loses what it had in memory.
        Memory = "memory",
    }
}

/// A cron expression in Quartz form, seconds first, in UTC.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    schedule: Schedule,
}

impl Cron {
    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it means.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

impl Setting for Cron {
    fn kind() -> String {
        "cron".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "six cron fields (second minute hour day month weekday), such as \"0 0 0 * * ?\" for every midnight";
        let text = text(node, EXPECTED)?;
        let schedule = Schedule::parse(text).map_err(|_| Wrong::expected(EXPECTED))?;
        Ok(Self { text: text.to_owned(), schedule })
    }
}

const BACKOFF: BackoffDefaults = BackoffDefaults { initial: "100ms", factor: "2.0", max: "10s" };

impl PersistConfig {
    pub(crate) fn read(name: &str, section: &mut Section<'_>, context: &mut Context) -> Option<Self> {
        section.about(
            "Write-behind persistence: events are saved into `table` in batches; what cannot be saved \
             waits in `failed-table`.",
        );
        context.name(section, name);
        let database = context.database(section);
        let table = TableName::read_own(
            section,
            name,
            "",
            "`NAME`, with `-` as `_`",
            "The table that events are saved in.",
        );
        let has_values = section.has("values");
        let columns = section.table("columns", "The columns of key and payload.", |section| {
            PersistColumns::read(section, has_values)
        });
        let values = section.table(
            "values",
            "Further columns of your own table, which get parts of the payload. The payload is JSON then.",
            |section| columns.read_values(section),
        );
        let persist = Self {
            name: name.to_owned(),
            database,
            table,
            values,
            failed_columns: section.table(
                "failed-columns",
                "The columns of key and payload in `failed-table`.",
                |section| FailedColumns::read(section, &columns),
            ),
            columns,
            failed_table: section.get(
                "failed-table",
                "failed_events",
                "The table of events that could not be saved.",
            ),
            durability: section.get(
                "durability",
                "journal",
                "`\"journal\"` answers the sender once the event is on disk; `\"memory\"` at once.",
            ),
            journal: section.table(
                "journal",
                "The journal on disk: before everything, or below the failed events.",
                |section| PersistJournal::read(section, context.data_dir.join("persist").join(name)),
            ),
            batch_size: section.get("batch-size", "1000", "How many events are saved at once at most."),
            queue: section.table(
                "queue",
                "What waits in memory; more is answered with 503.",
                PersistQueue::read,
            ),
            retry: section.table("retry", "The quick retries of a save.", |section| {
                Retry::read(section, "3", &BACKOFF)
            }),
            dlq: section.table("dlq", "The slow retries of failed events.", PersistDlq::read),
            alert_threshold: section.derived(
                "alert-threshold",
                context.alert_threshold,
                "`alerts.threshold`",
                "How many failed events raise an alert.",
            ),
            metrics_prefix: section.get(
                "metrics-prefix",
                "url_persistence",
                "What the names of its metrics start with.",
            ),
        };
        persist.check(section, context);
        Some(persist)
    }

    fn check(&self, section: &mut Section<'_>, context: &mut Context) {
        if self.table == self.failed_table {
            section.refuse("failed-table", "found the same table as `table`, expected another one");
        }
        context.table(section, "failed-table", &self.database, &self.failed_table);
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = self.metrics_prefix.starts_with(|first: char| first.is_ascii_lowercase());
        if !starts_well || !self.metrics_prefix.bytes().all(letter) {
            section.refuse(
                "metrics-prefix",
                "found a prefix that no metric can have, expected a-z, 0-9 and _, with a letter first",
            );
        }
    }
}

impl PersistJournal {
    fn read(section: &mut Section<'_>, default: PathBuf) -> Self {
        Self {
            dir: section.derived("dir", default, "`persist/NAME` in `server.data-dir`", "Its folder."),
            max_size: section.get("max-size", "1GiB", "How large it may get; then events are refused."),
        }
    }
}

impl PersistQueue {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            max_events: section.get("max-events", "10000", "So many events at most."),
            max_size: section.get("max-size", "64MiB", "And so many bytes of them."),
        }
    }
}

const PAYLOAD: &str = "long_url";

impl PersistColumns {
    fn read(section: &mut Section<'_>, has_values: bool) -> Self {
        let key = section.get("key", "short_url", "The column of the key.");
        let payload = section.get(
            "payload",
            PAYLOAD,
            "The column of the payload. With `values` there is none unless it is written here.",
        );
        let payload = (!has_values || section.has("payload")).then_some(payload);
        if payload.as_ref() == Some(&key) {
            section.refuse("payload", "found the same column as `key`, expected another one");
        }
        Self { key, payload }
    }

    fn read_values(&self, section: &mut Section<'_>) -> Vec<Column> {
        let values = column::read(section, "A path into the payload: `$.customer.id`, or `$` for the whole.");
        for value in &values {
            let is = |column: &ColumnName| column.as_str() == value.name;
            if is(&self.key) || self.payload.as_ref().is_some_and(is) {
                section.refuse(&value.name, "found a column of `columns`, expected another one");
            }
        }
        values
    }
}

impl FailedColumns {
    fn read(section: &mut Section<'_>, columns: &PersistColumns) -> Self {
        let payload = columns.payload.clone().or_else(|| ColumnName::new(PAYLOAD));
        let failed = Self {
            key: section.derived("key", columns.key.clone(), "`columns.key`", "The column of the key."),
            payload: section.derived(
                "payload",
                payload.unwrap_or_else(|| columns.key.clone()),
                "`columns.payload`, or `\"long_url\"`",
                "The column of the payload.",
            ),
        };
        for (key, column) in [("key", &failed.key), ("payload", &failed.payload)] {
            if FailedEventsOptions::is_reserved(column.as_str()) {
                let name = column.as_str();
                section.refuse(
                    key,
                    format!("found `{name}`, which `failed-table` has for itself, expected another name, such as \"event_{name}\""),
                );
            }
        }
        // Where both are those of `columns`, it was said there.
        let is_said = columns.payload.as_ref() == Some(&columns.key);
        if failed.key == failed.payload && !is_said {
            section.refuse("payload", "found the same column as `key`, expected another one");
        }
        failed
    }
}

impl PersistDlq {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            initial_delay: section.get("initial-delay", "60s", "From start to the first run."),
            fixed_delay: section.get("fixed-delay", "5m", "From the end of a run to the next."),
            max_retry_count: section.get(
                "max-retry-count",
                "3",
                "After so many failed runs an event is `FAILED` and needs a person.",
            ),
            cleanup_cron: section.get(
                "cleanup-cron",
                "0 0 0 * * ?",
                "When resolved events are cleaned up, in Quartz form (seconds first), in UTC.",
            ),
            keep_resolved: section.get("keep-resolved", "7d", "How long resolved events are kept."),
        }
    }
}
