//! What the demo says, in one place: the acts, how it opens, and what it suggests at the end.

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

pub(super) const GROUPED: &str = "dead letters, by cause: what an operator sees first";
pub(super) const DELIVERED: &str = "every letter is delivered, the files on disk are uploaded";
pub(super) const DOWN: &str = "the pager says that the bank is down; its events wait";
pub(super) const BACK: &str = "the bank is back";
pub(super) const BALANCED: &str =
    "Everything that was accepted is somewhere: delivered, on its way, open, or closed by somebody.";
pub(super) const MEND_DONE: &str = "mended: what is redriven now is delivered";

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
