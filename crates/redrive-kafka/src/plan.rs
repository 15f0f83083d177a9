//! The plan of a batch: what became of its records in, what to publish out. Pure.
//!
//! **The whole batch is judged before anything is published.** A poison record and an outage in one
//! batch would otherwise publish the poison, then fail, then publish it again.

use redrive_core::failure::Failure;

/// What became of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored, or was already.
    Stored,
    /// It fails alone, and would again.
    Poison(Failure),
    /// It was tried as often as allowed, and whether it is good was not found out.
    Undecided(Failure),
}

/// Which consumer holds the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The one of the stream itself.
    Stream,
    /// The one of the parking lot.
    Parking,
}

/// A topic of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// What fails and would again.
    Dlq,
    /// What may yet succeed, later.
    Parking,
    /// What the parking lot gave up.
    ParkingDlq,
}

impl Destination {
    /// Every topic of letters.
    pub const ALL: [Self; 3] = [Self::Dlq, Self::Parking, Self::ParkingDlq];

    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dlq => "dlq",
            Self::Parking => "parking",
            Self::ParkingDlq => "parking-dlq",
        }
    }
}

/// What to do about a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How many of its records are stored.
    pub stored: usize,
    /// The others: which one, where to, why. In the order of the batch.
    pub letters: Vec<(usize, Destination, Failure)>,
}

/// The plan for a batch whose records have these outcomes.
#[must_use]
pub fn plan(stage: Stage, outcomes: Vec<Outcome>) -> Plan {
    let mut plan = Plan { stored: 0, letters: Vec::new() };
    for (index, outcome) in outcomes.into_iter().enumerate() {
        match (outcome, stage) {
            (Outcome::Stored, _) => plan.stored += 1,
            (Outcome::Poison(failure), _) => plan.letters.push((index, Destination::Dlq, failure)),
            (Outcome::Undecided(failure), Stage::Stream) => {
                plan.letters.push((index, Destination::Parking, failure));
            }
            (Outcome::Undecided(failure), Stage::Parking) => {
                plan.letters.push((index, Destination::ParkingDlq, failure));
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
        let outcome = prop_oneof![
            Just(Outcome::Stored),
            "[a-z]{3}".prop_map(|text| Outcome::Poison(Failure::permanent("P", text))),
            "[a-z]{3}".prop_map(|text| Outcome::Undecided(Failure::transient("T", text))),
        ];
        proptest::collection::vec(outcome, 0..50)
    }

    proptest! {
        #[test]
        fn every_record_is_stored_or_becomes_exactly_one_letter(
            outcomes in outcomes(),
            stage in prop_oneof![Just(Stage::Stream), Just(Stage::Parking)],
        ) {
            let plan = plan(stage, outcomes.clone());
            prop_assert_eq!(plan.stored + plan.letters.len(), outcomes.len());
            prop_assert!(plan.letters.is_sorted_by_key(|(index, ..)| *index));
            for (index, destination, failure) in &plan.letters {
                let expected = match (&outcomes[*index], stage) {
                    (Outcome::Stored, _) => None,
                    (Outcome::Poison(failure), _) => Some((Destination::Dlq, failure)),
                    (Outcome::Undecided(failure), Stage::Stream) => Some((Destination::Parking, failure)),
                    (Outcome::Undecided(failure), Stage::Parking) => Some((Destination::ParkingDlq, failure)),
                };
                prop_assert_eq!(expected, Some((*destination, failure)));
            }
        }
    }
}
