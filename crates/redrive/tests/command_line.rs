//! The command line as people use it: on a terminal of 80 columns, with Ctrl-C, with variables that are set to nothing.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::{Server, assert_failed, eventually, folder, folder_with, redrive, sha256, text};

/// An event whose type is as long as one may be seen, and whose failure has much to say.
const TYPE: &str = "CustomerAddressVerificationRequestedByPartner";
const SAID: &str = "the address service refused the request because the postal code of the customer does not belong to the country that was given with it";

/// An outbox whose events all fail at once.
fn config() -> String {
    format!(
        "[outbox.orders]\npoll-interval = \"100ms\"\nmax-retry-count = 0\n\
         handlers.{TYPE} = {{ command = [\"sh\", \"-c\", \"echo '{SAID}' >&2; exit 1\"] }}\n[jobs.mails]\n[persist.urls]\n[ingest.clicks]\n"
    )
}

/// A server with so many letters, at rest.
fn with_letters(many: usize) -> (tempfile::TempDir, Server) {
    let folder = folder_with(&config());
    let server = Server::ready(folder.path());
    let event =
        |key: usize| json!({"event_type": TYPE, "aggregate_id": key.to_string(), "payload": {"key": key}});
    let events: Vec<Value> = (0..many).map(event).collect();
    assert_eq!(server.post("/api/v1/outbox/orders/events", &json!(events)).0, 201);
    waiting(&server, many);
    (folder, server)
}

fn waiting(server: &Server, many: usize) {
    eventually("the letters and the group that are expected", || {
        let letters = server.get("/api/v1/dead-letters?status=open&limit=500").1;
        let groups = server.get("/api/v1/groups").1;
        let count = groups["groups"][0]["count"].as_u64();
        (letters["letters"].as_array()?.len() == many && count == Some(many as u64)).then_some(())
    });
}

fn to(server: &Server, folder: &Path, args: &[&str]) -> Command {
    let mut command = redrive(folder);
    command.args(args).env("REDRIVE_SERVER", server.url());
    command
}

