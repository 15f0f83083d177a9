//! Requests whose token nobody has: counted, logged now and then, and answered slowly.
//!
//! Their answers leave one after the other, [`SPACING`] apart and no sooner than [`LEAST`], however many connections
//! guess. A request with a token that somebody has waits for none of them. Nobody waits longer than [`MOST`], so that a
//! flood of guesses does not keep people from being told that they mistyped.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use metrics::counter;
use tokio::time::{Instant, sleep_until};

/// The least that a refusal takes.
const LEAST: Duration = Duration::from_millis(100);
/// Between two refusals.
const SPACING: Duration = Duration::from_millis(50);
/// The most that a refusal takes.
const MOST: Duration = Duration::from_secs(2);
/// How often refusals are logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Where a request came from, as its connection says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Why somebody is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There is no token.
    Missing,
    /// Nobody has this token.
    Unknown,
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing-token",
            Self::Unknown => "unknown-token",
        }
    }
}

/// Refusals so far. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Failures(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the latest of those that wait is answered.
    last: Option<Instant>,
    logged: Option<Instant>,
    /// How many were refused since then.
    unlogged: u64,
}

/// What was refused, for the log.
pub(crate) struct Attempt<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) peer: Option<Peer>,
}

impl Failures {
    /// Notes a refusal, and returns when it may be answered.
    pub(crate) async fn refused(&self, reason: Reason, attempt: Attempt<'_>) {
        counter!("redrive_authentication_failures_total", "reason" => reason.name()).increment(1);
        if reason == Reason::Missing {
            // Whoever has no token guesses nothing: a browser on its way to the login, a probe.
            return;
        }
        let (until, unlogged) = self.note();
        if let Some(refused) = unlogged {
            let peer = attempt.peer.map(|Peer(address)| address.to_string());
            tracing::warn!(
                method = %attempt.method,
                path = attempt.path,
                peer = peer.as_deref().unwrap_or("unknown"),
                refused,
                "a token that nobody has was refused"
            );
        }
        sleep_until(until).await;
    }

    /// When the answer may leave; how many were refused since the last line of the log, if it is time for another.
    fn note(&self) -> (Instant, Option<u64>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let turn = state.last.map_or(now, |last| last + SPACING);
        let until = turn.max(now + LEAST).min(now + MOST);
        state.last = Some(until);
        state.unlogged += 1;
        let is_due = state.logged.is_none_or(|logged| now - logged >= LOG_EVERY);
        let refused = is_due.then(|| {
            state.logged = Some(now);
            std::mem::take(&mut state.unlogged)
        });
        (until, refused)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.ip().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Attempt<'static> {
        Attempt { method: &Method::GET, path: "/metrics", peer: None }
    }

    /// A word as a token could be guessed as fast as the machine hashed.
    #[tokio::test(start_paused = true)]
    async fn guesses_are_answered_one_after_the_other_however_many_connections_there_are() {
        let failures = Failures::default();
        let begun = Instant::now();
        failures.refused(Reason::Unknown, attempt()).await;
        assert_eq!(begun.elapsed(), LEAST);
        let begun = Instant::now();
        futures_util::future::join_all((0..20).map(|_| failures.refused(Reason::Unknown, attempt()))).await;
        assert_eq!(begun.elapsed(), LEAST + SPACING * 19);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_long_and_nobody_without_a_token_waits_at_all() {
        let failures = Failures::default();
        let begun = Instant::now();
        futures_util::future::join_all((0..1_000).map(|_| failures.refused(Reason::Unknown, attempt())))
            .await;
        assert_eq!(begun.elapsed(), MOST);
        let begun = Instant::now();
        failures.refused(Reason::Missing, attempt()).await;
        assert!(begun.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_one_line_of_the_log_now_and_then() {
        let failures = Failures::default();
        assert_eq!(failures.note().1, Some(1));
        for _ in 0..500 {
            assert_eq!(failures.note().1, None);
        }
        tokio::time::advance(LOG_EVERY).await;
        assert_eq!(failures.note().1, Some(501));
    }
}
