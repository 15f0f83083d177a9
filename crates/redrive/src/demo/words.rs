//! What the demo says, in one place: the acts, how it opens, and what it suggests at the end.

use redrive_core::fingerprint::mask;
use redrive_server::number::grouped;

use super::stage::Stage;

/// A part of the story: its name, and what happens in it.
pub(super) struct Act {
    pub(super) title: &'static str,
    pub(super) what: &'static [&'static str],
}

pub(super) const HEALTHY: Act = Act {
    title: "Healthy work",
    what: &[
        "Events come in over REST and Kafka, and go out to a bank, a summarizer, two tables and a bucket.",
    ],
};

pub(super) const FAULTS: Act = Act {
    title: "Faults arrive, in all five at once",
    what: &[
        "The bank refuses euros, articles are too long, two tables have odd rules, the bucket is gone.",
        "What is healthy flows on; what keeps failing is set aside as a dead letter.",
    ],
};

pub(super) const TOO_EARLY: Act = Act {
    title: "An operator comes too early",
    what: &[
        "The orders are sent back with a canary (1 letter, then 5, 20, all) while the bank is still broken.",
    ],
};

pub(super) const MENDED: Act = Act {
    title: "Mended",
    what: &[
        "The release is rolled back, the rules are dropped, the bucket is found.",
        "The stopped operation is resumed; then everything else is sent back.",
    ],
};

pub(super) const OUTAGE: Act = Act {
    title: "An outage is not poison",
    what: &["The bank is down for a moment: its events wait, no attempts are counted, nothing dies."],
};

pub(super) const GROUPED: &str =
    "dead letters by cause, as an operator sees them; <n> stands for what is different in each";
pub(super) const DELIVERED: &str = "every letter is delivered";
pub(super) const DOWN: &str = "the pager says that the bank is down; its events wait";
pub(super) const BACK: &str = "the bank is back";
pub(super) const BALANCED: &str =
    "Everything that was accepted is somewhere: delivered, on its way, open, or closed by somebody.";
pub(super) const MEND_DONE: &str = "mended: what is redriven now is delivered";

/// What a number is made of: `40 orders + 2 summaries`.
pub(super) fn sum(counts: &[(&str, u64)]) -> String {
    let part = |(name, count): &(&str, u64)| format!("{} {name}", grouped(*count));
    format!("= {}", counts.iter().map(part).collect::<Vec<_>>().join(" + "))
}

/// What two messages of one group have in common; <n> stands for the numbers and ids that differ.
pub(super) fn common(one: &str, other: &str) -> String {
    let (words, others) = (one.split(' '), other.split(' '));
    if words.clone().count() != others.clone().count() {
        return mask(one);
    }
    let word = |(word, other): (&str, &str)| if word == other { word.to_owned() } else { mask(word) };
    words.zip(others).map(word).collect::<Vec<_>>().join(" ")
}

/// What does not need anybody.
pub(super) fn on_disk(clicks: u64) -> String {
    format!("besides, {} clicks are on disk until the bucket is back: they need nobody", grouped(clicks))
}

/// What a canary leaves behind that stopped itself.
pub(super) fn one_of(total: u64) -> String {
    format!(
        "1 of {} was sent, and is a new letter now; {} wait in the operation",
        grouped(total),
        grouped(total - 1)
    )
}

/// What a resumed operation has done.
pub(super) fn resumed(total: u64) -> String {
    format!("= 1 in step 3 + {} now", grouped(total.saturating_sub(1)))
}

/// What was left.
pub(super) fn rest(others: &[(&str, u64)]) -> String {
    format!("{} + 1 order that failed again in step 3", sum(others))
}

/// The first lines.
pub(super) fn opening(stage: &Stage) -> [String; 2] {
    let pipelines =
        if stage.has_kafka() { "five pipelines" } else { "four pipelines (this build has no Kafka)" };
    [
        format!("{pipelines} in this process, on SQLite in {}", stage.folder().display()),
        format!("look at it meanwhile: {}", stage.address),
    ]
}

/// What to do when the story is over.
pub(super) fn next(program: &str) -> Vec<(String, &'static str)> {
    vec![
        (format!("{program} demo --keep"), "the same, and it stays open for you to play with"),
        (format!("{program} serve"), "your own, with no configuration at all"),
        ("docs/getting-started.md".to_owned(), "a dead letter of your own, sent back, in ten minutes"),
    ]
}

/// What to try while it stays open: commands, each with what comes of it.
pub(super) fn to_try(program: &str, stage: &Stage) -> Vec<(String, &'static str)> {
    let Stage { address, services, .. } = stage;
    let letter = r#"{"event_type":"Signup","key":"1","payload":{"name":"me"},"target":"crm","error":{"message":"the CRM was away"}}"#;
    vec![
        (format!("export REDRIVE_SERVER={address}"), ""),
        (format!("{program} groups"), "what is dead, and why"),
        (
            format!("{program} retry --pipeline orders --canary --yes"),
            "stops itself: the bank still refuses euros",
        ),
        (format!("curl -X POST {services}/mend"), "mends every fault; the same again succeeds"),
        (
            format!(
                "curl $REDRIVE_SERVER/api/v1/dead-letters -H 'content-type: application/json' -d '{letter}'"
            ),
            "a dead letter of your own",
        ),
        (
            format!("{program} retry --pipeline intake --yes"),
            "sends it to the CRM, which says here what it got",
        ),
    ]
}

/// How this program was called, for a shell.
pub(super) fn program() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "redrive".to_owned());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    if called.chars().all(is_plain) { called } else { format!("'{}'", called.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_messages_share_is_the_cause() {
        let refused = |order: u32| format!("bank:80 answered 422: order {order}: unknown currency EUR");
        assert_eq!(
            common(&refused(7), &refused(16)),
            "bank:80 answered 422: order <n>: unknown currency EUR"
        );
        assert_eq!(common("longer than 200", "longer than 200"), "longer than 200");
        assert_eq!(common("order 7 is odd", "order 8 is"), "order <n> is odd");
    }
}
