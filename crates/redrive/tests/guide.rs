//! The first steps of docs/getting-started.md, run as they are printed there: a reader's letter dies and comes back.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use support::{Server, folder, folder_with, text};

/// Where the guide has a server listen; ours is somewhere else.
const ADDRESS: &str = "127.0.0.1:7070";

/// A reader waits as long as the guide says, on a machine that is quick enough. Ours may be busy: it waits until
/// nothing is under way any more.
const PATIENT: &str = r#"
sleep() {
    local looks=0
    until curl -s "$REDRIVE_SERVER/api/v1/books" | grep -q '"in_flight":' &&
        ! curl -s "$REDRIVE_SERVER/api/v1/books" | grep -q '"in_flight":[1-9]'; do
        [ $((looks += 1)) -lt 600 ] || exit 1
        command sleep 0.2
    done
}
"#;

#[test]
fn the_first_dead_letter_of_the_guide_comes_back() {
    let said = follow("Your first dead letter, and back");
    let paid: Vec<&str> = said.lines().filter(|line| line.starts_with(r#"{"order":"#)).collect();
    let (dollars, euros) = (r#"{"order":41,"total":"9.99 USD"}"#, r#"{"order":42,"total":"9.99 EUR"}"#);
    assert_eq!(paid, [dollars, dollars, euros], "{said}");
    for part in [r#"{"ids":[1,2]}"#, "payments:1  open", "payments:1: sent back to work", "the books balance"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn the_dead_job_of_the_guide_is_done_in_the_end() {
    let said = follow("Jobs: a queue for workers in any language");
    for part in ["no such article", "summarize:1: sent back to work"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("\"status\":4"), "nothing is refused: {said}");
}

#[test]
fn a_letter_that_the_guide_hands_in_reaches_its_target() {
    let said = follow("Intake: dead letters of your own service");
    assert!(said.contains(r#""id":"intake:1""#), "{said}");
    assert!(said.trim_end().ends_with(r#"{"mail":"a@example.org"}"#), "{said}");
}

/// Does what a section says, beside a server with its configuration; returns what was printed.
#[track_caller]
fn follow(heading: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/getting-started.md");
    let guide = fs::read_to_string(guide).unwrap();
    let section = guide.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let folder = folder_with(&blocks(section, "toml").concat());
    // The first section makes its folder itself; the server is started in it.
    let script = blocks(section, "sh").join("echo\n").replace("mkdir first && cd first\n", "");
    let (before, after) = script.split_once("redrive serve\n").unwrap_or(("", script.as_str()));
    shell(folder.path(), before, ADDRESS);
    let server = Server::ready(folder.path());
    shell(folder.path(), after, &server.address.to_string())
}

#[track_caller]
fn shell(folder: &Path, script: &str, address: &str) -> String {
    let home = self::folder();
    let binary = Path::new(env!("CARGO_BIN_EXE_redrive")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap());
    let script = format!("set -e\n{PATIENT}{}", script.replace(ADDRESS, address));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(folder).env("PATH", path).env("HOME", home.path());
    command.env("REDRIVE_SERVER", format!("http://{address}"));
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{script}\n{said}\n{}", text(&output.stderr));
    said
}

/// The blocks of code in this language.
fn blocks<'a>(section: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("{language}\n");
    section.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(&opening)).collect()
}
