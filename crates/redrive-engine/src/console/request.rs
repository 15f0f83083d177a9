//! What an operation is asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::dead_letter::{Filter, LetterId};
use redrive_core::fingerprint::digest;
use serde::{Deserialize, Serialize};

use super::ConsoleError;

/// The most letters that are named one by one.
const MOST_IDS: usize = 10_000;
/// The most steps of a ramp.
const MOST_STEPS: usize = 20;
/// How far apart the clocks of two machines may be.
const CLOCKS: SignedDuration = SignedDuration::from_secs(5);
/// The largest step of a ramp.
const LARGEST_STEP: u32 = 1_000;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Sends letters back to work.
    Redrive,
    /// Closes letters.
    Resolve,
}

impl Action {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Resolve => "resolve",
        }
    }
}

/// A ramp: a few letters first, each followed to its outcome, then more, then the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// How many letters each step sends.
    pub steps: Vec<u32>,
    /// How long a step may take until every letter of it has an outcome.
    pub patience: Duration,
    /// How long a letter that was handed over is watched for coming back.
    pub observe: Duration,
}

impl Default for Canary {
    /// 1, 5, 20, then all.
    fn default() -> Self {
        Self { steps: vec![1, 5, 20], patience: Duration::from_secs(300), observe: Duration::from_secs(5) }
    }
}

/// What an operation is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What to do.
    pub action: Action,
    /// To which letters.
    pub filter: Filter,
    /// Or to these, by name.
    #[serde(default)]
    pub ids: Vec<LetterId>,
    /// The pipelines that were meant when it was asked for: an instance that lacks one of them leaves it alone.
    #[serde(default)]
    pub pipelines: Vec<String>,
    /// Whether an empty filter means every letter that waits.
    #[serde(default)]
    pub all: bool,
    /// The most letters per second.
    #[serde(default)]
    pub rate: Option<u32>,
    /// The ramp.
    #[serde(default)]
    pub canary: Option<Canary>,
    /// Why.
    #[serde(default)]
    pub note: String,
}

impl Request {
    /// An operation of this kind on these letters, at once.
    #[must_use]
    pub fn new(action: Action, filter: Filter) -> Self {
        let (ids, pipelines, all, rate, canary) = (Vec::new(), Vec::new(), false, None, None);
        Self { action, filter, ids, pipelines, all, rate, canary, note: String::new() }
    }

    /// Whether it makes sense.
    pub(super) fn check(&self) -> Result<(), ConsoleError> {
        let wrong = |text: &str| Err(ConsoleError::Request(text.to_owned()));
        if self.ids.is_empty() && self.filter.is_empty() && !self.all {
            return wrong(
                "the filter is empty, and that means every letter that waits: say all = true if you mean it",
            );
        }
        if !self.ids.is_empty() && (self.all || !self.filter.is_empty()) {
            return wrong("there are ids and a filter: give one of the two");
        }
        if self.ids.len() > MOST_IDS {
            return wrong("there are more than 10000 ids: use a filter instead");
        }
        if self.rate == Some(0) {
            return wrong("a rate of 0 letters per second would never end: leave it out for no limit");
        }
        if let Some(canary) = &self.canary {
            if self.action == Action::Resolve {
                return wrong("a resolution has no outcome to follow: leave canary out");
            }
            let fits = |step: &u32| (1..=LARGEST_STEP).contains(step);
            if canary.steps.is_empty() || canary.steps.len() > MOST_STEPS || !canary.steps.iter().all(fits) {
                return wrong("canary.steps must be 1 to 20 numbers from 1 to 1000, such as [1, 5, 20]");
            }
        }
        Ok(())
    }

    /// Which letters it is about, for people.
    #[must_use]
    pub fn subject(&self) -> String {
        if !self.ids.is_empty() {
            return format!("{} letters by id", self.ids.len());
        }
        let filter = serde_json::to_value(&self.filter).unwrap_or_default();
        let parts: Vec<String> = filter
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| match value.as_str() {
                Some(text) => format!("{name}:{text}"),
                None => format!("{name}:{value}"),
            })
            .collect();
        if parts.is_empty() { "every letter that waits".to_owned() } else { parts.join(" ") }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether this is what an operation of this age was asked for. Times that were given as "an hour ago" are
    /// another moment when they are given again, and mean the same.
    pub(super) fn repeats(&self, known: &str, age: SignedDuration) -> bool {
        let Ok(first) = Self::of(known) else { return false };
        let as_first = |asked: Option<Timestamp>, first: Option<Timestamp>| {
            let is_same =
                |first: &Timestamp| asked.is_some_and(|asked| is_near(asked.duration_since(*first), age));
            first.filter(is_same).or(asked)
        };
        let mut again = self.clone();
        again.pipelines.clone_from(&first.pipelines);
        again.filter.since = as_first(self.filter.since, first.filter.since);
        again.filter.until = as_first(self.filter.until, first.filter.until);
        again == first
    }

