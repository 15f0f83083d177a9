//! The census: how many letters each pipeline has, and in which groups.
//!
//! Counting is the one thing that costs more the more letters there are, so pages never count: they show the
//! latest census, and a new one is taken behind them, at most a small part of the time. It is taken from the
//! tables, not kept by those who write: other programs bury, requeue and delete letters with SQL of their own,
//! and a counter that does not hear of it is wrong for ever.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use redrive_core::dead_letter::{Filter, Group, Letter, Page, Stats, Status, Summary, Unavailable};
use redrive_core::fingerprint::Fingerprint;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Desk;

/// The most groups that are kept of one pipeline.
const GROUPS: u32 = 1_000;
/// How far back the history goes, in hours.
pub const HOURS: usize = 24;
/// A census is good for so long, and for so many times as long as it took.
const FRESH: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// One that takes no longer than this is waited for when something was just changed.
const QUICK: Duration = Duration::from_millis(20);

/// One pipeline, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    /// How many letters there are.
    pub stats: Stats,
    /// The groups of those that wait, the largest first.
    pub groups: Vec<Group>,
    /// How many letters of a group died in each of the last [`HOURS`] hours, oldest first.
    pub history: HashMap<Fingerprint, [u64; HOURS]>,
    /// When it was counted.
    pub at: Timestamp,
}

#[derive(Clone)]
struct Taken {
    count: Arc<Count>,
    at: Instant,
    took: Duration,
}

/// The latest census of one pipeline.
#[derive(Default)]
pub(super) struct Census {
    latest: std::sync::Mutex<Option<Taken>>,
    /// Whoever holds it counts.
    counting: Mutex<()>,
    dirty: std::sync::atomic::AtomicBool,
}

impl Census {
    /// The latest count; the first one is waited for, and later ones when they are quick and needed.
    pub(super) async fn get(self: &Arc<Self>, desk: &Desk) -> Result<Arc<Count>, Unavailable> {
        let Some(taken) = self.latest() else { return self.take(desk).await };
        let dirty = self.dirty.load(std::sync::atomic::Ordering::Relaxed);
        let stale = taken.at.elapsed() > FRESH.max(taken.took * SHARE);
        if taken.took <= QUICK && (dirty || stale) {
            return self.take(desk).await;
        }
        if stale {
            let (census, desk) = (Arc::clone(self), desk.clone());
            tokio::spawn(async move {
                if let Err(error) = census.take(&desk).await {
                    tracing::debug!(%error, "letters could not be counted");
                }
            });
        }
        Ok(taken.count)
    }

    /// Something was changed: the next look is worth a count.
    pub(super) fn touch(&self) {
        self.dirty.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn latest(&self) -> Option<Taken> {
        self.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// One at a time; whoever waited for another's count takes that.
    async fn take(&self, desk: &Desk) -> Result<Arc<Count>, Unavailable> {
        let asked = Instant::now();
        let _turn = self.counting.lock().await;
        if let Some(taken) = self.latest().filter(|taken| taken.at >= asked) {
            return Ok(taken.count);
        }
        self.dirty.store(false, std::sync::atomic::Ordering::Relaxed);
        let begun = Instant::now();
        let counted = count(desk).await;
        let mut latest = self.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match counted {
            Ok(count) => {
                let count = Arc::new(count);
                *latest =
                    Some(Taken { count: Arc::clone(&count), at: Instant::now(), took: begun.elapsed() });
                Ok(count)
            }
            // An old count would hide that the store is away.
            Err(error) => {
                *latest = None;
                Err(error)
            }
        }
    }
}

async fn count(desk: &Desk) -> Result<Count, Unavailable> {
    let at = Timestamp::now();
    let since = first_hour(at);
    let stats = desk.queue.stats().await?;
    let groups = desk.queue.groups(GROUPS).await?;
    let mut history: HashMap<Fingerprint, [u64; HOURS]> = HashMap::new();
    for arrivals in desk.queue.arrivals(since).await? {
        let hours = arrivals.hour.duration_since(since).as_hours();
        let slot = usize::try_from(hours).ok().filter(|slot| *slot < HOURS);
        if let Some(slot) = slot {
            history.entry(arrivals.fingerprint).or_default()[slot] += arrivals.count;
        }
    }
    Ok(Count { stats, groups, history, at })
}

/// One group of a pipeline, however small, if letters wait in it.
pub(super) async fn group(desk: &Desk, fingerprint: Fingerprint) -> Result<Option<Group>, Unavailable> {
    let filter = Filter { group: Some(fingerprint), ..Filter::default() };
    let oldest = desk.queue.ids(&filter, None, 1).await?.ids;
    let Some(oldest) = oldest.first() else { return Ok(None) };
    let Some(oldest) = desk.queue.get(oldest).await? else { return Ok(None) };
    let Letter { summary, first_failed_at, .. } = oldest;
    let mut last_seen = summary.failed_at;
    for status in [Status::Open, Status::Failed] {
        let filter = Filter { status: Some(status), ..filter.clone() };
        let newest = desk.queue.list(&filter, Page::first(1)).await?.letters;
        last_seen = newest.first().map_or(last_seen, |newest| newest.failed_at.max(last_seen));
    }
    let count = desk.queue.count(&filter).await?;
    let Summary { event_type, failure, .. } = summary;
    Ok(Some(Group { fingerprint, event_type, failure, count, first_seen: first_failed_at, last_seen }))
}

/// When the oldest hour of the history began.
fn first_hour(now: Timestamp) -> Timestamp {
    let hours = now.as_second().div_euclid(3600) - (HOURS as i64 - 1);
    Timestamp::from_second(hours * 3600).unwrap_or_else(|_| now.checked_sub(24.hours()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_ends_with_the_hour_that_is_now() {
        let now: Timestamp = "2026-11-16T14:30:00Z".parse().unwrap();
        assert_eq!(first_hour(now).to_string(), "2026-11-15T15:00:00Z");
    }
}
