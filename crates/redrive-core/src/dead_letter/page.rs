//! A part of a list of letters, and a place in it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Summary;

/// The most letters that one page holds.
pub const MAX_PAGE: u32 = 500;

/// A place in a list: after the letter that failed then and has this number.
///
/// Stable while letters arrive: newcomers are newer, so they stay on the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the last letter of the page failed, in microseconds since 1970.
    pub failed_at: i64,
    /// Its number.
    pub id: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.failed_at, self.id)
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (failed_at, id) = text.split_once('.').ok_or(NotACursor)?;
        let number = |part| i64::from_str_radix(part, 16).map_err(|_| NotACursor);
        Ok(Self { failed_at: number(failed_at)?, id: number(id)? })
    }
}

/// A text that no list has handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not one that a list has returned: start again without it")]
pub struct NotACursor;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    after: Option<Cursor>,
    time: Option<Duration>,
}

impl Page {
    /// The first `limit` letters, newest first; at least 1 and at most [`MAX_PAGE`].
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { limit: limit.clamp(1, MAX_PAGE), after: None, time: None }
    }

    /// The same number of letters, from after this place.
    #[must_use]
    pub const fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// The same page, if it is found within about this time; else as much of it as was found.
    #[must_use]
    pub const fn within(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// About how long the search may take; as long as it takes, if nothing is said.
    #[must_use]
    pub const fn time(&self) -> Option<Duration> {
        self.time
    }

    /// How many letters at most.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Where it starts.
    #[must_use]
    pub const fn cursor(&self) -> Option<Cursor> {
        self.after
    }
}

/// Ids of letters, the longest dead first, for whoever is about to act on many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// The local ids.
    pub ids: Vec<String>,
    /// Where to go on; nothing at the end.
    pub next: Option<Cursor>,
}

/// One page of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The letters, newest first.
    pub letters: Vec<Summary>,
    /// Where the next page starts; nothing at the end. With fewer letters than were asked for, the search was given no
    /// more time, and this is how far it looked.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_rubbish_is_refused() {
        let cursor = Cursor { failed_at: 1_700_000_000_000_000, id: 42 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("; drop table".parse::<Cursor>(), Err(NotACursor));
    }

    #[test]
    fn a_page_is_never_empty_and_never_too_large() {
        assert_eq!(Page::first(0).limit(), 1);
        assert_eq!(Page::first(u32::MAX).limit(), MAX_PAGE);
    }
}