    /// What an operation of the ledger was asked for.
    ///
    /// # Errors
    /// [`ConsoleError::Request`] when another version of redrive wrote it.
    pub fn of(json: &str) -> Result<Self, ConsoleError> {
        serde_json::from_str(json).map_err(|error| {
            ConsoleError::Request(format!("the operation's request cannot be read: {error}"))
        })
    }
}

/// Whether two spans of time are one, as far as the clocks of two machines can tell.
fn is_near(one: SignedDuration, other: SignedDuration) -> bool {
    one.saturating_sub(other).abs() < CLOCKS
}

/// What a request leaves on its letter: the same for the same request, however often it is sent.
pub(super) fn mark(key: Option<&str>) -> String {
    match key {
        None => format!("request {}", number()),
        Some(key) => format!("request {key}"),
    }
}

/// What a request about one letter asks for, in short.
pub(super) fn digest_of(action: Action, id: &LetterId, content: Option<&[u8]>) -> u64 {
    let mut asked = serde_json::to_vec(&(action, id, content.is_some())).unwrap_or_default();
    asked.extend_from_slice(content.unwrap_or_default());
    digest(&asked)
}

/// A number that no other request of any process has.
pub(super) fn number() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = Timestamp::now().as_microsecond();
    format!("{now:x}-{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redrive(filter: Filter) -> Request {
        Request::new(Action::Redrive, filter)
    }

    fn typed() -> Filter {
        Filter { event_type: Some("OrderCreated".into()), ..Filter::default() }
    }

    #[test]
    fn an_empty_filter_is_refused_unless_all_is_said() {
        assert!(redrive(Filter::default()).check().is_err());
        assert!(Request { all: true, ..redrive(Filter::default()) }.check().is_ok());
        assert!(redrive(typed()).check().is_ok());
        let ids = vec![LetterId::new("orders", 1)];
        assert!(Request { ids: ids.clone(), ..redrive(Filter::default()) }.check().is_ok());
        assert!(Request { ids, ..redrive(typed()) }.check().is_err());
    }

    #[test]
    fn an_hour_ago_means_the_same_when_it_is_said_again() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let since = |text: &str| redrive(Filter { since: Some(at(text)), ..typed() });
        let (known, age) = (since("2026-11-16T13:00:00.25Z").to_json(), SignedDuration::from_mins(20));
        assert!(since("2026-11-16T13:20:00.9Z").repeats(&known, age), "an hour ago, again");
        assert!(since("2026-11-16T13:00:00.25Z").repeats(&known, age), "that very moment, again");
        assert!(!since("2026-11-16T12:20:00Z").repeats(&known, age), "two hours ago");
        assert!(!redrive(typed()).repeats(&known, age));
        let other = Request { rate: Some(1), ..since("2026-11-16T13:20:00.9Z") };
        assert!(!other.repeats(&known, age));
    }

    #[test]
    fn a_ramp_that_makes_no_sense_is_refused() {
        for steps in [vec![], vec![0], vec![1_001], vec![1; 21]] {
            let canary = Some(Canary { steps, ..Canary::default() });
            assert!(Request { canary, ..redrive(typed()) }.check().is_err());
        }
        let canary = Some(Canary::default());
        assert!(Request { canary: canary.clone(), ..redrive(typed()) }.check().is_ok());
        assert!(Request { canary, ..Request::new(Action::Resolve, typed()) }.check().is_err());
        assert!(Request { rate: Some(0), ..redrive(typed()) }.check().is_err());
    }

    #[test]
    fn a_request_survives_the_ledger() {
        let request = Request { canary: Some(Canary::default()), rate: Some(7), ..redrive(typed()) };
        assert_eq!(Request::of(&request.to_json()).unwrap(), request);
        assert_eq!(request.subject(), "type:OrderCreated");
    }
}
