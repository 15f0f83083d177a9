//! The event: a short URL was made.

use redrive::Persistent;

/// A short URL and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShortUrl {
    pub(crate) short: String,
    pub(crate) long: String,
}

impl Persistent for ShortUrl {
    fn key(&self) -> String {
        self.short.clone()
    }

    fn payload(&self) -> String {
        self.long.clone()
    }

    fn restore(key: &str, payload: &str) -> Option<Self> {
        Some(Self { short: key.to_owned(), long: payload.to_owned() })
    }
}
