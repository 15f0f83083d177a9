//! Numbers in the 62 characters that are safe in a URL.

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The number, in base 62.
pub(crate) fn encode(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 62) as usize]));
        number /= 62;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_differ() {
        assert_eq!(
            (encode(0), encode(61), encode(62), encode(3843)),
            ("0".into(), "z".into(), "10".into(), "zz".into())
        );
        assert_eq!(encode(u64::MAX), "LygHa16AHYF");
    }
}
