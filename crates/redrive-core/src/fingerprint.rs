//! The fingerprint: which failures are "the same", and so belong to one group.
//!
//! Two letters share a fingerprint when pipeline, event type, class, code, kind and the [masked](mask)
//! message are the same. Fingerprints are stored and appear in links, so they must not change between
//! versions. They are FNV-1a, 64 bits, over these fields in this order:
//!
//! ```text
//! pipeline · event type · class name · code as scheme:value, empty if none · kind · masked message
//! each one as: length in bytes (u64, little-endian) · UTF-8 bytes
//! ```
//!
//! The length in front keeps `("ab", "c")` and `("a", "bc")` apart. It is a grouping key, not a defence:
//! someone who chooses both messages can make two groups collide.

mod mask;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};

pub use mask::mask;

/// The key of a group of failures, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a failure of an event of this type in this pipeline.
    #[must_use]
    pub fn of(pipeline: &str, event_type: &str, failure: &Failure) -> Self {
        let code = failure.code.as_ref().map(Code::to_string).unwrap_or_default();
        let message = mask(&failure.message);
        let fields = [pipeline, event_type, failure.class.name(), &code, &failure.kind, &message];
        Self(fields.into_iter().fold(FNV_OFFSET, field))
    }

    /// The fingerprint with these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is not 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a fingerprint: it has 16 hexadecimal digits, for example 00c0ffee00c0ffee")]
pub struct InvalidFingerprint(String);

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `from_str_radix` alone would also take a sign and fewer digits.
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| InvalidFingerprint(text.to_owned()))
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = InvalidFingerprint;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn field(hash: u64, text: &str) -> u64 {
    fnv1a(fnv1a(hash, &(text.len() as u64).to_le_bytes()), text.as_bytes())
}

/// A short name for some bytes, the same everywhere and in every version. Not for secrets.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    fnv1a(FNV_OFFSET, bytes)
}

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_assert_ne, prop_oneof, proptest};

    use super::*;
    use crate::failure::Class;

    fn of(failure: &Failure) -> Fingerprint {
        Fingerprint::of("orders", "OrderCreated", failure)
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// Stored with every letter: a change here splits every group that exists.
    #[test]
    fn fingerprints_are_the_same_in_every_version() {
        let unique = Failure::permanent("DatabaseError", "duplicate key value violates \"orders_pkey\"")
            .with_code(Code::SqlState("23505".into()));
        let timeout = Failure::transient("Timeout", "no answer from 10.0.0.7:8080 after 5.5 s");
        assert_eq!(of(&unique).to_string(), "3a9ef9f3946c14dc");
        assert_eq!(of(&timeout).to_string(), "71d951f702c5bcaf");
        assert_eq!(Fingerprint::of("", "", &Failure::permanent("", "")).to_string(), "83f585edb6240142");
    }

    #[test]
    fn failures_that_differ_in_values_only_are_one_group() {
        for (one, other) in [
            ("ORDER-123 not found", "ORDER-456 not found"),
            ("column \"a\" is unknown", "column \"b\" is unknown"),
            ("timeout after 5 s", "timeout after 12.5 s"),
        ] {
            assert_eq!(of(&Failure::permanent("E", one)), of(&Failure::permanent("E", other)));
        }
    }

    #[test]
    fn everything_but_the_values_keeps_groups_apart() {
        let failure = Failure::permanent("Refused", "order 1 is refused");
        let others = [
            of(&Failure { kind: "Rejected".into(), ..failure.clone() }),
            of(&Failure { class: Class::Malformed, ..failure.clone() }),
            of(&Failure { message: "order 1 is rejected".into(), ..failure.clone() }),
            of(&failure.clone().with_code(Code::Http(410))),
            Fingerprint::of("orders", "OrderDeleted", &failure),
            Fingerprint::of("payments", "OrderCreated", &failure),
        ];
        for other in others {
            assert_ne!(of(&failure), other);
        }
    }

    #[test]
    fn how_long_to_wait_does_not_make_another_group() {
        let after = |seconds| Class::Throttled { retry_after: std::time::Duration::from_secs(seconds) };
        assert_eq!(of(&Failure::new(after(1), "429", "")), of(&Failure::new(after(2), "429", "")));
    }

    #[test]
    fn a_fingerprint_survives_text_and_json() {
        for bits in [0, 1, 0x00c0_ffee_00c0_ffee, u64::MAX] {
            let fingerprint = Fingerprint::from_bits(bits);
            assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            let json = serde_json::to_string(&fingerprint).unwrap();
            assert_eq!(json, format!("\"{fingerprint}\""));
            assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
        }
        for text in
            ["", "c0ffee", "+0c0ffee00c0ffee", "00c0ffee00c0ffeg", "00c0ffee00c0ffee0", "0x00c0ffee00c0ff"]
        {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }

    fn codes() -> impl Strategy<Value = Option<Code>> {
        prop_oneof![
            any::<u16>().prop_map(|number| Some(Code::MySql(number))),
            any::<u16>().prop_map(|status| Some(Code::Http(status))),
            "[0-9A-Z]{0,5}".prop_map(|state| Some(Code::SqlState(state))),
            ".{0,8}".prop_map(|text| Some(Code::Other(text))),
            proptest::strategy::Just(None),
        ]
    }

    proptest! {
        #[test]
        fn different_codes_never_merge(one in codes(), other in codes(), message in ".{0,40}") {
            let with = |code: &Option<Code>| of(&Failure { code: code.clone(), ..Failure::permanent("E", &message) });
            prop_assert_eq!(one == other, with(&one) == with(&other));
        }

        #[test]
        fn moving_the_border_between_two_fields_changes_the_fingerprint(text in "[a-z]{1,12}", at in 0..12_usize) {
            let (left, right) = text.split_at(at.min(text.len() - 1));
            let failure = Failure::permanent("E", "");
            prop_assert_ne!(Fingerprint::of(left, right, &failure), Fingerprint::of(&text, "", &failure));
        }

        #[test]
        fn the_digits_of_a_message_do_not_matter(words in "[g-z ]{0,10}", one: u64, other: u64) {
            let with = |number: u64| of(&Failure::permanent("E", format!("{words}{number} {words}")));
            prop_assert_eq!(with(one), with(other));
        }
    }
}
