//! `[outbox.NAME]`: a transactional outbox with a dead-letter table.

use std::num::NonZeroU32;
use std::time::Duration;

use super::auto_redrive::AutoRedrive;
use super::context::Context;
use super::database::DatabaseUrl;
use super::handler::Handler;
use super::identifier::TableName;
use super::retry::{Backoff, BackoffDefaults};
use super::section::Section;
use super::setting::choice;

/// One outbox.
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// The name of the pipeline.
    pub name: String,
    /// Where its tables are.
    pub database: DatabaseUrl,
    /// The same database without a pooler in between, to hear of new work.
    pub listen_database: Option<DatabaseUrl>,
    /// The table that applications insert into.
    pub table: TableName,
    /// The table of its dead letters.
    pub dlq_table: TableName,
    /// The longest wait for new events where the store cannot notify.
    pub poll_interval: Duration,
    /// How many events one claim takes.
    pub batch_size: NonZeroU32,
    /// How often a failed event is retried before it is a dead letter.
    pub max_retry_count: u32,
    /// The pauses between retries.
    pub retry: Backoff,
    /// Whether events of one aggregate keep their order.
    pub ordering: Ordering,
    /// What a dead letter does to the later events of its aggregate.
    pub on_dead: OnDead,
    /// How many workers claim side by side.
    pub workers: NonZeroU32,
    /// How many handlers run at once, in all workers together.
    pub concurrency: NonZeroU32,
    /// How long a claim lasts without a heartbeat.
    pub lease: Duration,
    /// How many unresolved letters raise an alert.
    pub alert_threshold: NonZeroU32,
    /// What becomes of processed events.
    pub processed: Processed,
    /// Where the ids of events come from.
    pub ids: Ids,
    /// How long processed events are kept; for ever when not set.
    pub keep_processed: Option<Duration>,
    /// How long resolved and redriven letters are kept.
    pub keep_resolved: Option<Duration>,
    /// Which dead letters go back by themselves.
    pub auto_redrive: Vec<AutoRedrive>,
    /// How long a handler may take.
    pub handler_timeout: Duration,
    /// Handlers by event type.
    pub handlers: Vec<(String, Handler)>,
}

choice! {
    /// Whether events of one aggregate keep their order.
    Ordering {
        /// Every event for itself.
        None = "none",
        /// One after the other within an aggregate.
        Aggregate = "aggregate",
    }
}

choice! {
    /// What a dead letter does to the later events of its aggregate.
    OnDead {
        /// They wait until the letter is settled.
        Hold = "hold",
        /// They go on.
        Skip = "skip",
    }
}

choice! {
    /// What becomes of processed events.
    Processed {
        /// They stay, marked as processed.
        Keep = "keep",
        /// They are deleted.
        Delete = "delete",
    }
}

choice! {
    /// Where the ids of an application's rows come from.
    Ids {
        /// The database gives them.
        Generated = "generated",
        /// Whoever gives them, none is ever used again.
        Unique = "unique",
    }
}

/// Where ids come from, wherever they are part of an idempotency key.
pub(super) fn ids(section: &mut Section<'_>) -> Ids {
    section.get(
        "ids",
        "generated",
        "Where ids come from: the database, or `unique` when the application gives them and never uses one again (Snowflake).",
    )
}

pub(crate) const BACKOFF: BackoffDefaults = BackoffDefaults { initial: "5s", factor: "2.0", max: "5m" };

/// Those who follow a letter to its outcome have long done so by then.
const SHORTEST_KEEP: Duration = Duration::from_secs(3600);

/// How long closed letters are kept, wherever there are some.
pub(super) fn keep_resolved(section: &mut Section<'_>) -> Option<Duration> {
    let key = "keep-resolved";
    let keep: Option<Duration> = section.optional(
        key,
        "How long resolved and redriven letters are kept, an hour at least; for ever when not set.",
    );
    if keep.is_some_and(|keep| keep < SHORTEST_KEEP) {
        section.refuse(key, "is shorter than 1h: redrives that are followed need their letters for a while");
    }
    keep
}

impl OutboxConfig {
    pub(crate) fn read(name: &str, section: &mut Section<'_>, context: &mut Context) -> Option<Self> {
        section.about(
            "A transactional outbox: applications insert into `table`, handlers get the events, what \
             keeps failing moves to `dlq-table`.",
        );
        context.name(section, name);
        let handler_timeout = section.get("handler-timeout", "30s", "How long a handler may take.");
        let database = context.database(section);
        let outbox = Self {
            name: name.to_owned(),
            listen_database: context.listen_database(section, &database),
            workers: context.workers(section, &database),
            database,
            table: section.get("table", "outbox_event", "The table that applications insert into."),
            dlq_table: section.get("dlq-table", "outbox_event_dlq", "The table of the dead letters."),
            poll_interval: section.get(
                "poll-interval",
                "5s",
                "The longest wait for new events where the database cannot notify.",
            ),
            batch_size: section.get("batch-size", "50", "How many events one claim takes."),
            max_retry_count: section.get(
                "max-retry-count",
                "5",
                "How often a failed event is retried before it becomes a dead letter.",
            ),
            retry: section.table("retry", "The pauses between retries; jitter is added.", |section| {
                Backoff::read(section, &BACKOFF)
            }),
            ordering: section.get(
                "ordering",
                "none",
                "`\"aggregate\"` keeps the order of events within an aggregate.",
            ),
            on_dead: section.get(
                "on-dead",
                "hold",
                "With `ordering = \"aggregate\"`: whether events behind a dead letter wait for it.",
            ),
            concurrency: section.get(
                "concurrency",
                "16",
                "How many handlers run at once, in all workers together.",
            ),
            lease: section.get(
                "lease",
                "20s",
                "How long a claim lasts without a heartbeat; then another worker takes over.",
            ),
            alert_threshold: section.derived(
                "alert-threshold",
                context.alert_threshold,
                "`alerts.threshold`",
                "How many unresolved letters raise an alert.",
            ),
            processed: section.get("processed", "keep", "What becomes of processed events."),
            ids: ids(section),
            keep_processed: section
                .optional("keep-processed", "How long processed events are kept; for ever when not set."),
            keep_resolved: keep_resolved(section),
            auto_redrive: AutoRedrive::read_all(section),
            handler_timeout,
            handlers: section.table(
                "handlers",
                "Who handles which event type; a type without a handler goes to the dead letters at once.",
                |section| read_handlers(section, handler_timeout),
            ),
        };
        outbox.check(section, context);
        Some(outbox)
    }

    fn check(&self, section: &mut Section<'_>, context: &mut Context) {
        context.table(section, "table", &self.database, &self.table);
        context.table(section, "dlq-table", &self.database, &self.dlq_table);
        if self.processed == Processed::Delete && self.keep_processed.is_some() {
            section
                .refuse("keep-processed", "has no effect with processed = \"delete\"; remove one of the two");
        }
    }
}

fn read_handlers(section: &mut Section<'_>, timeout: Duration) -> Vec<(String, Handler)> {
    section.named_tables("TYPE", |event_type, section| {
        Some((event_type.to_owned(), Handler::read(section, timeout)?))
    })
}
