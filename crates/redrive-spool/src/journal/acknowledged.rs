//! Which records are acknowledged: all up to a number, and some ranges above it.

use std::collections::BTreeMap;

/// How many ranges one frame keeps: so many batches may be under way at a time. What does not fit is
/// delivered again after a crash.
const MOST_ISLANDS: usize = 1_000;

/// The numbers that are acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    up_to: u64,
    /// Ranges above, by their first number; they neither touch each other nor `up_to`.
    islands: BTreeMap<u64, u64>,
}

impl Acknowledged {
    /// Everything up to this number.
    pub(super) const fn up_to(&self) -> u64 {
        self.up_to
    }

    /// The highest number that is acknowledged.
    pub(super) fn highest(&self) -> u64 {
        self.islands.last_key_value().map_or(self.up_to, |(_, last)| *last)
    }

    /// Adds a range, both ends included. Whether it told anything new.
    pub(super) fn add(&mut self, first: u64, last: u64) -> bool {
        let first = first.max(self.up_to + 1);
        if last < first || self.holds(first, last) {
            return false;
        }
        if first == self.up_to + 1 {
            self.up_to = last;
        } else {
            self.join(first, last);
        }
        self.drown();
        true
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.holds(number, number)
    }

    /// How many of the numbers up to this one are not acknowledged.
    pub(super) fn missing(&self, last: u64) -> u64 {
        let above: u64 = self.islands.iter().map(|(first, last)| last - first + 1).sum();
        last.saturating_sub(self.up_to).saturating_sub(above)
    }

    /// Which of the numbers from here to there are not acknowledged.
    pub(super) fn lacking(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut lacking = Vec::new();
        let mut from = first.max(self.up_to + 1);
        for (start, end) in self.islands.range(..=last).filter(|(_, end)| **end >= first) {
            if from < *start {
                lacking.push((from, start - 1));
            }
            from = end + 1;
        }
        if from <= last {
            lacking.push((from, last));
        }
        lacking
    }

    /// The ranges, as an acknowledging frame carries them.
    pub(super) fn encode(&self) -> Vec<u8> {
        let pairs = self.islands.iter().take(MOST_ISLANDS);
        pairs.flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()]).flatten().collect()
    }

    /// Adds what a frame says.
    pub(super) fn learn(&mut self, up_to: u64, islands: &[u8]) {
        self.add(1, up_to);
        for pair in islands.chunks_exact(16) {
            let (first, last) = pair.split_at(8);
            self.add(number(first), number(last));
        }
    }

    fn holds(&self, first: u64, last: u64) -> bool {
        let within = |(_, island): (&u64, &u64)| last <= *island;
        last <= self.up_to || self.islands.range(..=first).next_back().is_some_and(within)
    }

    /// Adds an island, and makes one of those that it touches.
    fn join(&mut self, mut first: u64, mut last: u64) {
        if let Some((&start, &end)) = self.islands.range(..=first).next_back()
            && end + 1 >= first
        {
            first = start;
            last = last.max(end);
        }
        while let Some((&start, &end)) = self.islands.range(first..=last.saturating_add(1)).next() {
            last = last.max(end);
            self.islands.remove(&start);
        }
        self.islands.insert(first, last);
    }

    /// Islands that `up_to` has reached are no islands.
    fn drown(&mut self) {
        while let Some(entry) = self.islands.first_entry()
            && *entry.key() <= self.up_to + 1
        {
            self.up_to = self.up_to.max(entry.remove());
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_le_bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_what_a_set_of_numbers_would_be(ranges in prop::collection::vec((1_u64..40, 0_u64..6), 0..30)) {
            let mut acknowledged = Acknowledged::default();
            let mut set = BTreeSet::new();
            for (first, length) in ranges {
                let new = (first..=first + length).filter(|number| set.insert(*number)).count() > 0;
                prop_assert_eq!(acknowledged.add(first, first + length), new);
            }
            for number in 1..60 {
                prop_assert_eq!(acknowledged.contains(number), set.contains(&number));
            }
            prop_assert_eq!(acknowledged.missing(60), 60 - set.len() as u64);
            let lacking: Vec<u64> =
                acknowledged.lacking(5, 50).into_iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(lacking, (5..=50).filter(|number| !set.contains(number)).collect::<Vec<_>>());
            let mut again = Acknowledged::default();
            again.learn(acknowledged.up_to(), &acknowledged.encode());
            prop_assert_eq!(again, acknowledged);
        }
    }
}
