//! The example runs as its first lines say, and ends well.

use std::process::Command;

#[test]
fn a_rolled_back_order_has_no_event_and_a_dead_one_is_shipped_in_the_end() {
    let output = Command::new(env!("CARGO_BIN_EXE_ecommerce-outbox")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("shipped order 1") && text.contains("shipped order 3"), "{text}");
    assert!(!text.contains("shipped order 2"), "{text}");
    assert!(text.ends_with("Unresolved letters: 0\n"), "{text}");
}
