//! `[jobs.NAME]`: a job queue in one table.

use std::num::NonZeroU32;
use std::time::Duration;

use super::auto_redrive::AutoRedrive;
use super::context::Context;
use super::database::DatabaseUrl;
use super::handler::Handler;
use super::identifier::{ColumnName, TableName};
use super::outbox::{BACKOFF, Ids, Processed, ids, keep_resolved};
use super::retry::Backoff;
use super::section::Section;

/// One job queue.
#[derive(Debug, Clone)]
pub struct JobsConfig {
    /// The name of the pipeline.
    pub name: String,
    /// Where its table is.
    pub database: DatabaseUrl,
    /// The same database without a pooler in between, to hear of new work.
    pub listen_database: Option<DatabaseUrl>,
    /// The table of the jobs; dead letters stay in it.
    pub table: TableName,
    /// The column of the subject key.
    pub subject_column: ColumnName,
    /// How many attempts a job has.
    pub max_retries: u32,
    /// How long a handler may take.
    pub timeout: Duration,
    /// How many workers claim side by side.
    pub workers: NonZeroU32,
    /// How many jobs run at once, in all workers together.
    pub concurrency: NonZeroU32,
    /// How many jobs one claim takes.
    pub batch_size: NonZeroU32,
    /// The longest wait for new jobs where the store cannot notify.
    pub poll_interval: Duration,
    /// The pauses between attempts.
    pub retry: Backoff,
    /// How long a claim lasts without a heartbeat.
    pub lease: Duration,
    /// What becomes of completed jobs.
    pub completed: Processed,
    /// Where the ids of jobs come from.
    pub ids: Ids,
    /// How long resolved letters are kept.
    pub keep_resolved: Option<Duration>,
    /// How many dead letters raise an alert.
    pub alert_threshold: NonZeroU32,
    /// Which dead letters go back by themselves.
    pub auto_redrive: Vec<AutoRedrive>,
    /// Who does the jobs; none: workers claim them over HTTP.
    pub handler: Option<Handler>,
}

impl JobsConfig {
    pub(crate) fn read(name: &str, section: &mut Section<'_>, context: &mut Context) -> Option<Self> {
        section.about(
            "A job queue in one table: a job that keeps failing stays in it with the status `dead_letter`.",
        );
        context.name(section, name);
        let timeout = section.get("timeout", "60s", "How long a handler may take; longer is a failure.");
        let database = context.database(section);
        let jobs = Self {
            name: name.to_owned(),
            listen_database: context.listen_database(section, &database),
            workers: context.workers(section, &database),
            database,
            table: TableName::read_own(
                section,
                name,
                "_job_queue",
                "`NAME_job_queue`, with `-` as `_`",
                "The table of the jobs.",
            ),
            subject_column: section.get(
                "subject-column",
                "article_id",
                "The column that names what a job is about.",
            ),
            max_retries: section.get(
                "max-retries",
                "3",
                "How many attempts a job has; enqueueing can say otherwise.",
            ),
            timeout,
            concurrency: section.get(
                "concurrency",
                "4",
                "How many jobs run at once, in all workers together.",
            ),
            batch_size: section.get("batch-size", "50", "How many jobs one claim takes at most."),
            poll_interval: section.get(
                "poll-interval",
                "5s",
                "The longest wait for new jobs where the database cannot notify.",
            ),
            retry: section.table("retry", "The pauses between attempts; jitter is added.", |section| {
                Backoff::read(section, &BACKOFF)
            }),
            lease: section.get(
                "lease",
                "20s",
                "How long a claim lasts without a heartbeat; then another worker takes over.",
            ),
            completed: section.get("completed", "keep", "What becomes of completed jobs."),
            ids: ids(section),
            keep_resolved: keep_resolved(section),
            alert_threshold: section.derived(
                "alert-threshold",
                context.alert_threshold,
                "`alerts.threshold`",
                "How many dead letters raise an alert.",
            ),
            auto_redrive: AutoRedrive::read_all(section),
            handler: section.optional_table(
                "handler",
                "Who does the jobs; without one, workers claim them over HTTP.",
                |section| Handler::read(section, timeout),
            ),
        };
        context.table(section, "table", &jobs.database, &jobs.table);
        Some(jobs)
    }
}
