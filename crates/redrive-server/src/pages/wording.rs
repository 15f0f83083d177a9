//! What the groups that an operation or an entry of the audit log names are about, in words: nobody knows a hash.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::dead_letter::Summary;
use redrive_core::fingerprint::Fingerprint;
use redrive_engine::console::Console;
use tokio::time::timeout;

use super::text;

/// How long a page waits for the words: it can be read without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The words for some groups.
#[derive(Default)]
pub(super) struct Wording(HashMap<Fingerprint, String>);

impl Wording {
    /// For the groups in these texts, as far as letters of theirs are to be found soon.
    pub(super) async fn of(console: &Console, texts: impl Iterator<Item = &str>) -> Self {
        let groups: HashSet<Fingerprint> = texts.filter_map(group).collect();
        let words = join_all(groups.into_iter().map(async |group| {
            let sample = timeout(PATIENCE, console.sample(group)).await.ok()??;
            Some((group, words(&sample)))
        }));
        Self(words.await.into_iter().flatten().collect())
    }

    /// The words for the group in this text.
    pub(super) fn about(&self, text: &str) -> Option<String> {
        self.0.get(&group(text)?).cloned()
    }
}

fn words(sample: &Summary) -> String {
    let Summary { event_type, failure, .. } = sample;
    let code = failure.code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
    text::line(&format!("{event_type}: {}{code}, {}", failure.kind, failure.message), 200)
}

/// The group that a query names.
fn group(text: &str) -> Option<Fingerprint> {
    text.split_whitespace().find_map(|part| part.strip_prefix("group:")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_wherever_it_is_named() {
        let known = "00c0ffee00c0ffee".parse().ok();
        assert_eq!(group("group:00c0ffee00c0ffee"), known);
        assert_eq!(group("operation 7: pipeline:orders group:00c0ffee00c0ffee status:open"), known);
        assert_eq!((group("type:A"), group("group:zz"), group("")), (None, None, None));
    }
}
