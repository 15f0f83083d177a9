//! A list of spooled files: which of them a filter means, and in which order they come. Pure.
//!
//! Files have their time to the second, so a whole second is looked at at once, and within it the number of a
//! letter decides.

use jiff::Timestamp;
use redrive_core::dead_letter::{Cursor, Filter, Summary};

/// Where a letter is in the order of time.
pub(super) fn place(letter: &Summary) -> (i64, i64) {
    (letter.failed_at.as_microsecond(), letter.number())
}

/// Which letters come first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Newest,
    Oldest,
}

impl First {
    pub(super) fn is_after(self, letter: &Summary, cursor: Cursor) -> bool {
        let cursor = (cursor.failed_at, cursor.id);
        match self {
            Self::Newest => place(letter) < cursor,
            Self::Oldest => place(letter) > cursor,
        }
    }

    /// Where to begin, given the place of a cursor.
    pub(super) fn start(self, from: Option<Timestamp>, filter: &Filter) -> Timestamp {
        match self {
            Self::Newest => from.into_iter().chain(filter.until).min().unwrap_or(Timestamp::MAX),
            Self::Oldest => from.into_iter().chain(filter.since).max().unwrap_or(Timestamp::MIN),
        }
    }

    /// Whether nothing that the filter means comes after this second.
    pub(super) fn is_past(self, last: Timestamp, filter: &Filter) -> bool {
        match self {
            Self::Newest => filter.since.is_some_and(|since| last < since),
            Self::Oldest => filter.until.is_some_and(|until| last >= until),
        }
    }

    /// The second after this one.
    pub(super) fn next(self, last: Timestamp) -> Option<Timestamp> {
        let second = jiff::SignedDuration::from_secs(1);
        match self {
            Self::Newest => last.checked_sub(second).ok(),
            Self::Oldest => last.checked_add(second).ok(),
        }
    }
}

pub(super) fn is_meant(letter: &Summary, filter: &Filter) -> bool {
    let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted == text);
    let text = |wanted: &String| letter.failure.message.to_lowercase().contains(&wanted.to_lowercase());
    filter.status.is_none_or(|status| status == letter.status)
        && is(&filter.event_type, &letter.event_type)
        && is(&filter.key, &letter.key)
        && is(&filter.class, letter.failure.class.name())
        && filter.code.is_none()
        && filter.group.is_none_or(|group| group == letter.fingerprint)
        && filter.text.as_ref().is_none_or(text)
        && filter.since.is_none_or(|since| letter.failed_at >= since)
        && filter.until.is_none_or(|until| letter.failed_at < until)
        && filter.arrived_since.is_none_or(|since| letter.failed_at >= since)
        && filter.redriven_below.is_none_or(|below| letter.redrive_count < below)
}
