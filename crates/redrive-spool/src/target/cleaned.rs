//! Errors of stores, cleaned: they go to logs, mail and chats, so they say what went wrong and not where the store
//! is or with which key it was asked.
//!
//! What a store answered is reduced to its status, its code and its message. In whatever is left, addresses, the
//! names that were configured, keys and tokens are hidden.

use std::error::Error as StdError;
use std::fmt::Write as _;

use object_store::client::{HttpError, HttpErrorKind};

const HIDDEN: &str = "(hidden)";
/// Letters and digits in a row that no word has so many of.
const LONGEST_WORD: usize = 32;
/// The shortest name that is looked for: a shorter one is in every other word.
const SHORTEST_NAME: usize = 3;
/// What AWS begins the id of a key with.
const KEY_IDS: [&str; 2] = ["AKIA", "ASIA"];

/// What must not be shown of a store: its bucket, its host, the names and keys of its account.
#[derive(Clone, Default)]
pub(super) struct Names(Vec<String>);

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Names({})", self.0.len())
    }
}

impl Names {
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().filter(|name| name.len() >= SHORTEST_NAME).collect();
        // A name that holds another one first.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self(names)
    }

    /// What this error says, without what must not be shown.
    pub(super) fn clean(&self, error: &object_store::Error) -> String {
        let text = error.to_string();
        let said = answer(&text).or_else(|| transport(error)).unwrap_or(text);
        self.hide(&said)
    }

    fn hide(&self, text: &str) -> String {
        let mut text = self.0.iter().fold(text.to_owned(), |text, name| hide_name(&text, name));
        for scheme in ["https://", "http://", "s3://", "gs://", "az://"] {
            text = hide_addresses(&text, scheme);
        }
        hide_keys(&text)
    }
}

/// What the store answered: its status, its code and its message.
fn answer(text: &str) -> Option<String> {
    let (_, after) = text.split_once("Server returned ")?;
    let status = after.split_once("status code: ").and_then(|(_, after)| after.split([':', '\n']).next());
    let mut said = status.map_or_else(|| "an error".to_owned(), |status| status.trim().to_owned());
    for tag in ["Code", "Message"] {
        if let Some(value) = element(after, tag) {
            // Writing to a String cannot fail.
            let _ = write!(said, ": {value}");
        }
    }
    Some(format!("the store answered {said}"))
}

/// The text of the first element of this name.
pub(super) fn element<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(value, _)| value.trim()).filter(|value| !value.is_empty())
}

/// What kept a request from being answered.
fn transport(error: &object_store::Error) -> Option<String> {
    let mut causes = std::iter::successors(error.source(), |error| (*error).source());
    let kind = causes.find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind)?;
    let root = std::iter::successors(error.source(), |error| (*error).source()).last();
    let what = match kind {
        HttpErrorKind::Connect => "the store cannot be reached",
        HttpErrorKind::Timeout => "the store did not answer in time",
        HttpErrorKind::Request | HttpErrorKind::Interrupted => "the connection to the store broke",
        _ => "the request to the store failed",
    };
    Some(root.map_or_else(|| what.to_owned(), |root| format!("{what}: {root}")))
}

fn hide_name(text: &str, name: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        hidden.push_str(before);
        // A bucket called `log` is not in `logging`.
        let is_part = before.ends_with(is_of_a_word) || after.starts_with(is_of_a_word);
        hidden.push_str(if is_part { name } else { HIDDEN });
        rest = after;
    }
    hidden + rest
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric()
}

fn hide_addresses(text: &str, scheme: &str) -> String {
    let mut parts = text.split(scheme);
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter.is_whitespace() || "\"'`<>)]}".contains(letter));
        hidden.push_str(HIDDEN);
        hidden.push_str(&part[end.unwrap_or(part.len())..]);
    }
    hidden
}

/// Hides ids of keys, and whatever is as long as only keys, signatures and tokens are.
fn hide_keys(text: &str) -> String {
    let is_of_a_key = |letter: char| letter.is_ascii_alphanumeric() || "+/=_-%".contains(letter);
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_a_key) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|letter| !is_of_a_key(letter)).unwrap_or(word.len());
        hidden.push_str(before);
        hidden.push_str(if is_key(&word[..end]) { HIDDEN } else { &word[..end] });
        rest = &word[end..];
    }
    hidden + rest
}

fn is_key(word: &str) -> bool {
    let is_id = KEY_IDS.iter().any(|begin| word.starts_with(begin)) && word.len() >= 16;
    // Paths of this machine are long, too, and say which disk is meant.
    let longest = word.split('/').map(str::len).max().unwrap_or_default();
    let has_digits = word.bytes().any(|byte| byte.is_ascii_digit());
    is_id || (longest > LONGEST_WORD && has_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let source = text.to_owned().into();
        let names = ["my-bucket", "minio.internal:9000", "letmein", "ab"].map(str::to_owned);
        Names::new(names).clean(&object_store::Error::Generic { store: "S3", source })
    }

    /// All of it went into the log, into mails and to `/ready`: endpoint, bucket, key and security token.
    #[test]
    fn of_an_answer_of_the_store_only_status_code_and_message_are_left() {
        let text = "Error performing PUT http://minio.internal:9000/my-bucket/RAW/1_i_1.jsonl.gz in 3ms, after 3 \
                    retries - Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error>\
                    <Code>SignatureDoesNotMatch</Code><Message>The signature of my-bucket does not match</Message>\
                    <AWSAccessKeyId>AKIAIOSFODNN7EXAMPLE</AWSAccessKeyId><StringToSign>letmein</StringToSign></Error>";
        assert_eq!(
            clean(text),
            "the store answered 403 Forbidden: SignatureDoesNotMatch: The signature of (hidden) does not match"
        );
    }

    #[test]
    fn in_anything_else_addresses_names_keys_and_tokens_are_hidden() {
        for (text, left) in [
            ("dns error for minio.internal:9000", "dns error for (hidden)"),
            ("see \"https://host/a?X-Amz-Signature=1f\" and go", "see \"(hidden)\" and go"),
            ("key ASIAIOSFODNN7EXAMPLE is expired", "key (hidden) is expired"),
            ("token FwoGZXIvYXdzEBYaDHqa0AP8examplewithmanyletters0123= is bad", "token (hidden) is bad"),
            ("password letmein, not letmeinside", "password (hidden), not letmeinside"),
            ("ab is too short to be looked for", "ab is too short to be looked for"),
            ("Unable to create dir /var/lib/redrive/ingest/estat/RAW: File exists", ""),
        ] {
            let cleaned = clean(text);
            let left = if left.is_empty() { text } else { left };
            assert_eq!(cleaned, format!("Generic S3 error: {left}"));
        }
    }
}
