//! The example runs as its first lines say, and ends well.

use std::process::Command;

#[test]
fn the_endless_article_is_dead_after_three_attempts_and_summarized_after_a_plain_update() {
    let output = Command::new(env!("CARGO_BIN_EXE_article-summaries")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("article-7 after 3 attempts: Timeout"), "{text}");
    assert!(text.ends_with("Completed: 10 of 10\n"), "{text}");
}
