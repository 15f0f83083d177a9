//! Clean-up: resolved events are kept for a week, then deleted, by a cron schedule.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::dead_letter::DeadLetterQueue as _;
use tokio_util::sync::CancellationToken;

use super::Core;

/// The longest sleep in one go: the clock of the machine may be set meanwhile.
const NAP: Duration = Duration::from_secs(60);

/// Deletes old resolved events, at each time of the schedule, until it is told to stop.
pub(super) async fn run(core: &Core, stop: CancellationToken) {
    let schedule = &core.options.schedule;
    let mut after = Timestamp::now();
    while let Some(due) = schedule.cleanup.next(after) {
        if stop.run_until_cancelled(sleep_until(due)).await.is_none() {
            return;
        }
        after = due.max(Timestamp::now());
        if stop.run_until_cancelled(purge(core, schedule.keep_resolved)).await.is_none() {
            return;
        }
    }
}

async fn sleep_until(due: Timestamp) {
    while let Ok(left) = Duration::try_from(due.duration_since(Timestamp::now())) {
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(NAP)).await;
    }
}

async fn purge(core: &Core, keep: Duration) {
    let before = Timestamp::now().checked_sub(keep).unwrap_or(Timestamp::MIN);
    let pipeline = &core.pipeline.name;
    match core.failed.purge(before).await {
        Ok(events) => {
            core.tally.purged.increment(events);
            tracing::info!(%pipeline, events, "old resolved events deleted");
        }
        Err(error) => {
            tracing::warn!(%pipeline, %error, "old resolved events could not be deleted: the next run tries again");
        }
    }
}
