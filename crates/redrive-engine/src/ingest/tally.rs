//! The numbers of an ingest pipeline, under the founding names.

use jiff::Timestamp;
use metrics::{Counter, Gauge, counter, gauge};
use redrive_core::dead_letter::Status;
use redrive_spool::spool::SpoolStats;

/// The series of one pipeline.
pub(super) struct Tally {
    pub(super) accepted: Counter,
    pub(super) delivered: Counter,
    /// Events that a person gave up.
    pub(super) resolved: Counter,
    /// Events that were uploaded at the first go or from disk.
    pub(super) stored: Counter,
    pub(super) put_errors: Counter,
    pub(super) enqueued: Counter,
    pub(super) reuploaded: Counter,
    pub(super) dropped: Counter,
    pub(super) expired: Counter,
    pub(super) damaged: Counter,
    files: Gauge,
    bytes: Gauge,
    backlog: Gauge,
    letters: Gauge,
    oldest: Gauge,
    store_down: Gauge,
}

impl Tally {
    pub(super) fn new(pipeline: &str) -> Self {
        let pipeline = pipeline.to_owned();
        let events = |outcome: &'static str| counter!("redrive_events_total", "pipeline" => pipeline.clone(), "type" => "", "outcome" => outcome);
        let count = |name: &'static str| counter!(name, "pipeline" => pipeline.clone());
        let level = |name: &'static str| gauge!(name, "pipeline" => pipeline.clone());
        let letters = |status: Status| gauge!("redrive_dead_letters", "pipeline" => pipeline.clone(), "status" => status.name());
        let tally = Self {
            accepted: events("accepted"),
            delivered: events("delivered"),
            resolved: events("resolved"),
            stored: count("s3_events_stored_total"),
            put_errors: count("s3_put_errors_total"),
            enqueued: count("dlq_events_enqueued_total"),
            reuploaded: count("dlq_events_reuploaded_total"),
            dropped: count("dlq_events_dropped_total"),
            expired: count("dlq_files_expired_total"),
            damaged: count("dlq_files_damaged_total"),
            files: level("dlq_files_current"),
            bytes: level("dlq_size_bytes"),
            backlog: level("redrive_backlog"),
            letters: letters(Status::Open),
            oldest: level("redrive_oldest_dead_letter_seconds"),
            store_down: gauge!("redrive_handler_down", "pipeline" => pipeline.clone(), "handler" => "store"),
        };
        tally.store_down(false);
        tally
    }

    pub(super) fn store_down(&self, is_down: bool) {
        self.store_down.set(f64::from(u8::from(is_down)));
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(super) fn levels(&self, spool: SpoolStats, backlog: u64) {
        self.files.set(spool.files as f64);
        self.bytes.set(spool.bytes as f64);
        self.backlog.set(backlog as f64);
        self.letters.set(spool.files as f64);
        let age = spool.oldest.map_or(0.0, |oldest| Timestamp::now().duration_since(oldest).as_secs_f64());
        self.oldest.set(age.max(0.0));
    }
}