#[track_caller]
fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What a terminal of so many columns shows; with its colours.
fn on_terminal(server: &Server, folder: &Path, columns: usize, args: &str) -> String {
    let program = env!("CARGO_BIN_EXE_redrive");
    let script = format!("stty cols {columns} rows 50; exec {program} {args}");
    let mut command = Command::new("script");
    command.args(["-qec", &script, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    command.env("REDRIVE_SERVER", server.url()).env("TERM", "xterm").env_remove("NO_COLOR");
    text(&command.output().unwrap().stdout).replace('\r', "")
}

fn without_colours(text: &str) -> String {
    let parts = text.split("\x1b[");
    parts.enumerate().map(|(at, part)| if at == 0 { part } else { part.split_once('m').unwrap().1 }).collect()
}

/// The fingerprint, which one copies, was broken in two, and so were the titles of `verify`; at 200 columns a message
/// was still cut at 80.
#[test]
fn tables_fit_the_terminal_and_break_no_name() {
    let (folder, server) = with_letters(3);
    let folder = folder.path();
    let operation =
        said(to(&server, folder, &["resolve", "orders:1", "-m", "it was a test of the address service"]));
    assert!(operation.contains("closed"), "{operation}");
    let fingerprint = server.get("/api/v1/groups").1["groups"][0]["fingerprint"].as_str().unwrap().to_owned();
    for command in ["groups", "ls", "status", "verify", "audit"] {
        let shown = without_colours(&on_terminal(&server, folder, 80, command));
        // Sentences may be longer: what is below the table of `verify`.
        for line in shown.lines().take_while(|line| !line.contains("the books balance")) {
            assert!(line.chars().count() <= 80, "{command}: {line}\n{shown}");
        }
        let name = match command {
            "groups" => &fingerprint,
            "ls" => "orders:2",
            "status" => "trouble|working",
            "verify" => "PIPELINE  ACCEPTED",
            _ => "resolve",
        };
        assert!(name.split('|').any(|name| shown.contains(name)), "{command}: {name} in\n{shown}");
        if command != "groups" {
            continue;
        }
        let wide = without_colours(&on_terminal(&server, folder, 320, command));
        assert!(wide.contains(SAID) && wide.contains(TYPE), "{wide}");
    }
    let piped = said(to(&server, folder, &["ls"]));
    assert!(piped.contains(SAID) && piped.contains(TYPE), "everything, for other programs: {piped}");
}

#[test]
fn colours_are_for_terminals_only() {
    let (folder, server) = with_letters(1);
    let folder = folder.path();
    for command in ["groups", "ls", "status", "verify"] {
        assert!(on_terminal(&server, folder, 120, command).contains("\x1b["), "{command}");
        assert!(!said(to(&server, folder, &[command])).contains('\x1b'), "{command}");
    }
    let json = on_terminal(&server, folder, 120, "ls --json");
    assert!(!json.contains('\x1b'), "{json}");
}

/// It was 3, as if somebody had been faster.
#[test]
fn ctrl_c_ends_with_130_and_the_operation_goes_on_where_a_server_runs() {
    let (folder, server) = with_letters(20);
    let mut retry = to(&server, folder.path(), &["retry", "--all", "--yes", "--rate", "1"]);
    let child = retry.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = eventually("it is under way, and looked at", || {
        let operation = server.get("/api/v1/redrives").1["operations"][0].clone();
        (operation["done"].as_u64()? > 0).then(|| operation["id"].to_string())
    });
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_failed(&ended, 130, &[&format!("operation {id} is not over: the server goes on")]);
    assert_eq!(server.post(&format!("/api/v1/redrives/{id}/cancel"), &json!({})).0, 200);
}

#[test]
fn a_pipeline_is_paused_and_resumed_with_a_server_and_without() {
    let (folder, server) = with_letters(1);
    let folder = folder.path();
    let paused = |wanted: bool| {
        eventually("the server has heard of it", || {
            (server.get("/api/v1/pipelines/orders").1["paused"] == wanted).then_some(())
        });
    };
    let without = |args: &[&str]| {
        let mut command = redrive(folder);
        command.args(args);
        command
    };
    assert!(said(to(&server, folder, &["pause", "orders"])).contains("orders: paused in every instance"));
    paused(true);
    assert!(said(to(&server, folder, &["status"])).contains("paused"));
    assert!(said(without(&["resume", "orders"])).contains("resumed in every instance; servers follow"));
    paused(false);
    said(without(&["pause", "orders"]));
    paused(true);
    said(to(&server, folder, &["resume", "orders"]));
    paused(false);
    assert_failed(&to(&server, folder, &["pause", "nope"]).output().unwrap(), 3, &["no pipeline nope"]);
    assert_failed(
        &to(&server, folder, &["pause", "clicks"]).output().unwrap(),
        3,
        &["ingest has no workers"],
    );
    let audit = said(to(&server, folder, &["audit", "--limit", "4"]));
    assert_eq!(
        audit.matches("pause pipeline").count() + audit.matches("resume pipeline").count(),
        4,
        "{audit}"
    );
    let page: Value = serde_json::from_str(&said(without(&["audit", "--limit", "1", "--json"]))).unwrap();
    assert_eq!((&page["entries"][0]["action"], page["next"].is_i64()), (&"resume pipeline".into(), true));
    let older = said(to(&server, folder, &["audit", "--before", &page["next"].to_string(), "--limit", "1"]));
    assert!(older.contains("pause pipeline"), "{older}");
}

#[test]
fn enqueue_says_the_number_of_what_was_accepted() {
    let folder = folder_with(&config());
    let server = Server::ready(folder.path());
    let folder = folder.path();
    let event = ["enqueue", "outbox", "orders", "--type", TYPE, "--key", "1", "--payload", "{}"];
    assert_eq!(said(to(&server, folder, &event)), "event 1 accepted\n");
    let job = ["enqueue", "jobs", "mails", "--key", "1", "--payload", "{}", "--json"];
    let accepted: Value = serde_json::from_str(&said(to(&server, folder, &job))).unwrap();
    assert_eq!(accepted, json!({"accepted": 1, "ids": [1], "duplicates": 0}));
    let mut many = to(&server, folder, &["enqueue", "jobs", "mails"]);
    let mut child = many.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let line = "{\"subject\":\"7\",\"unique_key\":\"7\"}\n";
    child.stdin.take().unwrap().write_all(line.repeat(2).as_bytes()).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "1 accepted, 1 duplicate\n");
}

#[test]
fn an_export_replaces_a_file_only_when_it_is_told_to() {
    let (folder, server) = with_letters(1);
    let folder = folder.path();
    let file = folder.join("letters.jsonl");
    std::fs::write(&file, "mine").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let export = |more: &[&str]| -> Output {
        to(&server, folder, &[&["export", "-o", "letters.jsonl"], more].concat()).output().unwrap()
    };
    assert_failed(&export(&[]), 2, &["letters.jsonl is there already", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert!(export(&["--force"]).status.success());
    assert!(std::fs::read_to_string(&file).unwrap().contains("orders:1"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let device = to(&server, folder, &["export", "-o", "/dev/null"]).output().unwrap();
    assert!(device.status.success(), "{}", text(&device.stderr));
}

/// `localhost:7070` was no address, and an empty variable was a flag without its value.
#[test]
fn a_server_is_named_by_host_and_port_and_an_empty_variable_names_nothing() {
    let (folder, server) = with_letters(1);
    let empty = |mut command: Command| {
        command.env("REDRIVE_TOKEN_FILE", "").env("REDRIVE_CONFIG", "");
        command
    };
    let mut ls = redrive(folder.path());
    ls.args(["ls", "--server", &server.address.to_string()]);
    assert!(said(empty(ls)).contains("orders:1"));
    let mut check = redrive(folder.path());
    check.arg("check");
    assert!(said(empty(check)).starts_with("ok: redrive.toml"));
    let mut wrong = redrive(folder.path());
    let wrong = wrong.args(["ls", "--server", "ftp://localhost:21"]).output().unwrap();
    assert_failed(&wrong, 2, &["ftp://", "http:// or https://"]);
}

#[test]
fn a_letter_shows_what_an_edit_changed() {
    let (folder, server) = with_letters(1);
    let folder = folder.path();
    std::fs::write(folder.join("fixed.json"), r#"{"key": 1, "country": "PT"}"#).unwrap();
    said(to(&server, folder, &["retry", "orders:1", "--edit", "fixed.json"]));
    let shown = said(to(&server, folder, &["show", "orders:1"]));
    for line in ["edited ", "-   \"key\": 0", "+   \"key\": 1,", "+   \"country\": \"PT\""] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line} in\n{shown}");
    }
}

#[test]
fn the_manual_has_every_command() {
    let folder = folder();
    let page = redrive(folder.path()).arg("man").output().unwrap();
    let page = text(&page.stdout);
    assert!(
        page.contains(".TH") && page.contains("redrive\\-pause(1)") && page.contains("REDRIVE_CONFIG"),
        "{page}"
    );
    let written = redrive(folder.path()).args(["man", "--output", "man1"]).output().unwrap();
    assert!(written.status.success(), "{}", text(&written.stderr));
    for name in ["redrive", "redrive-serve", "redrive-retry", "redrive-audit", "redrive-man"] {
        let page = std::fs::read_to_string(folder.path().join(format!("man1/{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
}

/// The database and the journals were 0644: only the folder kept others out.
#[test]
fn whatever_is_made_in_the_data_directory_is_for_this_user_only() {
    let (folder, server) = with_letters(1);
    assert_eq!(server.post("/api/v1/ingest/clicks", &json!([{"click": 1}])).0, 202);
    assert_eq!(server.post("/api/v1/persist/urls", &json!({"key": "a", "payload": "b"})).0, 202);
    let mut seen = 0;
    let mut folders = vec![folder.path().join("redrive-data")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 4, "database, log, shared memory, journal: only {seen}");
}

/// Nobody was told of either.
#[test]
fn wrong_tokens_are_counted_and_logged_and_logins_are_audited() {
    let token = |name: &str, role: &str| {
        format!("{{ name = \"{name}\", role = \"{role}\", sha256 = \"{}\" }}", sha256(name))
    };
    let config = format!("[server]\ntokens = [{}]\n{}", token("vera", "viewer"), config());
    let folder = folder_with(&config);
    let server = Server::start(folder.path()).with_token("vera");
    server.wait_ready(200);
    for path in ["/api/v1/pipelines", "/api/v1/ready"] {
        server.ask_with("authorization: Bearer hunter2\r\n", "GET", path, "");
    }
    server.ask_with("", "GET", "/api/v1/pipelines", "");
    server.wait_metric(r#"redrive_authentication_failures_total{reason="unknown-token"} 2"#);
    server.wait_metric(r#"redrive_authentication_failures_total{reason="missing-token"} 1"#);
    let log = eventually("the log has it", || {
        Some(server.log()).filter(|log| log.contains("nobody has was refused"))
    });
    assert!(log.contains("peer=\"127.0.0.1:") && !log.contains("hunter2"), "{log}");

    let ours = "sec-fetch-site: same-origin\r\n";
    let (status, cookie) = server.form(ours, "/login", "token=vera");
    assert_eq!(status, 303);
    let cookie = cookie.unwrap();
    let (status, _) = server.form(&format!("{ours}cookie: {cookie}\r\n"), "/logout", "");
    assert_eq!(status, 303);
    let entries = server.get("/api/v1/audit").1["entries"].clone();
    let actions: Vec<_> =
        entries.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["log out", "log in"]);
    assert_eq!((&entries[0]["operator"], &entries[0]["note"]), (&"vera".into(), &"from 127.0.0.1".into()));
}
