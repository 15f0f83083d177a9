//! The census: how many letters each pipeline has, and in which groups.
//!
//! Counting is the one thing that costs more the more letters there are, so pages never count: they show the
//! latest census, and a new one is taken behind them, at most a small part of the time. It is taken from the
//! tables, not kept by those who write: other programs bury, requeue and delete letters with SQL of their own,
//! and a counter that does not hear of it is wrong for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use jiff::{Timestamp, ToSpan as _};
use redrive_core::dead_letter::{Filter, Group, Letter, Page, Stats, Status, Summary, Unavailable};
use redrive_core::fingerprint::Fingerprint;
use tokio::task::{AbortHandle, JoinError};
use tokio::time::{Instant, timeout};

use super::Desk;

/// The most groups that are kept of one pipeline.
const GROUPS: u32 = 1_000;
/// How far back the history goes, in hours.
pub const HOURS: usize = 24;
/// A census is good for so long, and for so many times as long as it took.
const FRESH: Duration = Duration::from_secs(1);
const SHARE: u32 = 50;
/// How many queries a count has, side by side: what it costs the store is what each of them takes.
const QUERIES: u32 = 3;
/// One that takes no longer than this is waited for when something was just changed.
const QUICK: Duration = Duration::from_millis(20);
/// How long a look waits for a count that would replace an old one.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// When a count is given up: a server that vanished without a word never sends an answer.
const GIVE_UP: Duration = Duration::from_secs(120);

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

/// A count that is being taken, for whoever wants to wait for it.
type Counting = Shared<BoxFuture<'static, Result<Arc<Count>, Arc<Unavailable>>>>;

/// The latest census of one pipeline.
#[derive(Default)]
pub(super) struct Census {
    latest: Mutex<Option<Taken>>,
    /// One at a time.
    under_way: Mutex<Option<(AbortHandle, Counting)>>,
    dirty: AtomicBool,
}

impl Census {
    /// The latest count; the first one is waited for, and later ones as [`Worth`] says.
    pub(super) async fn get(self: &Arc<Self>, desk: &Desk) -> Result<Arc<Count>, Unavailable> {
        let Some(taken) = self.latest() else { return unshared(self.take(desk).await) };
        match Worth::of(taken.at.elapsed(), taken.took, self.dirty.load(Ordering::Relaxed)) {
            Worth::Good => Ok(taken.count),
            Worth::Cheap => unshared(self.take(desk).await),
            Worth::Stale => {
                drop(self.take(desk));
                Ok(taken.count)
            }
            Worth::Old => match timeout(LONGEST_WAIT, self.take(desk)).await {
                Ok(counted) => unshared(counted),
                Err(_) => Ok(taken.count),
            },
        }
    }

    /// Something was changed: the next look is worth a count.
    pub(super) fn touch(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    fn latest(&self) -> Option<Taken> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The count that is under way, or a new one: in a task of its own, which ends whether anybody waits for it
    /// or not.
    fn take(self: &Arc<Self>, desk: &Desk) -> Counting {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counting)) = under_way.as_ref().filter(|(task, _)| !task.is_finished()) {
            return counting.clone();
        }
        let (census, desk) = (Arc::clone(self), desk.clone());
        let pipeline = desk.queue.pipeline().to_owned();
        let task = tokio::spawn(async move { census.count(&desk).await });
        let handle = task.abort_handle();
        let counting = async move {
            let ended = |error: JoinError| Unavailable { pipeline, source: error.into() };
            task.await.unwrap_or_else(|error| Err(Arc::new(ended(error))))
        };
        let counting = counting.boxed().shared();
        *under_way = Some((handle, counting.clone()));
        counting
    }

    async fn count(&self, desk: &Desk) -> Result<Arc<Count>, Arc<Unavailable>> {
        self.dirty.store(false, Ordering::Relaxed);
        let begun = Instant::now();
        let counted = timeout(GIVE_UP, count(desk)).await.unwrap_or_else(|_| Err(no_answer(desk)));
        let counted = counted.map(Arc::new).map_err(Arc::new);
        if let Err(error) = &counted {
            tracing::debug!(%error, "letters could not be counted");
        }
        let taken = |count: &Arc<Count>| {
            let (count, at) = (Arc::clone(count), Instant::now());
            Taken { count, at, took: (at - begun) * QUERIES }
        };
        // Without one, if it failed: an old count would hide that the store is away.
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = counted.as_ref().ok().map(taken);
        counted
    }
}

