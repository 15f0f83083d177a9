//! The command line over dead letters: over a server and straight on the stores, with the same words and exit codes.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use redrive_testkit::hostile;
use serde_json::{Value, json};
use support::{Server, assert_failed, eventually, folder, folder_with, redrive, sha256, text};

/// An outbox whose events of type `Broken` fail at once, and those of type `Fine` do not.
const CONFIG: &str = r#"
[outbox.orders]
poll-interval = "100ms"
max-retry-count = 0
handlers.Fine = { command = ["true"] }
handlers.Broken = { command = ["false"] }
[jobs.mails]
"#;

/// Where the console is reached: the two ends of the line.
#[derive(Clone, Copy)]
enum Way<'a> {
    Stores,
    Server(&'a Server),
}

impl Way<'_> {
    fn command(self, folder: &Path, args: &[&str]) -> Command {
        let mut command = redrive(folder);
        command.args(args);
        if let Self::Server(server) = self {
            command.env("REDRIVE_SERVER", format!("http://{}", server.address));
            // It must not matter what is here: everything is asked over HTTP.
            command.env("REDRIVE_CONFIG", "nowhere.toml");
        }
        command
    }

    fn run(self, folder: &Path, args: &[&str]) -> Output {
        self.command(folder, args).output().unwrap()
    }

    #[track_caller]
    fn said(self, folder: &Path, args: &[&str]) -> String {
        let output = self.run(folder, args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    fn json(self, folder: &Path, args: &[&str]) -> Value {
        serde_json::from_str(&self.said(folder, &[args, &["--json"]].concat())).unwrap()
    }
}

fn event(event_type: &str, key: &str) -> Value {
    json!({"event_type": event_type, "aggregate_id": key, "payload": {"key": key}})
}

/// A server with so many letters of type `Broken`, at rest.
fn with_letters(many: usize) -> (tempfile::TempDir, Server) {
    let folder = folder_with(CONFIG);
    let server = Server::ready(folder.path());
    let events: Vec<Value> = (0..many).map(|key| event("Broken", &key.to_string())).collect();
    assert_eq!(server.post("/api/v1/outbox/orders/events", &json!(events)).0, 201);
    waiting(&server, many);
    // A count that took long is shown for a while, even when it is out of date.
    eventually("the group that is expected", || {
        let groups = server.get("/api/v1/groups").1;
        let counts = groups["groups"].as_array()?.iter().filter_map(|group| group["count"].as_u64());
        (counts.sum::<u64>() == many as u64).then_some(())
    });
    (folder, server)
}

fn waiting(server: &Server, many: usize) {
    eventually("the letters that are expected", || {
        let letters = server.get("/api/v1/dead-letters?status=open&limit=500").1;
        (letters["letters"].as_array()?.len() == many).then_some(())
    });
}

#[test]
fn both_ways_show_the_same() {
    let (folder, server) = with_letters(3);
    let folder = folder.path();
    for way in [Way::Stores, Way::Server(&server)] {
        let status = way.said(folder, &["status"]);
        assert!(
            status.contains("PIPELINE") && status.contains("orders") && status.contains("mails"),
            "{status}"
        );
        let groups = way.json(folder, &["groups"])["groups"].clone();
        assert_eq!((&groups[0]["count"], &groups[0]["event_type"]), (&3.into(), &"Broken".into()));
        let fingerprint = groups[0]["fingerprint"].as_str().unwrap();
        assert!(way.said(folder, &["groups"]).contains(fingerprint));
        let letters = way.json(folder, &["ls", "--group", fingerprint, "--limit", "2"]);
        assert_eq!((letters["letters"].as_array().unwrap().len(), letters["next"].is_string()), (2, true));
        let list = way.said(folder, &["ls", "-q", "STATUS 1", "--since", "1h"]);
        assert_eq!(list.lines().count(), 4, "a header and three letters: {list}");
        assert!(way.said(folder, &["ls", "--status", "resolved"]).contains("no letters match"));
        // Events that fail side by side die in any order.
        let id = way.json(folder, &["ls", "--key", "0"])["letters"][0]["id"].as_str().unwrap().to_owned();
        let letter = way.said(folder, &["show", &id]);
        assert!(letter.contains("type      Broken") && letter.contains("\"key\": \"0\""), "{letter}");
        assert!(way.said(folder, &["ops"]).contains("no operations yet"));
        let books = way.json(folder, &["verify"])["pipelines"].clone();
        let orders = books.as_array().unwrap().iter().find(|book| book["pipeline"] == "orders").unwrap();
        assert_eq!((&orders["gap"], &orders["balance"]["open"]), (&0.into(), &3.into()));
        assert!(way.said(folder, &["verify"]).contains("the books balance"));
    }
}

#[test]
fn exit_codes_mean_something() {
    let (folder, server) = with_letters(1);
    let folder = folder.path();
    for way in [Way::Stores, Way::Server(&server)] {
        assert_failed(&way.run(folder, &["show", "orders:99"]), 3, &["no letter orders:99"]);
        assert_failed(&way.run(folder, &["show", "nope:1"]), 3, &["no pipeline nope"]);
        assert_failed(&way.run(folder, &["ops", "7"]), 3, &["no operation 7"]);
        assert_failed(&way.run(folder, &["ls", "--status", "dead"]), 2, &["unknown value `dead`"]);
        assert_failed(&way.run(folder, &["retry"]), 2, &["--all"]);
        assert_failed(&way.run(folder, &["retry", "--type", "Broken"]), 2, &["1 letter", "--yes"]);
        assert_failed(
            &way.run(folder, &["retry", "--type", "Nothing", "--yes"]),
            3,
            &["no letter that waits matches"],
        );
        assert_failed(&way.run(folder, &["retry", "orders:1", "--type", "Broken"]), 2, &["one of the two"]);
        assert_failed(&way.run(folder, &["retry", "orders:1", "--all"]), 2, &["cannot be used"]);
        // Every message has an empty text in it: all letters went.
        for (command, beside) in
            [("retry", "--all"), ("resolve", "--type=Broken"), ("retry", "--type=Broken")]
        {
            let output = way.run(folder, &[command, "-q", "", beside, "--yes"]);
            assert_failed(&output, 2, &["-q is blank", "leave it out"]);
        }
        std::fs::write(folder.join("nothing.json"), "").unwrap();
        let output = way.run(folder, &["retry", "orders:1", "--edit", "nothing.json"]);
        assert_failed(&output, 2, &["nothing.json is empty", "nothing was sent"]);
        // They went as they were.
        for many in [&["--type", "Broken"][..], &["--all"], &["--type", "Broken", "--canary"]] {
            let args = [&["retry", "--edit", "redrive.toml", "--yes"], many].concat();
            assert_failed(&way.run(folder, &args), 2, &["--edit", "the id of that letter"]);
        }
        assert_failed(
            &way.run(folder, &["enqueue", "jobs", "nope", "--key", "1", "--payload", "x"]),
            3,
            &["no job queue"],
        );
    }
    let nobody =
        Way::Stores.command(folder, &["ls"]).env("REDRIVE_SERVER", "http://127.0.0.1:1").output().unwrap();
    assert_failed(&nobody, 4, &["does not answer", "REDRIVE_SERVER"]);
    let rubbish = Way::Stores.command(folder, &["ls"]).env("REDRIVE_SERVER", "localhost").output().unwrap();
    assert_failed(&rubbish, 2, &["no address of a server"]);
    let empty = support::folder_with(CONFIG);
    assert_failed(&Way::Stores.run(empty.path(), &["ls"]), 3, &["redrive migrate", "--server"]);
    let help = text(&redrive(folder).arg("--help").output().unwrap().stdout);
    assert!(help.contains("  3  nothing found") && help.contains("  4  unavailable"), "{help}");
}

/// With `--json` it was a success.
#[test]
fn a_store_that_does_not_answer_fails_the_command_whoever_reads_it() {
    let folder = folder_with("[jobs.mails]\ndatabase = \"sqlite:nowhere/mails.db\"\n");
    assert_eq!(redrive(folder.path()).arg("migrate").output().unwrap().status.code(), Some(4));
    for args in [&["status"][..], &["groups"], &["ls"], &["verify"]] {
        for more in [&[][..], &["--json"]] {
            let output = Way::Stores.run(folder.path(), &[args, more].concat());
            assert_failed(&output, 4, &["mails"]);
            assert!(!output.stdout.is_empty(), "what is there is shown: {args:?}");
        }
    }
}

#[test]
fn one_letter_is_sent_back_edited_and_closed() {
    let (folder, server) = with_letters(3);
    let folder = folder.path();
    for (way, id) in [(Way::Stores, "orders:1"), (Way::Server(&server), "orders:2")] {
        assert!(way.said(folder, &["retry", id]).contains("sent back to work"));
        assert_failed(&way.run(folder, &["retry", id]), 3, &["not waiting"]);
    }
    // Each has failed again, as another letter.
    waiting(&server, 3);
    std::fs::write(folder.join("edit.json"), r#"{"mended": true}"#).unwrap();
    for (way, id) in [(Way::Stores, "orders:3"), (Way::Server(&server), "orders:4")] {
        way.said(folder, &["retry", id, "--edit", "edit.json"]);
        let letter = way.json(folder, &["show", id]);
        assert_eq!(letter["edits"][0]["edited"]["text"], r#"{"mended": true}"#);
    }
    waiting(&server, 3);
    for (way, id) in [(Way::Stores, "orders:5"), (Way::Server(&server), "orders:6")] {
        assert!(way.said(folder, &["resolve", id, "-m", "a test"]).contains("closed"));
        assert!(way.said(folder, &["show", id]).contains("a test"));
    }
}

#[test]
fn many_letters_are_sent_back_and_followed_to_the_end() {
    let (folder, server) = with_letters(20);
    let folder = folder.path();
    for way in [Way::Stores, Way::Server(&server)] {
        let dry = way.said(folder, &["retry", "--type", "Broken", "--dry-run"]);
        assert!(dry.contains("20 letters to redrive") && dry.contains("nothing was changed"), "{dry}");
        let done =
            way.json(folder, &["retry", "--pipeline", "orders", "--yes", "-m", "mended", "--rate", "1000"]);
        assert_eq!((&done["state"], &done["done"]), (&"finished".into(), &20.into()));
        // What died while a person was asked went along.
        assert!(
            done["subject"].as_str().unwrap().contains("until:"),
            "what was counted is what is meant: {done}"
        );
        assert!(way.said(folder, &["ops"]).contains("finished"));
        assert!(way.said(folder, &["ops", &done["id"].to_string()]).contains("note: mended"));
        waiting(&server, 20);
    }
    let detached = Way::Server(&server).json(folder, &["retry", "--all", "--yes", "--detach"]);
    let followed = Way::Server(&server).said(folder, &["ops", &detached["id"].to_string(), "--follow"]);
    assert!(followed.contains("20 of 20 letters done"), "{followed}");
    // Before anybody is asked.
    assert_failed(&Way::Stores.run(folder, &["retry", "--all", "--detach"]), 2, &["--server"]);
    waiting(&server, 20);
    let closed = Way::Stores.said(folder, &["resolve", "--all", "--yes"]);
    assert!(closed.contains("20 of 20 letters done"), "{closed}");
    waiting(&server, 0);
}

#[test]
fn a_canary_that_fails_again_stops_the_operation_and_the_command_fails() {
    let (folder, server) = with_letters(10);
    let stopped = Way::Server(&server).run(folder.path(), &["retry", "--all", "--yes", "--canary"]);
    assert_failed(&stopped, 1, &["stopped", "failed again", "untouched"]);
    let id = server.get("/api/v1/redrives").1["operations"][0]["id"].to_string();
    let way = Way::Server(&server);
    assert!(way.said(folder.path(), &["ops", &id, "cancel"]).contains("cancelled"));
    assert_failed(&way.run(folder.path(), &["ops", &id, "resume"]), 3, &["is cancelled"]);
}

#[test]
fn a_bulk_retry_needs_no_server() {
    let (folder, server) = with_letters(5);
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    let done = Way::Stores.said(folder.path(), &["retry", "--all", "--yes"]);
    assert!(done.contains("5 of 5 letters done"), "{done}");
    let server = Server::ready(folder.path());
    waiting(&server, 5);
}

/// A process that does not outlive the test.
struct Following(std::process::Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tail_tells_each_letter_once_as_it_dies() {
    // Many of them at the same moment: those that were there before are not new, shown or not.
    let (folder, server) = with_letters(20);
    for way in [Way::Stores, Way::Server(&server)] {
        let mut command = way.command(folder.path(), &["tail", "-n", "1", "--json", "--type", "Broken"]);
        let mut child = Following(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let first = next();
        server.post("/api/v1/outbox/orders/events", &event("Broken", "new"));
        let second = next();
        assert_ne!(first["id"], second["id"]);
        assert_eq!(second["key"], "new");
    }
}

/// It was followed by the time of the failure, and whoever hands a letter in may give any.
#[test]
fn tail_tells_letters_that_failed_before_it_began() {
    let (folder, server) = with_letters(2);
    for (at, way) in [Way::Stores, Way::Server(&server)].into_iter().enumerate() {
        let mut command = way.command(folder.path(), &["tail", "-n", "1", "--json"]);
        let mut child = Following(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next()["pipeline"], "orders");
        let handed_in = json!({"event_type": "Paid", "key": at.to_string(), "payload": 1,
            "error": {"message": "long ago"}, "failed_at": "2020-01-01T00:00:00Z"});
        assert_eq!(server.post("/api/v1/dead-letters", &handed_in).0, 201);
        let told = next();
        assert_eq!(
            (&told["key"], &told["failed_at"]),
            (&json!(at.to_string()), &json!("2020-01-01T00:00:00Z"))
        );
    }
}

#[test]
fn tail_goes_on_when_the_server_was_restarted() {
    let (folder, server) = with_letters(1);
    let mut command = Way::Server(&server).command(folder.path(), &["tail", "-n", "1", "--json"]);
    let mut child = Following(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut said = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["key"], "0");
    let address = server.address.to_string();
    server.signal("TERM");
    server.end();
    assert!(said.next().unwrap().unwrap().contains("does not answer"));
    let server = Server::start_at(folder.path(), &address);
    server.wait_ready(200);
    server.post("/api/v1/outbox/orders/events", &event("Broken", "new"));
    assert_eq!(next()["key"], "new");
}

/// A number of many digits became another one on its way in and on its way out; keys were sorted, and an export
/// of what is whole was cut.
#[test]
fn a_payload_is_stored_shown_and_exported_as_it_was_written() {
    let folder = folder_with(CONFIG);
    let server = Server::ready(folder.path());
    let folder = folder.path();
    let long = "x".repeat((1 << 20) + 1);
    let payload = format!("{{\"b\":12345678901234567890123,\"a\":\"{long}\"}}");
    let small = "{\"b\":12345678901234567890123,\"a\":1.10}";
    for (key, payload) in [("long", payload.as_str()), ("small", small)] {
        let line =
            format!("{{\"event_type\":\"Broken\",\"aggregate_id\":\"{key}\",\"payload\":{payload}}}\n");
        let mut command = Way::Server(&server).command(folder, &["enqueue", "outbox", "orders"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
    waiting(&server, 2);
    for way in [Way::Stores, Way::Server(&server)] {
        let id = way.json(folder, &["ls", "--key", "small"])["letters"][0]["id"].as_str().unwrap().to_owned();
        let shown = way.said(folder, &["show", &id]);
        assert!(shown.ends_with("{\n  \"b\": 12345678901234567890123,\n  \"a\": 1.10\n}\n"), "{shown}");
        let exported = way.said(folder, &["export", "--whole", "--key", "long"]);
        let exported: Value = serde_json::from_str(&exported).unwrap();
        assert_eq!(exported["payload"]["cut"], false);
        assert!(exported["payload"]["text"] == payload, "whole, byte for byte");
    }
}

#[test]
fn work_is_put_in_from_flags_and_from_lines() {
    let folder = folder_with(CONFIG);
    let server = Server::ready(folder.path());
    let folder = folder.path();
    let feed = |way: Way<'_>, args: &[&str], input: &str| -> Output {
        let mut command = way.command(folder, args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    for way in [Way::Stores, Way::Server(&server)] {
        way.said(folder, &["enqueue", "jobs", "mails", "--key", "7", "--payload", "-x"]);
        let lines: String =
            (0..1_200).map(|key| format!("{}\n\n", event("Fine", &key.to_string()))).collect();
        let fed = feed(way, &["enqueue", "outbox", "orders"], &lines);
        assert_eq!((text(&fed.stdout), fed.status.code()), ("1,200 accepted\n".to_owned(), Some(0)));
        assert!(
            feed(way, &["enqueue", "outbox", "orders", "--type", "Fine"], "from a pipe").status.success()
        );
        let wrong =
            feed(way, &["enqueue", "outbox", "orders"], "{\"event_type\":\"Fine\",\"payload\":1}\nno json\n");
        assert_failed(&wrong, 2, &["line 2 is no JSON"]);
        let wrong = feed(way, &["enqueue", "jobs", "mails"], "{\"sbject\":\"1\"}\n");
        assert_failed(&wrong, 2, &["sbject"]);
        assert_failed(
            &way.run(folder, &["enqueue", "outbox", "orders", "--key", "1", "--payload", "x"]),
            2,
            &["--type"],
        );
    }
    eventually("every event delivered", || {
        let metrics = server.metrics();
        metrics
            .contains(r#"redrive_events_total{pipeline="orders",type="Fine",outcome="delivered"} 2402"#)
            .then_some(())
    });
}

#[test]
fn a_token_comes_from_the_environment_or_a_file_and_its_role_counts() {
    let config = format!(
        "[server]\ntokens = [{{ name = \"vera\", role = \"viewer\", sha256 = \"{}\" }}, {{ name = \"otto\", role = \"operator\", sha256 = \"{}\" }}]\n{CONFIG}",
        sha256("v"),
        sha256("o")
    );
    let folder = folder_with(&config);
    let server = Server::start(folder.path());
    server.wait_ready(200);
    let folder = folder.path();
    let way = Way::Server(&server);
    assert_failed(&way.run(folder, &["ls"]), 3, &["REDRIVE_TOKEN"]);
    assert!(way.command(folder, &["ls"]).env("REDRIVE_TOKEN", "v").output().unwrap().status.success());
    let refused =
        way.command(folder, &["resolve", "--all", "--dry-run"]).env("REDRIVE_TOKEN", "v").output().unwrap();
    assert_failed(&refused, 3, &["needs an operator", "vera"]);
    std::fs::write(folder.join("token"), "o\n").unwrap();
    assert!(way.run(folder, &["resolve", "--all", "--dry-run", "--token-file", "token"]).status.success());
    assert_failed(&way.run(folder, &["ls", "--token-file", "nowhere"]), 2, &["token file"]);
    assert_failed(&way.run(folder, &["ls", "--token", "o"]), 2, &["unexpected argument"]);
}

#[track_caller]
fn assert_inert(what: &str, said: &str) {
    let harmful: Vec<char> = said.chars().filter(|letter| hostile::is_harmful(*letter)).collect();
    assert!(harmful.is_empty(), "{what}: {harmful:?} in {said}");
}

/// The cells of a row, without their quotes.
fn cells(row: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut letters = row.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cells.last_mut().unwrap().extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => cells.last_mut().unwrap().push(letter),
        }
    }
    cells
}

#[test]
fn hostile_text_does_nothing_to_a_terminal_or_a_spreadsheet() {
    let folder = folder_with(CONFIG);
    let server = Server::ready(folder.path());
    let texts = hostile::texts();
    for text in &texts {
        // Names are short; what is longer is refused.
        let name: String = text.chars().take(90).collect();
        let letter = json!({
            "event_type": name, "key": text, "payload": text, "service": name, "source": text,
            "headers": [{"name": text, "value": text}], "error": {"message": text, "kind": name, "code": format!("other:{name}")},
        });
        assert_eq!(server.post("/api/v1/dead-letters", &letter).0, 201, "{text:?}");
    }
    let folder = folder.path();
    for way in [Way::Stores, Way::Server(&server)] {
        for args in [
            &["ls", "--limit", "500"][..],
            &["ls", "--limit", "500", "--json"],
            &["groups", "--limit", "500"],
            &["groups", "--limit", "500", "--json"],
            &["export"],
            &["export", "--whole"],
            &["status"],
            &["status", "--json"],
        ] {
            assert_inert(&format!("{args:?}"), &way.said(folder, args));
        }
        for number in [1, 7, 67, 131, 199] {
            assert_inert("show", &way.said(folder, &["show", &format!("intake:{number}")]));
        }
        let csv = way.said(folder, &["export", "--format", "csv"]);
        assert_eq!(csv.matches("\r\n").count(), texts.len() + 1, "one line per letter");
        assert!(csv.lines().all(|row| cells(row).len() == 14), "and nothing leaves its cell");
        assert_inert("csv", &csv.replace("\r\n", "\n"));
        for cell in csv.split("\r\n").flat_map(cells) {
            assert!(!cell.trim_start().starts_with(['=', '+', '-', '@']), "{cell}");
        }
        let kept: Vec<Value> = way
            .said(folder, &["export", "--whole"])
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let keys: std::collections::HashSet<&str> =
            kept.iter().map(|letter| letter["key"].as_str().unwrap()).collect();
        assert!(
            texts.iter().all(|text| keys.contains(text.as_str())),
            "nothing is lost by being made harmless"
        );
    }
}

#[test]
fn an_export_goes_page_by_page_into_a_file_of_ones_own() {
    let (folder, server) = with_letters(0);
    let events: Vec<Value> = (0..1_203).map(|key| event("Nobody", &key.to_string())).collect();
    server.post("/api/v1/outbox/orders/events", &json!(events));
    eventually("every letter", || server.metrics().contains(r#"outcome="dead"} 1203"#).then_some(()));
    let folder = folder.path();
    for way in [Way::Stores, Way::Server(&server)] {
        way.said(folder, &["export", "--output", "letters.jsonl"]);
        let lines = std::fs::read_to_string(folder.join("letters.jsonl")).unwrap();
        let ids: std::collections::HashSet<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string())
            .collect();
        assert_eq!(ids.len(), 1_203);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.join("letters.jsonl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_file(folder.join("letters.jsonl")).unwrap();
    }
    let mut child = Way::Stores.command(folder, &["export"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success(), "a reader that goes away is no failure");
}

/// One letter that went back to work between the list and its turn ended the export.
#[test]
fn an_export_goes_on_when_a_letter_is_gone() {
    let letter = |id: &str| {
        json!({
            "id": id, "pipeline": "mails", "kind": "jobs", "event_type": "A", "key": "1", "attempts": 1,
            "failure": {"class": "permanent", "code": null, "kind": "No", "message": "no"}, "status": "open",
            "failed_at": "2026-11-16T14:02:00Z", "redrive_count": 0, "group": "00c0ffee00c0ffee",
        })
    };
    let list = json!({"letters": [letter("mails:1"), letter("mails:2")], "next": null, "unavailable": []});
    let mut whole = letter("mails:2");
    let more = json!({
        "first_failed_at": "2026-11-16T14:02:00Z", "origin": {"in": "table", "table": "t", "id": 2}, "headers": [],
        "payload": {"format": "text", "text": "x", "size": 1, "cut": false}, "history": [], "resolution": null,
        "edits": [],
    });
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new()
        .route("/api/v1/dead-letters", axum::routing::get(|| async { axum::Json(list) }))
        .route("/api/v1/dead-letters/mails:2", axum::routing::get(|| async { axum::Json(whole) }));
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let folder = folder();
    let mut command = redrive(folder.path());
    command.args(["export", "--whole"]).env("REDRIVE_SERVER", format!("http://{address}"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let exported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(exported["id"], "mails:2");
    assert!(text(&output.stderr).contains("1 letter not exported"), "{}", text(&output.stderr));
}

#[test]
fn every_shell_gets_its_completions() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = redrive(folder.path()).args(["completions", shell]).output().unwrap();
        assert!(text(&script.stdout).contains("retry"), "{shell}");
    }
}
