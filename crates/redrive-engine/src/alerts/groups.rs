//! Groups: the first letter of a kind is told at once, the others are counted.
//!
//! Ten thousand equal failures are one alert and, when the window closes, one count. A window that
//! closes with a count opens the next one; one that closes without forgets the group, so that its next
//! letter is told at once again. Pure: the time comes in as an argument.

use std::collections::HashMap;
use std::time::Duration;

use redrive_core::fingerprint::Fingerprint;
use tokio::time::Instant;

use super::alert::{Alert, DeadLetterAlert, Grouping, MoreLetters};
use super::inert::Inert;

/// Letters by pipeline and fingerprint.
#[derive(Debug)]
pub(super) struct Groups {
    window: Duration,
    capacity: usize,
    open: HashMap<(Inert, Fingerprint), Group>,
    /// Letters of groups that did not fit.
    mixed: Option<Group>,
}

#[derive(Debug)]
struct Group {
    since: Instant,
    count: u64,
    latest: DeadLetterAlert,
}

impl Groups {
    /// No groups yet; at most `capacity` are kept apart.
    pub(super) fn new(window: Duration, capacity: usize) -> Self {
        Self { window, capacity, open: HashMap::new(), mixed: None }
    }

    /// Takes in a letter: the alert, if it is the first of its group.
    pub(super) fn observe(&mut self, letter: DeadLetterAlert, now: Instant) -> Option<Alert> {
        let key = (letter.pipeline.clone(), letter.fingerprint);
        if let Some(group) = self.open.get_mut(&key) {
            group.count(letter);
            return None;
        }
        if self.open.len() >= self.capacity {
            self.mix(letter, now);
            return None;
        }
        self.open.insert(key, Group { since: now, count: 0, latest: letter.clone() });
        Some(Alert::DeadLetter(letter))
    }

    /// When the next window closes.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let groups = self.open.values().chain(&self.mixed);
        groups.map(|group| group.since + self.window).min()
    }

    /// Closes the windows that are over: their counts, the largest first.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Alert> {
        let window = self.window;
        let mut counts = Vec::new();
        self.open.retain(|_, group| {
            if now < group.since + window {
                return true;
            }
            let count = group.close(Grouping::Same, now);
            let goes_on = count.is_some();
            counts.extend(count);
            goes_on
        });
        let mixed = self.mixed.take_if(|group| now >= group.since + window);
        counts.extend(mixed.and_then(|mut group| group.close(Grouping::Mixed, now)));
        largest_first(counts)
    }

    /// Closes every window, over or not.
    pub(super) fn flush(&mut self, now: Instant) -> Vec<Alert> {
        let open = std::mem::take(&mut self.open);
        let mut counts: Vec<_> =
            open.into_values().filter_map(|mut group| group.close(Grouping::Same, now)).collect();
        counts.extend(self.mixed.take().and_then(|mut group| group.close(Grouping::Mixed, now)));
        largest_first(counts)
    }

    fn mix(&mut self, letter: DeadLetterAlert, now: Instant) {
        match &mut self.mixed {
            Some(group) => group.count(letter),
            None => self.mixed = Some(Group { since: now, count: 1, latest: letter }),
        }
    }
}

impl Group {
    fn count(&mut self, letter: DeadLetterAlert) {
        self.count += 1;
        self.latest = letter;
    }

    /// What was counted since the last time, if anything; counting starts anew.
    fn close(&mut self, groups: Grouping, now: Instant) -> Option<MoreLetters> {
        let within = now.duration_since(std::mem::replace(&mut self.since, now));
        let count = std::mem::take(&mut self.count);
        (count > 0).then(|| MoreLetters { latest: self.latest.clone(), count, within, groups })
    }
}

fn largest_first(mut counts: Vec<MoreLetters>) -> Vec<Alert> {
    counts.sort_by(|one, other| {
        other.count.cmp(&one.count).then_with(|| one.latest.event_id.cmp(&other.latest.event_id))
    });
    counts.into_iter().map(Alert::MoreLetters).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(600);

    fn letter(kind: u64, number: u64) -> DeadLetterAlert {
        DeadLetterAlert {
            pipeline: "orders".into(),
            event_id: number.to_string().into(),
            event_type: "OrderCreated".into(),
            aggregate_type: "Order".into(),
            aggregate_id: "42".into(),
            retry_count: 5,
            error: "refused".into(),
            failed_at: Timestamp::UNIX_EPOCH,
            fingerprint: Fingerprint::from_bits(kind),
        }
    }

    fn counts(alerts: &[Alert]) -> Vec<(u64, Grouping)> {
        let count = |alert: &Alert| match alert {
            Alert::MoreLetters(more) => (more.count, more.groups),
            other => panic!("{other:?} is no count"),
        };
        alerts.iter().map(count).collect()
    }

    #[test]
    fn the_first_of_a_group_is_told_and_the_others_are_counted() {
        let (mut groups, now) = (Groups::new(WINDOW, 10), Instant::now());
        assert!(groups.observe(letter(1, 1), now).is_some());
        for number in 2..=100 {
            assert_eq!(groups.observe(letter(1, number), now), None);
        }
        assert!(groups.observe(letter(2, 101), now).is_some());
        assert_eq!(groups.due(now + WINDOW - Duration::from_nanos(1)), []);
        assert_eq!(counts(&groups.due(now + WINDOW)), [(99, Grouping::Same)]);
    }

    #[test]
    fn a_group_that_goes_on_is_counted_window_by_window_and_one_that_ended_is_forgotten() {
        let (mut groups, now) = (Groups::new(WINDOW, 10), Instant::now());
        groups.observe(letter(1, 1), now);
        groups.observe(letter(1, 2), now);
        assert_eq!(groups.due(now + WINDOW).len(), 1);
        assert_eq!(groups.next_due(), Some(now + WINDOW * 2));
        assert_eq!(groups.observe(letter(1, 3), now + WINDOW), None);
        assert_eq!(groups.due(now + WINDOW * 2).len(), 1);
        assert_eq!(groups.due(now + WINDOW * 3), []);
        assert_eq!(groups.next_due(), None);
        assert!(groups.observe(letter(1, 4), now + WINDOW * 3).is_some());
    }

    #[test]
    fn the_number_of_groups_is_bounded_and_what_does_not_fit_is_counted() {
        let (mut groups, now) = (Groups::new(WINDOW, 10), Instant::now());
        let told = (0..1000).filter(|&kind| groups.observe(letter(kind, kind), now).is_some()).count();
        assert_eq!((told, groups.open.len()), (10, 10));
        assert_eq!(counts(&groups.due(now + WINDOW)), [(990, Grouping::Mixed)]);
        assert!(groups.observe(letter(2000, 1), now + WINDOW).is_some());
    }

    #[test]
    fn at_the_end_every_count_is_told_the_largest_first() {
        let (mut groups, now) = (Groups::new(WINDOW, 2), Instant::now());
        for (kind, times) in [(1, 3), (2, 6), (3, 4)] {
            (0..times).for_each(|number| drop(groups.observe(letter(kind, number), now)));
        }
        let expected = [(5, Grouping::Same), (4, Grouping::Mixed), (2, Grouping::Same)];
        assert_eq!(counts(&groups.flush(now)), expected);
        assert_eq!(groups.flush(now), []);
    }
}
