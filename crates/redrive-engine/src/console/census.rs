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
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Desk;

/// The most groups that are kept of one pipeline.
const GROUPS: u32 = 1_000;
/// How far back the history goes, in hours.
pub const HOURS: usize = 24;
/// A census is good for so long, and for so many times as long as it took.
const FRESH: Duration = Duration::from_secs(1);
const SHARE: u32 = 50;
/// One that takes no longer than this is waited for when something was just changed.
const QUICK: Duration = Duration::from_millis(20);
/// How long a look waits for a count that would replace an old one.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

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

/// What a count is worth that is so old and took so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// It is shown.
    Good,
    /// A new one is taken at once: that is quick.
    Cheap,
    /// It is shown, and a new one is taken behind it.
    Stale,
    /// Nobody has looked for long: a new one is waited for, a little.
    Old,
}

impl Worth {
    fn of(age: Duration, took: Duration, is_dirty: bool) -> Self {
        let fresh = FRESH.max(took * SHARE);
        match took <= QUICK {
            true if is_dirty || age > fresh => Self::Cheap,
            _ if age > fresh * 2 => Self::Old,
            _ if age > fresh => Self::Stale,
            _ => Self::Good,
        }
    }
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
    /// The latest count; the first one is waited for, and later ones as [`Worth`] says.
    pub(super) async fn get(self: &Arc<Self>, desk: &Desk) -> Result<Arc<Count>, Unavailable> {
        let Some(taken) = self.latest() else { return self.take(desk).await };
        let dirty = self.dirty.load(std::sync::atomic::Ordering::Relaxed);
        match Worth::of(taken.at.elapsed(), taken.took, dirty) {
            Worth::Good => Ok(taken.count),
            Worth::Cheap => self.take(desk).await,
            Worth::Stale => {
                self.take_behind(desk);
                Ok(taken.count)
            }
            Worth::Old => match tokio::time::timeout(LONGEST_WAIT, self.take_behind(desk)).await {
                Ok(Ok(counted)) => counted,
                _ => Ok(taken.count),
            },
        }
    }

    /// Takes a new one in a task of its own, which ends whether anybody waits for it or not.
    fn take_behind(self: &Arc<Self>, desk: &Desk) -> JoinHandle<Result<Arc<Count>, Unavailable>> {
        let (census, desk) = (Arc::clone(self), desk.clone());
        tokio::spawn(async move {
            let counted = census.take(&desk).await;
            if let Err(error) = &counted {
                tracing::debug!(%error, "letters could not be counted");
            }
            counted
        })
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

    /// Whoever looked first after a quiet hour was shown how it was an hour ago.
    #[test]
    fn a_count_is_shown_while_it_is_young_for_what_it_cost() {
        let worth =
            |age, took, dirty| Worth::of(Duration::from_millis(age), Duration::from_millis(took), dirty);
        for (age, took, dirty, expected) in [
            (900, 5, false, Worth::Good),
            (900, 5, true, Worth::Cheap),
            (1_100, 5, false, Worth::Cheap),
            (900, 40, true, Worth::Good),
            (2_100, 40, false, Worth::Stale),
            (4_100, 40, false, Worth::Old),
            (49_000, 1_000, true, Worth::Good),
            (51_000, 1_000, false, Worth::Stale),
            (101_000, 1_000, false, Worth::Old),
        ] {
            assert_eq!(worth(age, took, dirty), expected, "{age} {took} {dirty}");
        }
    }

    #[test]
    fn the_history_ends_with_the_hour_that_is_now() {
        let now: Timestamp = "2026-11-16T14:30:00Z".parse().unwrap();
        assert_eq!(first_hour(now).to_string(), "2026-11-15T15:00:00Z");
    }
}
