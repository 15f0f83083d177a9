//! Decimal numbers, exactly: a NUMERIC of 30 digits is not compared as a double.

/// A number as its digits, without zeros at either end, and the power of ten of the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

/// No column holds a number with a larger exponent.
const MAX_EXPONENT: i64 = 100_000;

impl Decimal {
    /// The number that is written here, as SQL and JSON write numbers.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        (exponent.abs() <= MAX_EXPONENT).then(|| Self::new(text.starts_with('-'), &digits, exponent))
    }

    fn new(is_negative: bool, digits: &str, exponent: i64) -> Self {
        let significant = digits.trim_end_matches('0');
        let exponent = exponent + (digits.len() - significant.len()) as i64;
        let digits = significant.trim_start_matches('0').to_owned();
        match digits.is_empty() {
            true => Self { is_negative: false, digits, exponent: 0 },
            false => Self { is_negative, digits, exponent },
        }
    }

    /// The number with `scale` digits after the point. What is beyond is rounded, half away from zero, as Postgres and
    /// MySQL do.
    pub(crate) fn rounded(&self, scale: i64) -> Self {
        let cut = usize::try_from(-self.exponent - scale).unwrap_or(0);
        if cut == 0 {
            return self.clone();
        }
        let kept = self.digits.len().saturating_sub(cut);
        let is_up = cut <= self.digits.len() && self.digits.as_bytes()[kept] >= b'5';
        let digits = if is_up { increment(&self.digits[..kept]) } else { self.digits[..kept].to_owned() };
        Self::new(self.is_negative, &digits, -scale)
    }

    /// How many digits it has before the point.
    pub(crate) fn whole_digits(&self) -> i64 {
        if self.digits.is_empty() { 0 } else { (self.digits.len() as i64 + self.exponent).max(0) }
    }

    /// How many digits it has, without zeros at either end.
    pub(crate) fn significant_digits(&self) -> usize {
        self.digits.len()
    }
}

fn increment(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let zeros = "0".repeat(digits.len() - kept.len());
    match kept.as_bytes().last() {
        Some(last) => format!("{}{}{zeros}", &kept[..kept.len() - 1], char::from(last + 1)),
        None => format!("1{zeros}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_one_number_are_equal_and_digits_count() {
        for (one, other) in [("1.50", "1.5"), ("1e3", "1000.0"), ("-0", "0.00"), ("+7", "007"), (".5", "0.5")]
        {
            assert_eq!(number(one), number(other));
        }
        assert_ne!(number("9007199254740993"), number("9007199254740992"));
        for text in ["", "-", ".", "e5", "1x", "NaN", "1e999999999", "--1", "1.2.3"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (text, scale, rounded) in [
            ("1.005", 2, "1.01"),
            ("-1.005", 2, "-1.01"),
            ("1.004", 2, "1"),
            ("9.999", 2, "10"),
            ("0.5", 0, "1"),
            ("0.05", 0, "0"),
            ("12345", -2, "12300"),
            ("1.5", 4, "1.5"),
        ] {
            assert_eq!(number(text).rounded(scale), number(rounded), "{text}");
        }
    }

    #[test]
    fn digits_are_counted() {
        assert_eq!((number("9999999999.99").whole_digits(), number("0.001").whole_digits()), (10, 0));
        assert_eq!((number("1e10").whole_digits(), number("0").whole_digits()), (11, 0));
        assert_eq!(number("12345678901234567.890").significant_digits(), 19);
    }
}
