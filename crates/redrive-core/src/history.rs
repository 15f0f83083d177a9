//! The attempts at one event: what failed, when. Bounded: the first and the latest are kept.
//!
//! It is rewritten with every failed attempt, and most events fail the same way each time. So it is stored
//! as short as it can be: an attempt that failed as the one before it is its time and number alone.
//!
//! ```json
//! [{"at":"2026-11-16T09:00:00Z","number":1,"class":"transient","code":"http:503","kind":"Unavailable","message":"try later"},
//!  {"at":"2026-11-16T09:00:05Z","number":2},
//!  {"at":"2026-11-16T09:00:15Z","number":3,"class":"permanent","code":"http:422","kind":"Refused","message":"no such order"}]
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::failure::{Class, Code, Failure};

/// How many attempts are remembered: the first one, and the latest of the rest.
pub const MAX_ATTEMPTS: usize = 10;
/// How much of a message an attempt keeps; the letter itself has the whole latest one.
const MAX_MESSAGE: usize = 500;
/// How much of a type.
const MAX_KIND: usize = 255;

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it failed.
    pub at: Timestamp,
    /// Its number, from 1.
    pub number: u32,
    /// Why, with a shortened message; shared with the attempts that failed the same way.
    pub failure: Arc<Failure>,
}

/// The failed attempts at one event, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Written>")]
pub struct History(#[serde(serialize_with = "write")] Vec<Attempt>);

impl History {
    /// The attempts, oldest first.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0
    }

    /// This history with one more failure; the second-oldest makes room when it is full.
    #[must_use]
    pub fn with(mut self, failure: impl Into<Arc<Failure>>, at: Timestamp) -> Self {
        let last = self.0.last();
        let number = last.map_or(1, |last| last.number.saturating_add(1));
        let failure = shorten(failure.into());
        let failure = match last {
            Some(last) if is_same(&last.failure, &failure) => Arc::clone(&last.failure),
            _ => failure,
        };
        if self.0.len() >= MAX_ATTEMPTS {
            self.0.remove(1);
        }
        self.0.push(Attempt { at, number, failure });
        self
    }

    /// When it first failed.
    #[must_use]
    pub fn first_failed_at(&self) -> Option<Timestamp> {
        self.0.first().map(|attempt| attempt.at)
    }
}

/// An attempt as it is stored: without a kind, it failed as the one before it.
#[derive(Deserialize)]
struct Written {
    at: Timestamp,
    number: u32,
    #[serde(default)]
    class: String,
    #[serde(default)]
    code: Option<Code>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    message: String,
}

impl From<Vec<Written>> for History {
    fn from(written: Vec<Written>) -> Self {
        let mut attempts: Vec<Attempt> = Vec::with_capacity(written.len() + 1);
        for Written { at, number, class, code, kind, message } in written {
            let failure = match (kind, attempts.last()) {
                (None, Some(before)) => Arc::clone(&before.failure),
                (kind, _) => {
                    let (class, kind) = (Class::from_name(&class), kind.unwrap_or_default());
                    Arc::new(Failure { class, code, kind, message })
                }
            };
            attempts.push(Attempt { at, number, failure });
        }
        Self(attempts)
    }
}

fn write<S: Serializer>(attempts: &[Attempt], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Writing<'a> {
        at: Timestamp,
        number: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a Code>,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }
    let before = std::iter::once(None).chain(attempts.iter().map(Some));
    serializer.collect_seq(attempts.iter().zip(before).map(|(Attempt { at, number, failure }, before)| {
        let said = before.is_none_or(|before| !is_same(&before.failure, failure)).then_some(failure);
        Writing {
            at: *at,
            number: *number,
            class: said.map(|said| said.class.name()),
            code: said.and_then(|said| said.code.as_ref()),
            kind: said.map(|said| said.kind.as_str()),
            message: said.map(|said| said.message.as_str()),
        }
    }))
}

/// How long one was told to wait is not kept.
fn is_same(one: &Arc<Failure>, other: &Arc<Failure>) -> bool {
    Arc::ptr_eq(one, other)
        || (one.class.name() == other.class.name()
            && (&one.code, &one.kind, &one.message) == (&other.code, &other.kind, &other.message))
}

fn shorten(failure: Arc<Failure>) -> Arc<Failure> {
    match (cut(&failure.kind, MAX_KIND), cut(&failure.message, MAX_MESSAGE)) {
        (None, None) => failure,
        (kind, message) => {
            let Failure { class, code, .. } = &*failure;
            let kind = kind.unwrap_or_else(|| failure.kind.clone());
            let message = message.unwrap_or_else(|| failure.message.clone());
            Arc::new(Failure { class: *class, code: code.clone(), kind, message })
        }
    }
}

/// The beginning of a text that is longer than this.
fn cut(text: &str, max: usize) -> Option<String> {
    text.char_indices().nth(max).map(|(end, _)| format!("{} […cut]", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_latest_attempts_are_kept() {
        let mut history = History::default();
        for second in 0..25 {
            let at = Timestamp::from_second(second).unwrap();
            history = history.with(Failure::transient("Timeout", format!("at {second}")), at);
        }
        let numbers: Vec<u32> = history.attempts().iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [1, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
        assert_eq!(history.first_failed_at(), Some(Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn what_failed_the_same_way_is_stored_once_and_read_back_whole() {
        let unavailable = Failure::transient("Unavailable", "try later").with_code(Code::Http(503));
        let refused = Failure::permanent("Refused", "no such order");
        let history = [&unavailable, &unavailable, &refused, &unavailable, &unavailable]
            .into_iter()
            .zip(1..)
            .fold(History::default(), |history, (failure, second)| {
                history.with(failure.clone(), Timestamp::from_second(second).unwrap())
            });
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(text.matches("try later").count(), 2);
        assert!(text.contains(r#"{"at":"1970-01-01T00:00:02Z","number":2}"#), "{text}");
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }

    #[test]
    fn long_types_and_messages_are_cut() {
        let failure = Failure::permanent("K".repeat(300), "m".repeat(600));
        let history = History::default().with(failure, Timestamp::UNIX_EPOCH);
        let kept = &history.attempts()[0].failure;
        assert_eq!(kept.kind, format!("{} […cut]", "K".repeat(MAX_KIND)));
        assert_eq!(kept.message, format!("{} […cut]", "m".repeat(MAX_MESSAGE)));
    }

    /// A person may have edited it.
    #[test]
    fn an_attempt_with_nothing_before_it_says_nothing() {
        let history: History = serde_json::from_str(r#"[{"at":"1970-01-01T00:00:02Z","number":2}]"#).unwrap();
        assert_eq!(history.attempts()[0].failure.kind, "");
    }
}
