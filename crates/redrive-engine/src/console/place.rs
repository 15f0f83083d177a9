//! A page of letters from several pipelines, and a place in such a list.
//!
//! The order is: newest first, then by the pipeline's name, then the latest number. It is stable while
//! letters arrive, as newcomers are newer.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use redrive_core::dead_letter::{Cursor, Filter, Listing, Page, Summary, Unavailable};

use super::{ConsoleError, Desk, Letterbox};

/// The moments that every store can compare with, in microseconds: years 1970 to 2199.
const MOMENTS: std::ops::Range<i64> = 0..7_258_118_400_000_000;

/// A place in the list of all letters: after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    cursor: Cursor,
    pipeline: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cursor, self.pipeline)
    }
}

/// A text that no list has handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not one that a list has returned: start again without it")]
pub struct NotAPlace;

impl FromStr for Place {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, '.');
        let (Some(at), Some(id), Some(pipeline)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NotAPlace);
        };
        let cursor: Cursor = format!("{at}.{id}").parse().map_err(|_| NotAPlace)?;
        if !MOMENTS.contains(&cursor.failed_at) {
            return Err(NotAPlace);
        }
        Ok(Self { cursor, pipeline: pipeline.to_owned() })
    }
}

impl Place {
    /// Where this pipeline goes on: those before ours by name have shown all of that moment, those after
    /// it none.
    fn of(&self, pipeline: &str) -> Cursor {
        let id = match pipeline.cmp(self.pipeline.as_str()) {
            std::cmp::Ordering::Less => i64::MIN,
            std::cmp::Ordering::Equal => self.cursor.id,
            std::cmp::Ordering::Greater => i64::MAX,
        };
        Cursor { failed_at: self.cursor.failed_at, id }
    }
}

/// One page over all desks. A desk that does not answer is named, unless none does.
pub(super) async fn list(
    desks: &[&Desk],
    filter: &Filter,
    limit: u32,
    after: Option<&Place>,
) -> Result<Letterbox, ConsoleError> {
    let page = Page::first(limit);
    let asked = desks.iter().map(|desk| {
        let page = match after {
            Some(place) => page.after(place.of(desk.queue.pipeline())),
            None => page,
        };
        desk.queue.list(filter, page)
    });
    merge(futures_util::future::join_all(asked).await, page.limit() as usize)
}

fn merge(answers: Vec<Result<Listing, Unavailable>>, limit: usize) -> Result<Letterbox, ConsoleError> {
    let mut letters: Vec<Summary> = Vec::new();
    let (mut more, mut answered, mut unavailable) = (false, 0, Vec::new());
    for answer in answers {
        match answer {
            Ok(listing) => {
                answered += 1;
                more |= listing.next.is_some();
                letters.extend(listing.letters);
            }
            Err(error) => unavailable.push(error),
        }
    }
    if answered == 0 && !unavailable.is_empty() {
        return Err(unavailable.remove(0).into());
    }
    letters.sort_by(|a, b| order(a).cmp(&order(b)));
    more |= letters.len() > limit;
    letters.truncate(limit);
    let next = letters.last().filter(|_| more).map(|last| Place {
        cursor: Cursor { failed_at: last.failed_at.as_microsecond(), id: last.number() },
        pipeline: last.id.pipeline.clone(),
    });
    let unavailable =
        unavailable.into_iter().map(|error| (error.pipeline, error.source.to_string())).collect();
    Ok(Letterbox { letters, next, unavailable })
}

fn order(letter: &Summary) -> (Reverse<i64>, &str, Reverse<i64>) {
    (Reverse(letter.failed_at.as_microsecond()), letter.id.pipeline.as_str(), Reverse(letter.number()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_text_form_and_rubbish_is_refused() {
        let place =
            Place { cursor: Cursor { failed_at: 1_700_000_000_000_000, id: 42 }, pipeline: "a.b".into() };
        assert_eq!(place.to_string().parse(), Ok(place));
        for rubbish in ["", "1.2", "x.y.z", "1..a", "7fffffffffffffff.1.a", "-1.1.a"] {
            assert_eq!(rubbish.parse::<Place>(), Err(NotAPlace), "{rubbish}");
        }
    }

    #[test]
    fn each_pipeline_goes_on_where_the_page_ended() {
        let place = Place { cursor: Cursor { failed_at: 7, id: 42 }, pipeline: "m".into() };
        assert_eq!(place.of("a").id, i64::MIN, "all of that moment has been shown");
        assert_eq!(place.of("m").id, 42);
        assert_eq!(place.of("z").id, i64::MAX, "none of that moment has been shown");
    }
}
