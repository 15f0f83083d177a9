//! Events of 300 bytes, in batches of 5,000.

use std::fmt::Write as _;

use bytes::Bytes;

/// How many events a batch has.
pub(crate) const EVENTS: u32 = 5_000;

/// A batch of lines; each line has 300 bytes, and no two are alike.
pub(crate) fn lines(seed: u64) -> Bytes {
    let mut text = String::new();
    let mut random = seed;
    for number in 0..EVENTS {
        let start = text.len();
        let _ =
            write!(text, "{{\"id\":{number},\"time\":\"2025-10-21T07:28:{:02}Z\",\"data\":\"", number % 60);
        while text.len() - start < 280 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let word = ["click", "/articles/", "user-", "mobile", "session=", "referrer"]
                [(random >> 60) as usize % 6];
            let _ = write!(text, "{word}{:x} ", random >> 52);
        }
        text.truncate(start + 297);
        text.push_str("\"}\n");
    }
    text.into()
}
