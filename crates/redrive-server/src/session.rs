//! Sessions: who has logged in with a browser.
//!
//! A browser cannot send `Authorization` with a link, so a person gives the token once and gets a cookie
//! with a number that nobody can guess. The number stands for the person in this process only: it is kept as
//! a hash, for twelve hours, and a restart forgets it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::Caller;

const COOKIE_NAME: &str = "redrive_session";
const LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// When there are more, the one that would end first ends now.
const MOST: usize = 1_000;

type Hash = [u8; 32];

/// Who has logged in. Clones are the same book.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<Hash, Session>>>);

struct Session {
    caller: Caller,
    until: Instant,
}

/// Whether the browser may send the cookie over plain HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Plain,
    Encrypted,
}

impl Sessions {
    /// Opens a session; returns the cookie to set.
    pub(crate) fn open(&self, caller: Caller, wire: Wire) -> Result<String, getrandom::Error> {
        let mut number = [0; 32];
        getrandom::fill(&mut number)?;
        let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut open = self.lock();
        let now = Instant::now();
        open.retain(|_, session| session.until > now);
        if open.len() >= MOST {
            let first = open.iter().min_by_key(|(_, session)| session.until).map(|(hash, _)| *hash);
            first.map(|hash| open.remove(&hash));
        }
        open.insert(hash(&number), Session { caller, until: now + LASTS });
        Ok(cookie(&number, LASTS, wire))
    }

    /// Whose request this is, by its cookie.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<Caller> {
        let number = number(headers)?;
        let open = self.lock();
        let session = open.get(&hash(number)).filter(|session| session.until > Instant::now());
        session.map(|session| session.caller.clone())
    }

    /// Ends the session of this request; returns the cookie that takes the other one away.
    pub(crate) fn close(&self, headers: &HeaderMap) -> String {
        if let Some(number) = number(headers) {
            self.lock().remove(&hash(number));
        }
        cookie("", Duration::ZERO, Wire::Plain)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cookie(number: &str, lasts: Duration, wire: Wire) -> String {
    let secure = if wire == Wire::Encrypted { "; Secure" } else { "" };
    let seconds = lasts.as_secs();
    format!("{COOKIE_NAME}={number}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn number(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, number)| number)
}

fn hash(number: &str) -> Hash {
    Sha256::digest(number).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn otto() -> Caller {
        Caller { name: "otto".to_owned(), role: Role::Operator }
    }

    fn sent_back(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, format!("other=1; {pair}").parse().unwrap())])
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lasts_twelve_hours_and_not_longer() {
        let sessions = Sessions::default();
        let headers = sent_back(&sessions.open(otto(), Wire::Plain).unwrap());
        tokio::time::advance(LASTS - Duration::from_secs(1)).await;
        assert_eq!(sessions.find(&headers), Some(otto()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(sessions.find(&headers), None);
    }

    #[tokio::test]
    async fn a_closed_session_is_nobody() {
        let sessions = Sessions::default();
        let headers = sent_back(&sessions.open(otto(), Wire::Plain).unwrap());
        assert!(sessions.close(&headers).contains("Max-Age=0"));
        assert_eq!(sessions.find(&headers), None);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_too_many_and_the_oldest_goes_first() {
        let sessions = Sessions::default();
        let first = sent_back(&sessions.open(otto(), Wire::Plain).unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = sent_back(&sessions.open(otto(), Wire::Plain).unwrap());
        for _ in 0..MOST - 1 {
            tokio::time::advance(Duration::from_secs(1)).await;
            sessions.open(otto(), Wire::Plain).unwrap();
        }
        assert_eq!(sessions.lock().len(), MOST);
        assert_eq!((sessions.find(&first), sessions.find(&second)), (None, Some(otto())));
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_the_cookie() {
        let cookie = Sessions::default().open(otto(), Wire::Encrypted).unwrap();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Secure", "; Max-Age=43200"] {
            assert!(cookie.contains(part), "{part} in {cookie}");
        }
    }

    #[test]
    fn rubbish_is_nobody() {
        let sessions = Sessions::default();
        for value in ["", "redrive_session", "redrive_session=", "redrive_session=0", "x=redrive_session=1"] {
            let headers = HeaderMap::from_iter([(COOKIE, value.parse().unwrap())]);
            assert_eq!(sessions.find(&headers), None, "{value}");
        }
    }
}
