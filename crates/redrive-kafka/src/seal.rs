//! The seal: proof that a redriven record is the one it says it is.
//!
//! A redriven record lies at a new place in its topic and says in a header where it was first, so that a
//! sink takes it once. But every producer can write that header, and a record that is taken for one that
//! is stored already is lost. So the [`Redriver`](crate::redriver::Redriver) seals what it publishes, and
//! the consumer believes only what is sealed:
//!
//! ```text
//! redrive-origin  topic/partition/offset
//! redrive-seal    HMAC-SHA256, 64 hexadecimal digits, over
//!                 topic · partition (i32) · offset (i64) · key · value, all big-endian,
//!                 each one as: length (u64) · bytes; one that is missing as: u64::MAX
//! ```
//!
//! - The key and the value are sealed too: a header that somebody copied from a redriven record fits no
//!   other content. The same content under the same name is the same record, however often it comes.
//! - The key of the HMAC is derived from the secrets in the pipeline's settings (those of the sink and of
//!   the brokers), so that all instances agree without asking each other, also when each has a store of
//!   its own. Where the settings hold no secret at all, whoever knows them can make a seal.
//! - A seal that does not fit, as after a password was changed, is ignored: the record is stored under the
//!   place where it lies. That can make a duplicate of one that is redriven twice; it cannot lose one.
//!
//! What it does not do: judge letters. The topics of letters are redrive's own, and what they say of
//! origins is believed: keep others from writing to them.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::record::{Header, ORIGIN, Position, Record};

/// The header that carries it.
pub const SEAL: &str = "redrive-seal";

/// Seals redriven records, and knows them again.
#[derive(Clone)]
pub struct Seal {
    key: [u8; 32],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl Seal {
    /// The seal of whoever knows these texts, in this order.
    #[must_use]
    pub fn from_secrets<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut digest = Sha256::new_with_prefix("redrive-seal 1");
        for secret in secrets {
            digest.update((secret.len() as u64).to_be_bytes());
            digest.update(secret);
        }
        Self { key: digest.finalize().into() }
    }

    /// The headers that say who a record with this key and value is.
    #[must_use]
    pub fn headers(&self, origin: &Position, key: Option<&[u8]>, value: Option<&[u8]>) -> [Header; 2] {
        let code: String = self
            .mac(origin, key, value)
            .finalize()
            .into_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        [Header::new(ORIGIN, origin.to_string()), Header::new(SEAL, code)]
    }

    /// Where a record was first, if it says so and that is true.
    #[must_use]
    pub fn origin(&self, record: &Record) -> Option<Position> {
        let text = |name: &str| record.header(name).and_then(Header::text);
        let origin: Position = text(ORIGIN)?.parse().ok()?;
        let lies_at = &record.position;
        let is_earlier = origin.partition != lies_at.partition || origin.offset < lies_at.offset;
        if origin.topic != lies_at.topic || !is_earlier {
            return None;
        }
        let code = bytes(text(SEAL)?)?;
        let mac = self.mac(&origin, record.key.as_deref(), record.value.as_deref());
        mac.verify_slice(&code).is_ok().then_some(origin)
    }

    fn mac(&self, origin: &Position, key: Option<&[u8]>, value: Option<&[u8]>) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.key);
        let mut mac = mac.expect("invariant: HMAC takes keys of any length");
        let mut field = |bytes: Option<&[u8]>| {
            mac.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
            mac.update(bytes.unwrap_or_default());
        };
        field(Some(origin.topic.as_bytes()));
        field(Some(&origin.partition.to_be_bytes()));
        field(Some(&origin.offset.to_be_bytes()));
        field(key);
        field(value);
        mac
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redriven(seal: &Seal) -> Record {
        let origin = Position::new("orders", 3, 7);
        let (key, value) = (Some(b"k".to_vec()), Some(b"v".to_vec()));
        let headers = seal.headers(&origin, key.as_deref(), value.as_deref()).to_vec();
        Record { position: Position::new("orders", 3, 42), timestamp: None, key, value, headers }
    }

    #[test]
    fn a_redriven_record_is_known_again() {
        let seal = Seal::from_secrets(["a", "b"]);
        let record = redriven(&seal);
        assert_eq!(seal.origin(&record).unwrap().to_string(), "orders/3/7");
        // A topic with fewer partitions than it had: the key decided.
        let elsewhere = Record { position: Position::new("orders", 0, 1), ..record };
        assert!(seal.origin(&elsewhere).is_some());
    }

    #[test]
    fn what_anybody_can_write_is_not_believed() {
        let seal = Seal::from_secrets(["a", "b"]);
        let record = redriven(&seal);
        let with = |headers: Vec<Header>| Record { headers, ..record.clone() };
        let code = record.headers[1].clone();
        let forged = [
            with(vec![]),
            with(vec![record.headers[0].clone()]),
            with(vec![Header::new(ORIGIN, "orders/3/8"), code.clone()]),
            with(vec![Header::new(ORIGIN, "nowhere"), code.clone()]),
            with(vec![Header::new(ORIGIN, [0xff]), code]),
            with(vec![record.headers[0].clone(), Header::new(SEAL, "")]),
            with(vec![record.headers[0].clone(), Header::new(SEAL, "no hex")]),
            with(vec![record.headers[0].clone(), Header::new(SEAL, "é")]),
            Record { value: Some(b"other".to_vec()), ..record.clone() },
            Record { value: None, ..record.clone() },
            Record { key: None, ..record.clone() },
            // The same letters, shared out differently.
            Record { key: Some(b"kv".to_vec()), value: Some(vec![]), ..record.clone() },
            // Not before the record itself, or of another topic.
            Record { position: Position::new("orders", 3, 7), ..record.clone() },
            Record { position: Position::new("others", 3, 42), ..record.clone() },
        ];
        for record in forged {
            assert_eq!(seal.origin(&record), None, "{record:?}");
        }
        for other in [["a", "c"], ["ab", ""], ["b", "a"]] {
            assert_eq!(Seal::from_secrets(other).origin(&record), None, "{other:?}");
        }
    }

    /// Records that were sealed by one version are read by the next.
    #[test]
    fn the_seal_is_pinned() {
        let code = redriven(&Seal::from_secrets(["a", "b"])).headers[1].text().map(str::to_owned);
        assert_eq!(code.as_deref(), Some("3359baa9825fe861fe2fe77411e78bee9e44f9e95f74ad1c34b7d7dc7ad0e42b"));
    }
}
