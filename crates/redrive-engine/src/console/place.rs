//! A page of letters from several pipelines, and a place in such a list.
//!
//! The order is: newest first, then by the pipeline's name, then the latest number. It is stable while
//! letters arrive, as newcomers are newer.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::dead_letter::{Cursor, Filter, Listing, Page, Summary, Unavailable};

use super::{ConsoleError, Desk, Letterbox};

/// The moments that every store can compare with, in microseconds: years 1970 to 2199.
const MOMENTS: std::ops::Range<i64> = 0..7_258_118_400_000_000;

/// How long a page may be searched for: then it is shown as far as it was found, with where to go on.
const SEARCH: Duration = Duration::from_millis(150);

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
    /// When the letter at this place failed.
    #[must_use]
    pub fn failed_at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.cursor.failed_at).unwrap_or_default()
    }

    fn order(&self) -> (Reverse<i64>, &str, Reverse<i64>) {
        (Reverse(self.cursor.failed_at), &self.pipeline, Reverse(self.cursor.id))
    }

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
    let page = Page::first(limit).within(SEARCH);
    let asked = desks.iter().map(|desk| {
        let page = match after {
            Some(place) => page.after(place.of(desk.queue.pipeline())),
            None => page,
        };
        desk.queue.list(filter, page)
    });
    let names = desks.iter().map(|desk| desk.queue.pipeline());
    let answers = names.zip(futures_util::future::join_all(asked).await).collect();
    merge(answers, page.limit() as usize)
}

/// The letters of all desks as far as each of them has looked: one that was given no more time must not be overtaken
/// by the others, or its letters would be missing between theirs.
fn merge(
    answers: Vec<(&str, Result<Listing, Unavailable>)>,
    limit: usize,
) -> Result<Letterbox, ConsoleError> {
    let mut letters: Vec<Summary> = Vec::new();
    let (mut looked, mut answered, mut unavailable) = (Vec::new(), 0, Vec::new());
    for (pipeline, answer) in answers {
        match answer {
            Ok(listing) => {
                answered += 1;
                looked.extend(listing.next.map(|cursor| Place { cursor, pipeline: pipeline.to_owned() }));
                letters.extend(listing.letters);
            }
            Err(error) => unavailable.push(error),
        }
    }
    if answered == 0 && !unavailable.is_empty() {
        return Err(unavailable.remove(0).into());
    }
    let end = looked.into_iter().min_by(|a, b| a.order().cmp(&b.order()));
    letters.sort_by(|a, b| order(a).cmp(&order(b)));
    if let Some(end) = &end {
        letters.retain(|letter| order(letter) <= end.order());
    }
    let is_cut = letters.len() > limit;
    letters.truncate(limit);
    let last = letters.last().filter(|_| is_cut).map(|last| Place {
        cursor: Cursor { failed_at: last.failed_at.as_microsecond(), id: last.number() },
        pipeline: last.id.pipeline.clone(),
    });
    let unavailable =
        unavailable.into_iter().map(|error| (error.pipeline, error.source.to_string())).collect();
    let searched_to = end.as_ref().filter(|_| letters.len() < limit).map(Place::failed_at);
    Ok(Letterbox { letters, next: last.or(end), searched_to, unavailable })
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

    fn summary(pipeline: &str, failed_at: i64, id: i64) -> Summary {
        let failure = redrive_core::failure::Failure::transient("Timeout", "");
        Summary {
            id: redrive_core::dead_letter::LetterId::new(pipeline, id),
            kind: redrive_core::dead_letter::PipelineKind::Jobs,
            event_type: String::new(),
            key: String::new(),
            fingerprint: redrive_core::fingerprint::Fingerprint::of(pipeline, "", &failure),
            failure,
            attempts: 1,
            failed_at: Timestamp::from_microsecond(failed_at).unwrap(),
            status: redrive_core::dead_letter::Status::Open,
            redrive_count: 0,
        }
    }

    /// Its older letters would be missing between those of the others, as the next page begins after them.
    #[test]
    fn a_desk_that_has_not_looked_far_is_not_overtaken_by_the_others() {
        let slow =
            Listing { letters: vec![summary("slow", 90, 1)], next: Some(Cursor { failed_at: 50, id: 7 }) };
        let quick = Listing { letters: vec![summary("quick", 60, 2), summary("quick", 40, 1)], next: None };
        let page = merge(vec![("slow", Ok(slow)), ("quick", Ok(quick))], 10).unwrap();
        let shown: Vec<String> = page.letters.iter().map(|letter| letter.id.to_string()).collect();
        assert_eq!(shown, ["slow:1", "quick:2"]);
        let next = page.next.unwrap();
        assert_eq!((next.of("slow").failed_at, next.of("quick").failed_at), (50, 50));
        assert_eq!(page.searched_to, Some(Timestamp::from_microsecond(50).unwrap()));
    }

    #[test]
    fn a_full_page_goes_on_after_its_last_letter() {
        let one = Listing {
            letters: vec![summary("a", 90, 2), summary("a", 80, 1)],
            next: Some(Cursor { failed_at: 80, id: 1 }),
        };
        let other = Listing { letters: vec![summary("b", 85, 1)], next: None };
        let page = merge(vec![("a", Ok(one)), ("b", Ok(other))], 2).unwrap();
        let shown: Vec<String> = page.letters.iter().map(|letter| letter.id.to_string()).collect();
        assert_eq!(shown, ["a:2", "b:1"]);
        assert_eq!((page.next.unwrap().to_string(), page.searched_to), ("55.1.b".to_owned(), None));
    }
}
