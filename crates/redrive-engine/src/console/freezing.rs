//! Freezing: which letters an operation means is written down before the first of them is sent.
//!
//! The set is what was there at the confirmation, the longest dead first, in portions of one pipeline each.
//! One that was interrupted begins again from nothing: as nothing is sent before the set is whole, that costs
//! time only.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use redrive_store::{Operation, Portion};

use super::Desk;
use super::request::Request;
use super::sending::{Sending, Trouble};

/// How many letters are sent in one transaction.
const PORTION: u32 = 2_000;
/// How many portions are written down in one.
const AT_ONCE: u32 = 10;

/// How a freeze ended.
pub(super) enum Frozen {
    /// Every letter that is meant is written down.
    Whole,
    /// It was cancelled meanwhile, or another one carries it out.
    Taken,
}

impl Sending {
    /// Writes down which letters are meant by an operation that is `now` so far.
    pub(super) async fn freeze(&self, request: &Request, now: &Operation) -> Result<Frozen, Trouble> {
        if now.total > 0 {
            self.console.records.operations.thaw(now.id).await?;
        }
        let request = as_confirmed(request, now.created_at);
        let mut number = 0;
        if !request.ids.is_empty() {
            return self.freeze_named(&request, &mut number).await;
        }
        for desk in self.console.meant_by(&request)? {
            if let Frozen::Taken = self.freeze_found(&request, desk, &mut number).await? {
                return Ok(Frozen::Taken);
            }
        }
        Ok(Frozen::Whole)
    }

    /// Those of one pipeline that the filter means.
    async fn freeze_found(
        &self,
        request: &Request,
        desk: &Desk,
        number: &mut i64,
    ) -> Result<Frozen, Trouble> {
        let (mut sizes, mut after) = (Sizes::of(request), None);
        let pipeline = desk.queue.pipeline();
        loop {
            let size = sizes.next_size();
            let page = self.ask(pipeline, desk.queue.ids(&request.filter, after, size.at_once())).await?;
            self.add(pipeline, &page.ids, &size, number).await?;
            after = page.next;
            if after.is_none() {
                return Ok(Frozen::Whole);
            }
            if !self.hold().await? {
                return Ok(Frozen::Taken);
            }
        }
    }

    /// Those that were named one by one.
    async fn freeze_named(&self, request: &Request, number: &mut i64) -> Result<Frozen, Trouble> {
        for (pipeline, ids) in by_pipeline(request) {
            let (mut sizes, mut left) = (Sizes::of(request), ids.as_slice());
            while !left.is_empty() {
                let size = sizes.next_size();
                let (next, later) = left.split_at(left.len().min(size.at_once() as usize));
                left = later;
                self.add(pipeline, next, &size, number).await?;
                if !self.hold().await? {
                    return Ok(Frozen::Taken);
                }
            }
        }
        Ok(Frozen::Whole)
    }

    async fn add(
        &self,
        pipeline: &str,
        ids: &[String],
        size: &Size,
        number: &mut i64,
    ) -> Result<(), Trouble> {
        let numbered = |(number, ids): (i64, &[String])| Portion {
            number,
            pipeline: pipeline.to_owned(),
            ids: ids.to_vec(),
            followed: size.followed,
            sent: false,
        };
        let portions: Vec<_> =
            (*number..).zip(ids.chunks(size.letters.max(1) as usize)).map(numbered).collect();
        if !portions.is_empty() {
            self.console.records.operations.freeze(self.operation.id, &portions).await?;
        }
        *number += portions.len() as i64;
        Ok(())
    }
}

/// The letters that are named, each once, in the order in which they were.
fn by_pipeline(request: &Request) -> BTreeMap<&str, Vec<String>> {
    let (mut named, mut seen) = (BTreeMap::<&str, Vec<String>>::new(), HashSet::new());
    for id in request.ids.iter().filter(|id| seen.insert(*id)) {
        named.entry(&id.pipeline).or_default().push(id.local.clone());
    }
    named
}

/// The request with newcomers left out, however late it is carried out: what died after the confirmation is
/// not meant. The ledger's clock decides, and the stores' clocks are compared with it.
fn as_confirmed(request: &Request, at: Timestamp) -> Request {
    // The ledger may tell no more than milliseconds.
    let at = at.checked_add(SignedDuration::from_millis(1)).unwrap_or(at);
    let mut request = request.clone();
    request.filter.until = Some(request.filter.until.map_or(at, |until| until.min(at)));
    request
}

/// How large the portions of a pipeline are: the steps of the ramp, then the rest; none larger than what the
/// rate allows in a second, so a step may be several portions, each followed.
struct Sizes {
    steps: std::vec::IntoIter<u32>,
    /// What is left of the step.
    left: u32,
    most: u32,
}

struct Size {
    letters: u32,
    followed: bool,
}

impl Size {
    /// How many letters are written down in one. A step of the ramp is a portion of its own.
    const fn at_once(&self) -> u32 {
        if self.followed { self.letters } else { self.letters * AT_ONCE }
    }
}

impl Sizes {
    fn of(request: &Request) -> Self {
        let steps = request.canary.as_ref().map(|canary| canary.steps.clone()).unwrap_or_default();
        let most = request.rate.map_or(PORTION, |rate| rate.clamp(1, PORTION));
        Self { steps: steps.into_iter(), left: 0, most }
    }

    fn next_size(&mut self) -> Size {
        if self.left == 0 {
            self.left = self.steps.next().unwrap_or_default();
        }
        if self.left == 0 {
            return Size { letters: self.most, followed: false };
        }
        let letters = self.left.min(self.most);
        self.left -= letters;
        Size { letters, followed: true }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::Filter;

    use super::super::request::{Action, Canary};
    use super::*;

    fn sizes(rate: Option<u32>) -> Vec<(u32, bool)> {
        let canary = Some(Canary { steps: vec![1, 5], ..Canary::default() });
        let request = Request { rate, canary, ..Request::new(Action::Redrive, Filter::default()) };
        let mut sizes = Sizes::of(&request);
        std::iter::repeat_with(|| sizes.next_size())
            .map(|size| (size.letters, size.followed))
            .take(5)
            .collect()
    }

    #[test]
    fn the_rate_binds_the_ramp_too() {
        let rest = (PORTION, false);
        assert_eq!(sizes(None), [(1, true), (5, true), rest, rest, rest]);
        assert_eq!(sizes(Some(2)), [(1, true), (2, true), (2, true), (1, true), (2, false)]);
    }

    #[test]
    fn what_died_after_the_confirmation_is_not_meant() {
        let at: Timestamp = "2026-11-16T14:00:00Z".parse().unwrap();
        let until = |asked: Option<&str>| {
            let until = asked.map(|text| text.parse().unwrap());
            let request = Request::new(Action::Redrive, Filter { until, ..Filter::default() });
            as_confirmed(&request, at).filter.until.unwrap().to_string()
        };
        assert_eq!(until(None), "2026-11-16T14:00:00.001Z");
        assert_eq!(until(Some("2026-11-16T13:00:00Z")), "2026-11-16T13:00:00Z");
        assert_eq!(until(Some("2026-11-16T15:00:00Z")), "2026-11-16T14:00:00.001Z");
    }
}
