//! Backoff: how long to wait after the n-th failure.
//!
//! The step after failure *n* is `initial × factor^(n-1)`, at most `max`: it never shrinks, and once
//! at `max` it stays there. Jitter then moves an attempt to somewhere in the upper half of its step, so
//! that events which failed together do not come back together. Randomness is the caller's: the same
//! seed gives the same delay.

use std::time::Duration;

/// How a delay is spread below its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// Exactly the step.
    None,
    /// Evenly between half the step and the whole step: never longer than the step, and so never
    /// longer than the maximum; never so short that it hammers what is broken.
    Equal,
}

/// Growing delays between attempts, with a cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    initial: Duration,
    factor: f64,
    max: Duration,
    jitter: Jitter,
}

/// Settings from which no backoff can be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidBackoff {
    /// The delays would shrink, or are not numbers.
    #[error(
        "factor {factor} is not usable: it must be a number of at least 1.0, so that delays do not shrink"
    )]
    Factor {
        /// What was given.
        factor: f64,
    },
    /// The first delay would already be over the cap.
    #[error("initial delay {initial:?} is longer than the maximum {max:?}: raise max or lower initial")]
    InitialAboveMax {
        /// The first delay that was given.
        initial: Duration,
        /// The cap that was given.
        max: Duration,
    },
}

impl Backoff {
    /// Delays that start at `initial`, grow by `factor` and stop growing at `max`, with equal jitter.
    ///
    /// # Errors
    /// When `factor` is below 1 or not finite, or `initial` is longer than `max`.
    pub const fn new(initial: Duration, factor: f64, max: Duration) -> Result<Self, InvalidBackoff> {
        if !factor.is_finite() || factor < 1.0 {
            return Err(InvalidBackoff::Factor { factor });
        }
        if initial.as_nanos() > max.as_nanos() {
            return Err(InvalidBackoff::InitialAboveMax { initial, max });
        }
        Ok(Self { initial, factor, max, jitter: Jitter::Equal })
    }

    /// The same delays, spread in another way.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The delay after the first failure.
    #[must_use]
    pub const fn initial(&self) -> Duration {
        self.initial
    }

    /// By how much each delay is longer than the one before.
    #[must_use]
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// The longest delay.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// How delays are spread.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// How long to wait when `failures` attempts have failed so far (the first failure is 1).
    ///
    /// `seed` should differ between events; the number of failures is mixed in, so one seed per event
    /// is enough.
    #[must_use]
    pub fn delay(&self, failures: u32, seed: u64) -> Duration {
        let step = self.ceiling(failures);
        match self.jitter {
            Jitter::None => step,
            Jitter::Equal => {
                let half = step / 2;
                half + (step - half).mul_f64(fraction(seed, failures)).min(step - half)
            }
        }
    }

    /// The step that [`delay`](Self::delay) stays within: the delay without jitter.
    ///
    /// It never shrinks as `failures` grows. Zero failures count as one.
    #[must_use]
    pub fn ceiling(&self, failures: u32) -> Duration {
        let growth = self.factor.powf(f64::from(failures.saturating_sub(1)));
        // Infinite growth of an initial delay of zero is not a number; it stays zero.
        if growth == 1.0 || self.initial.is_zero() {
            return self.initial;
        }
        // Too large for a `Duration` is simply too large: the cap answers for it.
        Duration::try_from_secs_f64(self.initial.as_secs_f64() * growth)
            .map_or(self.max, |step| step.min(self.max))
    }
}

