//! An outbox or a job queue: which tables, and how they are filled.

use std::sync::Arc;

use bench_harness::events::{PAYLOAD, fill_jobs, fill_postgres};
use bench_harness::{Hand, Kind, Scratch, Stage, tidy_postgres};
use redrive_core::dead_letter::{DeadLetterQueue, PipelineKind};
use redrive_store::{Completed, Database, Jobs, JobsOptions, Outbox, OutboxOptions, Processed, WorkStore};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An outbox.
    Outbox,
    /// A job queue.
    Jobs,
}

/// The tables of one pipeline.
pub(crate) struct Tables {
    pub(crate) subject: Subject,
    pub(crate) table: String,
    pub(crate) store: Arc<dyn WorkStore>,
    pub(crate) letters: Arc<dyn DeadLetterQueue>,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Jobs => "jobs",
        }
    }

    /// The table of the raw loop that does the same.
    pub(crate) fn raw(self) -> Kind {
        match self {
            Self::Outbox => Kind::Outbox,
            Self::Jobs => Kind::Jobs,
        }
    }

    pub(crate) fn kind(self) -> PipelineKind {
        match self {
            Self::Outbox => PipelineKind::Outbox,
            Self::Jobs => PipelineKind::Jobs,
        }
    }

    /// Makes the tables of a pipeline.
    pub(crate) async fn tables(
        self,
        scratch: &Scratch,
        table: &str,
        processed: Processed,
    ) -> anyhow::Result<Tables> {
        let database = Database::connect(&scratch.url()?).await?;
        let (store, letters): (Arc<dyn WorkStore>, Arc<dyn DeadLetterQueue>) = match self {
            Self::Outbox => {
                let options = OutboxOptions {
                    table: table.to_owned(),
                    letters_table: format!("{table}_dlq"),
                    processed,
                    ..OutboxOptions::new("bench")
                };
                let outbox = Arc::new(Outbox::new(database, options)?);
                outbox.migrate().await?;
                (outbox.clone(), outbox.clone())
            }
            Self::Jobs => {
                let completed = match processed {
                    Processed::Delete => Completed::Delete,
                    Processed::Keep | Processed::KeepForAWhile => Completed::Keep,
                };
                let options = JobsOptions { table: table.to_owned(), completed, ..JobsOptions::new("bench") };
                let jobs = Arc::new(Jobs::new(database, options)?);
                jobs.migrate().await?;
                (jobs.clone(), jobs.clone())
            }
        };
        // Autovacuum comes once a minute: it would hit one contestant and spare the other.
        let mut hand = Hand::Postgres(scratch.connect().await?);
        hand.run(&[format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")]).await?;
        Ok(Tables { subject: self, table: table.to_owned(), store, letters })
    }
}

impl Tables {
    /// A stage with so many waiting events; what was there before goes, up to this number.
    pub(crate) async fn stage(&self, scratch: &Scratch, rows: u32, keep: u32) -> anyhow::Result<Stage> {
        let empty = match (self.subject, keep) {
            (_, 0) => format!("TRUNCATE {}", self.table),
            (Subject::Outbox, _) => format!("DELETE FROM {}", self.table),
            (Subject::Jobs, keep) => format!("DELETE FROM {} WHERE job_id > {keep}", self.table),
        };
        let mut before = vec![empty, self.fill(rows)];
        if self.subject == Subject::Outbox && keep == 0 {
            before.push(format!("TRUNCATE {}_dlq", self.table));
        }
        before.extend(tidy_postgres(&self.table));
        Ok(Stage { hand: Hand::Postgres(scratch.connect().await?), before, waiting: self.waiting() })
    }

    /// Inserts so many waiting events.
    pub(crate) fn fill(&self, rows: u32) -> String {
        match self.subject {
            Subject::Outbox => fill_postgres(&self.table, rows),
            Subject::Jobs => fill_jobs(&self.table, rows),
        }
    }

    /// Inserts so many dead letters, before anything else.
    pub(crate) fn fill_dead(&self, dead: u32) -> String {
        let series = format!("FROM generate_series(1, {dead}) AS n");
        match self.subject {
            Subject::Outbox => format!(
                "INSERT INTO {}_dlq (original_event_id, event_type, aggregate_type, aggregate_id, payload, \
                     error_message, retry_count, origin_id, error_class, error_kind, fingerprint) \
                 SELECT -n, 'OrderCreated', 'Order', 'dead-' || n, {PAYLOAD}, 'connection refused', 5, -n, \
                     'transient', 'Io', lpad(to_hex(n % 100), 16, '0') {series}",
                self.table
            ),
            Subject::Jobs => format!(
                "INSERT INTO {} (article_id, payload, status, completed_at, retry_count, error_message, \
                     error_class, error_kind, fingerprint) \
                 SELECT 'dead-' || n, {PAYLOAD}, 'dead_letter', now(), 3, 'connection refused', 'transient', 'Io', \
                     lpad(to_hex(n % 100), 16, '0') {series}",
                self.table
            ),
        }
    }

    fn waiting(&self) -> String {
        let live = match self.subject {
            Subject::Outbox => "NOT processed",
            Subject::Jobs => "status IN ('pending', 'running')",
        };
        format!("SELECT count(*) FROM {} WHERE {live}", self.table)
    }
}
