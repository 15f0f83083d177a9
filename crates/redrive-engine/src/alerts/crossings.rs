//! Crossings: when a count of letters passes its threshold, in either direction.

use std::collections::HashSet;

use super::alert::Level;
use super::inert::Inert;

/// A threshold was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// The count has reached it.
    Reached,
    /// The count is under it again.
    Recovered,
}

/// Which pipelines have reached their threshold.
#[derive(Debug, Default)]
pub struct Crossings {
    over: HashSet<Inert>,
}

impl Crossings {
    /// Takes in a count, and says whether it passed the threshold since the last one.
    pub fn observe(&mut self, level: &Level) -> Option<Crossing> {
        if level.count >= level.threshold {
            self.over.insert(level.pipeline.clone()).then_some(Crossing::Reached)
        } else {
            self.over.remove(&level.pipeline).then_some(Crossing::Recovered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(crossings: &mut Crossings, pipeline: &str, count: u64) -> Option<Crossing> {
        crossings.observe(&Level { pipeline: pipeline.into(), count, threshold: 10 })
    }

    #[test]
    fn each_crossing_is_told_once() {
        let mut crossings = Crossings::default();
        let told: Vec<_> =
            [0, 9, 10, 11, 500, 10, 9, 3, 10].map(|count| observe(&mut crossings, "orders", count)).into();
        use Crossing::{Reached, Recovered};
        assert_eq!(told, [None, None, Some(Reached), None, None, None, Some(Recovered), None, Some(Reached)]);
    }

    #[test]
    fn pipelines_do_not_share_a_threshold() {
        let mut crossings = Crossings::default();
        assert_eq!(observe(&mut crossings, "orders", 10), Some(Crossing::Reached));
        assert_eq!(observe(&mut crossings, "payments", 0), None);
        assert_eq!(observe(&mut crossings, "payments", 10), Some(Crossing::Reached));
    }
}
