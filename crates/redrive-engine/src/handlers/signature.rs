//! The signature of a request: who sent it, and that nobody changed it.
//!
//! ```text
//! redrive-signature: t=1761031680,v1=5f2c…   (64 hexadecimal digits)
//! ```
//! `v1` is HMAC-SHA256, keyed with the shared secret, over `<t>.<body>`: the digits of `t`, a full stop,
//! the body byte for byte. A receiver computes it again, compares in constant time, and refuses a `t`
//! that is more than five minutes old: it is part of what is signed, so a request that somebody recorded
//! cannot be sent again later. (A retry by redrive is signed anew; the idempotency key tells it apart.)
//! Receivers must ignore other parts than `t` and `v1`: a later version may add some.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use sha2::Sha256;

use super::secret::Secret;

/// The header that carries the signature.
pub const HEADER: HeaderName = HeaderName::from_static("redrive-signature");

/// Signs a body at a time.
///
/// ```
/// use redrive_engine::handlers::{Secret, signature};
/// let at = "2025-10-21T07:28:00Z".parse().unwrap();
/// let value = signature::sign(&Secret::new("s3cr3t"), at, b"{}");
/// assert!(value.to_str().unwrap().starts_with("t=1761031680,v1="));
/// ```
#[must_use]
pub fn sign(secret: &Secret, at: Timestamp, body: &[u8]) -> HeaderValue {
    let time = at.as_second();
    let digest = hex(&digest(secret, time, body));
    HeaderValue::from_str(&format!("t={time},v1={digest}")).expect("invariant: digits and letters")
}

fn digest(secret: &Secret, time: i64, body: &[u8]) -> [u8; 32] {
    let key = secret.expose().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("invariant: HMAC takes keys of any length");
    mac.update(time.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf '1761031680.{"id":1}' | openssl dgst -sha256 -hmac s3cr3t`
    #[test]
    fn a_signature_is_what_openssl_computes() {
        let at = Timestamp::from_second(1_761_031_680).unwrap();
        let value = sign(&Secret::new("s3cr3t"), at, br#"{"id":1}"#);
        assert_eq!(value, "t=1761031680,v1=a3b920740622de4435d8973de1f8bd3b19a5bc8e9296ff8a81b20472b80fb636");
    }

    #[test]
    fn time_body_and_secret_are_all_signed() {
        let (now, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1).unwrap());
        let secret = Secret::new("a");
        let signed = sign(&secret, now, b"x");
        assert_ne!(signed, sign(&secret, later, b"x"));
        assert_ne!(signed, sign(&secret, now, b"y"));
        assert_ne!(signed, sign(&Secret::new("b"), now, b"x"));
    }
}
