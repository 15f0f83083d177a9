//! The judge: an outcome in, a settlement out. No I/O.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::Failure;
use redrive_core::history::History;
use redrive_core::lease::{Failed, Settlement, Work};
use redrive_core::policy::{Policy, Verdict};

use crate::breaker::Change;
use crate::routes::Route;

/// How long work waits for the attempt that it gets in isolation although it has none left.
const SUSPECT_PAUSE: Duration = Duration::from_secs(1);

/// What the worker remembers about work whose event is with a handler.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) retry_count: u32,
    pub(crate) max_retries: Option<u32>,
    pub(crate) history: History,
}

impl Record {
    /// Splits work into what the handler gets and what stays.
    pub(crate) fn split(work: Work) -> (Event, Self) {
        let record =
            Self { retry_count: work.retry_count, max_retries: work.max_retries, history: work.history };
        (work.event, record)
    }
}

/// Tells the handler's breaker how an event ended.
pub(crate) fn note(route: &Route, event: WorkId, result: &Result<(), Failure>) -> Change {
    route.breaker().note(event, result.as_ref().err(), Instant::now())
}

/// Judges an event that its handler has failed.
pub(crate) fn judge(
    pipeline: &str,
    policy: &Policy,
    route: &Route,
    (event, record): (&Event, Record),
    failure: Failure,
) -> Settlement {
    let excuse = route.breaker().excuse(&failure, Instant::now());
    match excuse {
        // While the handler is down, nobody's attempts are counted.
        Some(after) => Settlement::Release { after: spread(after, event.id.0) },
        None => sentence(pipeline, policy, event, record, failure),
    }
}

/// Judges work whose holder died with it and with other work.
///
/// It counts as a failed attempt, since one that kills its holder must end. But nobody knows whether its handler was
/// ever called: so that alone makes no dead letter. Where no attempt would be left, it gets one more, in isolation.
pub(crate) fn interrupted(pipeline: &str, policy: &Policy, event: &Event, record: Record) -> Settlement {
    let was_on_trial = is_on_trial(policy, &record);
    let settlement = sentence(pipeline, policy, event, record, Failure::interrupted());
    match settlement {
        Settlement::Dead { failed } if !was_on_trial => Settlement::Suspect { after: SUSPECT_PAUSE, failed },
        settlement => settlement,
    }
}

/// Whether its last attempt ended with its worker, and one more such end would make it a dead letter.
pub(crate) fn is_on_trial(policy: &Policy, record: &Record) -> bool {
    let Some(last) = record.history.attempts().last() else { return false };
    let again = Failure::interrupted();
    let verdict = || limited(policy, record).decide(&again, record.retry_count, 0);
    last.failure.kind == again.kind && !matches!(verdict(), Verdict::Retry { .. })
}

/// Judges a failure by the policy alone.
pub(crate) fn sentence(
    pipeline: &str,
    policy: &Policy,
    event: &Event,
    record: Record,
    failure: Failure,
) -> Settlement {
    let seed = (event.id.0 as u64).wrapping_mul(31).wrapping_add(u64::from(record.retry_count));
    let verdict = limited(policy, &record).decide(&failure, record.retry_count, seed);
    let failed = Failed::after(record.history, pipeline, &event.event_type, failure, Timestamp::now());
    match verdict {
        Verdict::Retry { after } => Settlement::Retry { after, failed },
        Verdict::Bury | Verdict::Park => Settlement::Dead { failed },
    }
}

/// The policy with the limit of the row's own, where it has one.
fn limited<'a>(policy: &'a Policy, record: &Record) -> Cow<'a, Policy> {
    match record.max_retries {
        Some(limit) => Cow::Owned(policy.clone().with_attempts(limit)),
        None => Cow::Borrowed(policy),
    }
}

/// Up to a quarter more, so that what was put off together does not come back together.
pub(crate) fn spread(after: Duration, seed: i64) -> Duration {
    let part = u32::try_from(seed.rem_euclid(256)).unwrap_or(0);
    after.saturating_add(after / 1024 * part).saturating_add(Duration::from_millis(1))
}
