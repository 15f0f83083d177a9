//! `GET /metrics`: the numbers, for Prometheus.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use crate::series::{Counting, Counts};

const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often recorded times are drained into their buckets, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);

const ATTEMPT_SECONDS: &str = "redrive_attempt_seconds";
/// From a millisecond to a minute.
const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The recorder cannot be set up.
    #[error("metrics cannot be recorded: {0}")]
    Setup(#[from] BuildError),
    /// Somebody else records in this process already.
    #[error("metrics cannot be recorded: this process has another recorder already")]
    Twice,
}

/// The recorder of this process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    counts: Counts,
}

impl Metrics {
    /// Starts recording. Once per process.
    ///
    /// # Errors
    /// [`MetricsError`] when somebody else records in this process already.
    pub fn install() -> Result<Self, MetricsError> {
        let attempts = Matcher::Full(ATTEMPT_SECONDS.to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(attempts, &BUCKETS)?;
        let recorder = builder.build_recorder();
        let (handle, counts) = (recorder.handle(), Counts::default());
        metrics::set_global_recorder(Counting::new(recorder, counts.clone()))
            .map_err(|_| MetricsError::Twice)?;
        describe();
        Ok(Self { handle, counts })
    }

    /// The numbers of each pipeline, as they are counted.
    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Every number, in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Keeps memory bounded when nobody scrapes, until it is told to stop.
    pub async fn keep_up(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(UPKEEP) => self.handle.run_upkeep(),
            }
        }
    }
}

/// The numbers, for Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "numbers", responses((status = 200, description = "The metrics, in the text format of Prometheus.", content_type = "text/plain", body = String)))]
pub(crate) async fn show(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(CONTENT_TYPE, MEDIA_TYPE)], metrics.render())
}

fn describe() {
    describe_counter!(
        "redrive_events_total",
        "Events by what became of them: accepted (over HTTP), delivered, retried, dead, \
         released (handed back untried), recovered (saved by a later run), dropped (lost)."
    );
    describe_histogram!(ATTEMPT_SECONDS, Unit::Seconds, "How long handlers took, whatever came of it.");
    describe_gauge!(
        "redrive_ready",
        "Whether a pipeline or store can work: 1, or 0 and /api/v1/ready says why. Looked at every 5 seconds."
    );
    describe_gauge!(
        "redrive_handler_down",
        "Whether a handler is down, so that its events wait and probes ask for it: 1, or 0 while it answers."
    );
    describe_counter!(
        "redrive_claims_paused_milliseconds_total",
        "How long claims of a pipeline waited while an event that may kill the process was tried alone."
    );
    describe_counter!(
        "redrive_settlements_refused_total",
        "Settlements that the table refused: the event is set aside and settled later."
    );
    describe_counter!(
        "redrive_appends_refused_total",
        "Requests to put work in that the table refused, for their data or for good."
    );
    describe_gauge!(
        "redrive_kafka_lag",
        "Records of a topic that the group has not committed, of the partitions that this instance has."
    );
    describe_gauge!(
        "redrive_kafka_partitions",
        "Partitions of a topic that this instance has; 0 when others of its group have all of them."
    );
    describe_gauge!(
        "redrive_kafka_spooled",
        "Letters on disk: outgoing (Kafka is away) or refused (Kafka does not take them)."
    );
    describe_counter!(
        "redrive_kafka_spooled_total",
        "Letters that went to disk because Kafka did not take them."
    );
    describe_gauge!(
        "redrive_trouble",
        "1 while something is wrong with a pipeline or store; the label reason says what."
    );
    describe_gauge!("redrive_backlog", "Work that waits or is being done.");
    describe_gauge!("redrive_backlog_counted_timestamp_seconds", "When redrive_backlog was counted.");
    describe_gauge!("redrive_dead_letters", "Dead letters by status.");
    describe_gauge!(
        "redrive_oldest_dead_letter_seconds",
        Unit::Seconds,
        "The age of the oldest letter that waits for somebody; 0 when none does."
    );
    describe_gauge!(
        "redrive_ladder_rung",
        "Where events go: 1 the target, 2 the dead-letter store, 3 the local disk, 4 nowhere durable."
    );
    describe_gauge!(
        "redrive_conservation_gap",
        "Events that were accepted and are nowhere; below zero, in two places. Checked every ten minutes."
    );
    describe_gauge!(
        "redrive_waiting_events",
        "Events that were accepted and are neither saved nor set aside, by where they are: memory or disk."
    );
    describe_counter!(
        "dlq_events_enqueued_total",
        "Events saved on disk because the store did not take them."
    );
    describe_counter!("dlq_events_reuploaded_total", "Events uploaded from disk.");
    describe_counter!("dlq_events_dropped_total", "Events that neither the store nor the disk took.");
    describe_counter!("dlq_files_expired_total", "Files deleted because of their age, or for want of room.");
    describe_counter!(
        "dlq_files_damaged_total",
        "Files that were damaged: rescued, and set aside in the store."
    );
    describe_counter!(
        "redrive_events_lost_total",
        "Events of an ingest pipeline that were accepted and are gone, by the reason: evicted, expired, dropped, \
         folder-gone."
    );
    describe_counter!(
        "redrive_refused_total",
        "Requests that an ingest pipeline refused, by the reason: queue-full, disk-full, disk-failed, stopping, \
         server-busy, body-too-large, media-type, body-invalid."
    );
    describe_gauge!("dlq_files_current", "Files that wait on disk.");
    describe_gauge!("dlq_size_bytes", Unit::Bytes, "Bytes that wait on disk.");
    describe_counter!("s3_events_stored_total", "Events that the object store has.");
    describe_counter!("s3_put_errors_total", "Uploads that failed after their retries.");
    describe_counter!(
        "redrive_authentication_failures_total",
        "Requests by somebody unknown: without a token (missing-token), or with one that nobody has (unknown-token)."
    );
    describe_counter!("redrive_alerts_total", "Alerts by channel and outcome.");
    describe_counter!("redrive_auto_redriven_total", "Letters that a policy has redriven.");
    describe_gauge!(
        "redrive_auto_redrive_suspended",
        "Whether a policy rests because what it redrives fails again: 1, or 0 while it works."
    );
    describe_counter!("redrive_purged_total", "Processed or resolved events that retention has deleted.");
}
