//! How fast it was: one figure per round, the median of them, and how far they lie apart.

use std::fmt;
use std::time::Duration;

/// How fast one contestant was, round by round.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    per_second: Vec<f64>,
    processor: Vec<f64>,
}

impl Rates {
    /// Adds a round: how many events, how long it took, and how long our processors worked for it.
    pub fn push(&mut self, events: u64, took: Duration, processor: Duration) {
        self.per_second.push(events as f64 / took.as_secs_f64());
        self.processor.push(processor.as_secs_f64() * 1e6 / events as f64);
    }

    /// The median of the events per second, which one disturbed round does not move.
    #[must_use]
    pub fn median(&self) -> f64 {
        median(self.per_second.clone())
    }

    /// The median of the processor time that this process took for one event, in microseconds.
    #[must_use]
    pub fn processor(&self) -> f64 {
        median(self.processor.clone())
    }
}

/// `54,321 (50,000–60,000)`: the median, the slowest and the fastest round.
impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = bounds(&self.per_second);
        write!(f, "{} ({}–{})", thousands(self.median()), thousands(low), thousands(high))
    }
}

/// How one contestant compares with another.
#[derive(Debug, Clone)]
pub struct Ratio {
    /// The median of the first by the median of the second.
    pub of_medians: f64,
    by_round: Vec<f64>,
}

impl Ratio {
    /// `these` as a multiple of `those`.
    #[must_use]
    pub fn of(these: &Rates, those: &Rates) -> Self {
        let by_round =
            these.per_second.iter().zip(&those.per_second).map(|(this, that)| this / that).collect();
        Self { of_medians: these.median() / those.median(), by_round }
    }
}

/// `0.93 (0.88–1.02)`: the ratio of the medians, the worst and the best round.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = bounds(&self.by_round);
        write!(f, "{:.2} ({low:.2}–{high:.2})", self.of_medians)
    }
}

/// `1,234,567`, rounded.
#[must_use]
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The middle one; between the middle two of an even count.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

fn bounds(figures: &[f64]) -> (f64, f64) {
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }
}