/// A number in `0.0..1.0` that looks random but depends on the arguments alone.
fn fraction(seed: u64, failures: u32) -> f64 {
    // The top 53 bits, as many as an `f64` keeps exactly.
    let bits = splitmix64(seed.wrapping_add(splitmix64(failures.into()))) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbouring seeds end up far apart.
const fn splitmix64(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_steps_are_those_of_the_founding_documents() {
        let persist = Backoff::new(millis(100), 2.0, millis(10_000)).unwrap();
        let steps: Vec<_> = (1..=9).map(|failures| persist.ceiling(failures).as_millis()).collect();
        assert_eq!(steps, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);

        let kafka = Backoff::new(millis(1000), 2.0, millis(2000)).unwrap().with_jitter(Jitter::None);
        assert_eq!(
            [kafka.delay(1, 7), kafka.delay(2, 8), kafka.delay(3, 9)].map(|d| d.as_millis()),
            [1000, 2000, 2000]
        );
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for factor in [0.99, 0.0, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = Backoff::new(millis(1), factor, millis(2));
            assert!(matches!(refused, Err(InvalidBackoff::Factor { .. })), "{factor}");
        }
        let refused = Backoff::new(millis(3), 2.0, millis(2));
        assert_eq!(refused, Err(InvalidBackoff::InitialAboveMax { initial: millis(3), max: millis(2) }));
    }

    #[test]
    fn a_default_can_be_a_constant() {
        const OUTBOX: Result<Backoff, InvalidBackoff> =
            Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(300));
        assert_eq!(OUTBOX.unwrap().ceiling(7), Duration::from_secs(300));
    }

    #[test]
    fn events_that_failed_together_do_not_come_back_together() {
        let backoff = Backoff::new(millis(1000), 2.0, millis(10_000)).unwrap();
        let delays: Vec<_> = (0..1000).map(|seed| backoff.delay(1, seed)).collect();
        let mean = delays.iter().sum::<Duration>() / 1000;
        assert!(mean > millis(730) && mean < millis(770), "{mean:?}");
        // Each tenth of the range gets its share.
        for tenth in 0..10 {
            let range = millis(500 + tenth * 50)..millis(550 + tenth * 50);
            let share = delays.iter().filter(|delay| range.contains(delay)).count();
            assert!((60..=140).contains(&share), "{range:?}: {share}");
        }
    }

    #[test]
    fn one_event_is_spread_differently_after_each_failure() {
        let backoff = Backoff::new(millis(1000), 1.0, millis(1000)).unwrap();
        assert_ne!(backoff.delay(1, 42), backoff.delay(2, 42));
    }

    /// Stored nowhere, but a silent change would make recorded runs unrepeatable.
    #[test]
    fn the_spread_of_a_seed_is_pinned() {
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(1), 0x910a_2dec_8902_5cc1);
    }

    fn backoffs() -> impl Strategy<Value = Backoff> {
        let lengths = prop_oneof![
            (any::<Duration>(), any::<Duration>()),
            (0..10_000_u64, 0..1_000_000_u64).prop_map(|(a, b)| (millis(a), millis(b))),
            (Just(Duration::ZERO), Just(Duration::MAX)),
            (Just(Duration::MAX), Just(Duration::MAX)),
        ];
        let factors = prop_oneof![Just(1.0), 1.001..4.0_f64, Just(2.0), Just(f64::MAX)];
        (lengths, factors).prop_map(|((a, b), factor)| Backoff::new(a.min(b), factor, a.max(b)).unwrap())
    }

    proptest! {
        #[test]
        fn the_ceiling_is_monotone_up_to_its_cap_and_then_constant(
            backoff in backoffs(),
            failures in prop_oneof![0..100_u32, any::<u32>()],
        ) {
            let (now, next) = (backoff.ceiling(failures), backoff.ceiling(failures.saturating_add(1)));
            prop_assert!(backoff.initial() <= now && now <= next && next <= backoff.max());
            prop_assert!(now < backoff.max() || next == now);
            let far = backoff.ceiling(u32::MAX);
            let stays = backoff.factor() == 1.0 || backoff.initial().is_zero();
            prop_assert_eq!(far, if stays { backoff.initial() } else { backoff.max() });
        }

        #[test]
        fn a_delay_lies_in_the_upper_half_of_its_step(
            backoff in backoffs(),
            failures in prop_oneof![0..100_u32, any::<u32>()],
            seed: u64,
        ) {
            let (step, delay) = (backoff.ceiling(failures), backoff.delay(failures, seed));
            prop_assert!(step / 2 <= delay && delay <= step);
            prop_assert_eq!(backoff.with_jitter(Jitter::None).delay(failures, seed), step);
        }

        #[test]
        fn the_same_seed_gives_the_same_delay(backoff in backoffs(), failures: u32, seed: u64) {
            prop_assert_eq!(backoff.delay(failures, seed), backoff.delay(failures, seed));
        }
    }
}
