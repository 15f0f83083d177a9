//! The demo as a newcomer runs it: the whole story is told, and what it suggests at the end works.
//!
//! Nothing here looks at the clock: the demo itself waits for what it tells.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::{folder, redrive, text};

/// When a demo that says nothing more is given up; its own patience ends before.
const SILENCE: Duration = Duration::from_secs(200);

#[test]
fn the_whole_story_is_told_and_the_books_balance() {
    let folder = folder();
    let output = redrive(folder.path()).args(["demo", "--fast"]).output().unwrap();
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    for act in ["1. Healthy work", "2. Faults", "3. An operator", "4. Mended", "5. An outage", "The books"] {
        assert!(told.contains(act), "{act} in {told}");
    }
    for group in ["40 × orders", "15 × decisions", "10 × urls", "2 × summaries"] {
        assert!(told.contains(&format!(" {group} ")), "{group} in {told}");
    }
    assert!(told.contains("stopped itself  orders:"), "{told}");
    // It told how many letters were known when it looked first, which were not all.
    let redriven = told.lines().find(|line| line.contains("orders redriven")).unwrap();
    assert!(redriven.split_whitespace().any(|word| word == "40"), "{redriven}");
    assert!(!told.contains('\x1b'), "a log has no colours: {told}");
    let number = |label: &str| -> u64 {
        let line =
            told.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("{label} in {told}"));
        let after = line.split(label).nth(1).unwrap();
        after.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
    };
    // One run redrove 229 of the rest, another 263: of the same 502.
    let (dead, orders, rest) =
        (number("dead letters "), number("orders redriven"), number("the rest redriven"));
    assert_eq!((dead, orders, rest), (67, 40, 28), "{told}");
    assert_eq!(orders + rest, dead + 1, "one failed again: {told}");
    for sum in [
        "= 100 orders + 38 summaries + 190 urls + 285 decisions",
        "= 40 orders + 2 summaries + 10 urls + 15 decisions",
        "= 1 in step 3 + 39 now",
        "= 2 summaries + 10 urls + 15 decisions + 1 order that failed again in step 3",
        "67 dead letters by cause",
        "100 clicks are on disk",
    ] {
        assert!(told.contains(sum), "{sum} in {told}");
    }
    // It was cut on the left, and named one order of many.
    assert!(told.contains("answered 422 Unprocessable Entity: order <n>: unknown currency EUR"), "{told}");
}

/// It was a success, and a script went on as if the demo had been seen.
#[test]
fn a_demo_that_is_interrupted_says_so() {
    let mut command = redrive(std::env::temp_dir().as_path());
    let mut child =
        command.args(["demo", "--fast"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("Healthy work")).unwrap().unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn what_a_demo_that_stays_open_suggests_works() {
    let demo = Demo::open();
    let commands = demo.suggestions();
    let told = |command: &str| commands.iter().any(|line| line.contains(command));
    assert!(told("/mend") && told("dead-letters") && told("retry --pipeline intake"), "{commands:#?}");
    let script = commands.join("\n");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = text(&output.stdout);
    // The last of them sends one's own letter back.
    assert!(output.status.success(), "{script}\n{said}\n{}", text(&output.stderr));
    assert!(said.contains("PaymentCaptured") && said.contains("mended:"), "{said}");
    let got = demo.line("the CRM got");
    assert!(got.ends_with(r#"{"name":"me"}"#), "{got}");
}

/// A demo that stays open; it does not outlive the test.
struct Demo {
    child: Child,
    told: Receiver<String>,
}

impl Demo {
    fn open() -> Self {
        let mut command = redrive(std::env::temp_dir().as_path());
        let mut child = command.args(["demo", "--fast", "--keep"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (said, told) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { child, told }
    }

    fn next(&self) -> String {
        self.told.recv_timeout(SILENCE).expect("the demo says nothing more")
    }

    /// The next line like this.
    fn line(&self, wanted: &str) -> String {
        std::iter::repeat_with(|| self.next()).find(|line| line.contains(wanted)).unwrap()
    }

    /// The commands that it suggests.
    fn suggestions(&self) -> Vec<String> {
        self.line("From another terminal");
        let lines = std::iter::repeat_with(|| self.next()).take_while(|line| !line.is_empty());
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.starts_with('#')).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let process = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &process]).status();
        let _ = self.child.wait();
    }
}
