//! The example runs as its first lines say, and ends well.

use std::process::Command;

#[test]
fn events_are_accepted_while_the_store_is_away_and_drain_when_it_is_back() {
    let output = Command::new(env!("CARGO_BIN_EXE_ingest-server")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("accepted all the same; waiting on disk: "), "{text}");
    assert!(text.ends_with("waiting on disk: 0 files; in the store: 2000 events\n"), "{text}");
}
