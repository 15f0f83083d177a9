//! The example runs as its first lines say, and ends well.

use std::process::Command;

#[test]
fn poison_goes_alone_to_the_dead_letters_and_an_outage_to_the_parking_lot() {
    let output = Command::new(env!("CARGO_BIN_EXE_decision-logs")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("decision-logs/0/3 -> decision-logs-dlq: NotJson"), "{text}");
    assert!(text.contains("decision-logs/0/7 -> decision-logs-dlq: Database"), "{text}");
    assert!(text.contains("-> decision-logs-parking"), "{text}");
    assert!(text.ends_with("It is back. Stored: 12\n"), "{text}");
}
