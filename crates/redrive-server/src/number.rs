//! Whole numbers as people write them: `1,204`.

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 letter`, `1,204 letters`.
#[must_use]
pub fn counted(many: u64, one: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(many))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([grouped(0), grouped(999), grouped(1_204)], ["0", "999", "1,204"]);
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!([counted(1, "letter"), counted(1_204, "letter")], ["1 letter", "1,204 letters"]);
    }
}