fn no_answer(desk: &Desk) -> Unavailable {
    let source = format!("no answer within {GIVE_UP:?}").into();
    Unavailable { pipeline: desk.queue.pipeline().to_owned(), source }
}

/// What everybody who waited for a count is told.
fn unshared(counted: Result<Arc<Count>, Arc<Unavailable>>) -> Result<Arc<Count>, Unavailable> {
    counted.map_err(|error| Unavailable {
        pipeline: error.pipeline.clone(),
        source: error.source.to_string().into(),
    })
}

async fn count(desk: &Desk) -> Result<Count, Unavailable> {
    let at = Timestamp::now();
    let since = first_hour(at);
    // Side by side: whoever waits for the first count of a million letters waits for the longest query, and not for all.
    let queue = &desk.queue;
    let (stats, groups, arrived) =
        tokio::try_join!(queue.stats(), queue.groups(GROUPS), queue.arrivals(since))?;
    let mut history: HashMap<Fingerprint, [u64; HOURS]> = HashMap::new();
    for arrivals in arrived {
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
    use async_trait::async_trait;
    use redrive_core::books::Balance;
    use redrive_core::dead_letter::{
        Acted, Arrivals, Cursor, DeadLetterQueue, Ids, Listing, Operator, Order, Outcome, PipelineKind,
    };
    use tokio::sync::Semaphore;

    use super::*;

    /// A queue that is counted once for each permit, and does not answer without.
    struct Hanging(Semaphore);

    #[async_trait]
    impl DeadLetterQueue for Hanging {
        fn pipeline(&self) -> &str {
            "orders"
        }
        fn kind(&self) -> PipelineKind {
            PipelineKind::Outbox
        }
        async fn stats(&self) -> Result<Stats, Unavailable> {
            self.0.acquire().await.unwrap().forget();
            tokio::time::sleep(QUICK * 2).await;
            Ok(Stats::default())
        }
        async fn groups(&self, _: u32) -> Result<Vec<Group>, Unavailable> {
            Ok(Vec::new())
        }
        async fn arrivals(&self, _: Timestamp) -> Result<Vec<Arrivals>, Unavailable> {
            Ok(Vec::new())
        }
        async fn list(&self, _: &Filter, _: Page) -> Result<Listing, Unavailable> {
            unreachable!("nobody lists")
        }
        async fn get(&self, _: &str) -> Result<Option<Letter>, Unavailable> {
            unreachable!("nobody reads")
        }
        async fn count(&self, _: &Filter) -> Result<u64, Unavailable> {
            unreachable!("nobody filters")
        }
        async fn ids(&self, _: &Filter, _: Option<Cursor>, _: u32) -> Result<Ids, Unavailable> {
            unreachable!("nobody freezes")
        }
        async fn redrive(&self, _: &[String], _: &Order) -> Result<Acted, Unavailable> {
            unreachable!("nobody acts")
        }
        async fn redrive_edited(&self, _: &str, _: &[u8], _: &Order) -> Result<Acted, Unavailable> {
            unreachable!("nobody acts")
        }
        async fn outcomes(&self, _: &[String]) -> Result<Vec<Outcome>, Unavailable> {
            unreachable!("nobody follows")
        }
        async fn resolve(&self, _: &[String], _: &Operator, _: &str) -> Result<Acted, Unavailable> {
            unreachable!("nobody acts")
        }
        async fn balance(&self) -> Result<Balance, Unavailable> {
            unreachable!("nobody verifies")
        }
        async fn purge(&self, _: Timestamp) -> Result<u64, Unavailable> {
            unreachable!("nobody purges")
        }
    }

    /// Each look began a task that waited for the one before it, and all of them were shown the old count.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_counted_by_one_task_and_named_after_a_while() {
        let (census, queue) = (Arc::new(Census::default()), Arc::new(Hanging(Semaphore::new(1))));
        let desk = Desk { queue, workers: None };
        census.get(&desk).await.unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..20 {
            census.get(&desk).await.unwrap();
        }
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
        tokio::time::advance(GIVE_UP).await;
        assert!(census.get(&desk).await.is_err());
    }

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
