//! The binary as a user meets it: started, asked, stopped.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sqlx::{Connection as _, Executor as _};
use support::{Server, assert_failed, folder, folder_with, redrive, text};

#[test]
fn version_and_help_are_there() {
    let folder = folder();
    let version = redrive(folder.path()).arg("--version").output().unwrap();
    assert_eq!(text(&version.stdout), format!("redrive {}\n", env!("CARGO_PKG_VERSION")));
    let help = redrive(folder.path()).arg("--help").output().unwrap();
    for part in ["Examples:", "Exit codes:", "serve", "check", "migrate", "REDRIVE_CONFIG"] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = folder();
    assert_failed(&redrive(folder.path()).arg("sreve").output().unwrap(), 2, &["serve"]);
    assert_failed(&redrive(folder.path()).output().unwrap(), 2, &["Usage"]);
}

#[test]
fn check_reports_every_mistake_on_stderr_and_exits_with_2() {
    let folder = folder_with("[server]\nlisten = 1\n[outbox.a]\nbatch = 5\nlease = 20s\n");
    let output = redrive(folder.path()).arg("check").output().unwrap();
    assert_failed(&output, 2, &["redrive.toml:2:10", "redrive.toml:4:1", "redrive.toml:5:9", "3 mistakes"]);
    assert!(output.stdout.is_empty());
}

#[test]
fn check_sums_up_a_right_file_on_stdout() {
    let folder = folder_with("[outbox.orders]\n[jobs.mails]\n");
    let output = redrive(folder.path()).arg("check").output().unwrap();
    assert!(output.status.success());
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("ok: redrive.toml: 2 pipelines\n"), "{stdout}");
    assert!(stdout.contains("orders") && stdout.contains("mails"), "{stdout}");
    assert!(!folder.path().join("redrive-data").exists(), "a check changes nothing");
}

#[test]
fn a_named_file_must_be_there() {
    let folder = folder();
    let by_flag = redrive(folder.path()).args(["check", "--config", "nope.toml"]).output().unwrap();
    assert_failed(&by_flag, 2, &["no configuration file at nope.toml"]);
    let by_variable = redrive(folder.path()).arg("check").env("REDRIVE_CONFIG", "no.toml").output().unwrap();
    assert_failed(&by_variable, 2, &["no configuration file at no.toml"]);
    let a_folder = redrive(folder.path()).args(["check", "--config", "."]).output().unwrap();
    assert_failed(&a_folder, 2, &["cannot be read"]);
}

#[test]
fn a_file_that_is_not_text_is_refused_with_its_line() {
    let folder = folder();
    fs::write(folder.path().join("redrive.toml"), b"[server]\nlisten = \"\xff\"\n").unwrap();
    assert_failed(&redrive(folder.path()).arg("check").output().unwrap(), 2, &["not UTF-8", "line 2"]);
}

#[test]
fn a_variable_names_the_file_and_the_flag_wins() {
    let folder = folder();
    fs::write(folder.path().join("a.toml"), "[jobs.from-a]\n").unwrap();
    fs::write(folder.path().join("b.toml"), "[jobs.from-b]\n").unwrap();
    let by_variable = redrive(folder.path()).arg("check").env("REDRIVE_CONFIG", "a.toml").output().unwrap();
    assert!(text(&by_variable.stdout).contains("from-a"));
    let mut command = redrive(folder.path());
    let by_flag =
        command.args(["check", "--config", "b.toml"]).env("REDRIVE_CONFIG", "a.toml").output().unwrap();
    assert!(text(&by_flag.stdout).contains("from-b"));
}

#[test]
fn the_reference_can_be_printed() {
    let folder = folder();
    let output = redrive(folder.path()).args(["check", "--reference"]).output().unwrap();
    assert_eq!(text(&output.stdout), redrive::config::reference());
}

#[test]
fn serve_works_without_configuration_and_stops_on_sigterm() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (status, health) = server.get("/api/v1/health");
    assert_eq!((status, &health["status"]), (200, &Value::from("healthy")));
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    let ready = server.wait_ready(200);
    assert_eq!(ready["components"][0]["kind"], "store");
    assert!(folder.path().join("redrive-data/redrive.db").exists());
    assert_eq!(server.get("/nothing").0, 404);
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");
}

#[test]
fn serve_stops_on_ctrl_c_too() {
    let folder = folder();
    let server = Server::start(folder.path());
    server.signal("INT");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn ready_has_a_line_for_each_pipeline() {
    let folder = folder_with("[outbox.orders]\n[jobs.mails]\n[persist.urls]\n");
    let server = Server::start(folder.path());
    let ready = server.wait_ready(200);
    let lines: Vec<_> = ready["components"].as_array().unwrap().iter().map(|line| &line["name"]).collect();
    assert_eq!(lines, ["server.database", "orders", "mails", "urls"]);
}

#[test]
fn a_client_that_never_finishes_does_not_hold_up_the_stop() {
    let folder = folder_with("[server]\nshutdown-deadline = \"100ms\"\n");
    let server = Server::start(folder.path());
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(b"GET /api/v1/health HTTP/1.1\r\nhost:").unwrap();
    // Answered on a second connection: the first one has been accepted by then.
    assert_eq!(server.get("/api/v1/health").0, 200);
    server.signal("TERM");
    let (code, log) = server.end();
    // A request of which only half came may be dropped in time or be cut off: either way it ends.
    assert!(code == Some(0) || (code == Some(1) && log.contains("shutdown-deadline")), "{code:?} {log}");
}

#[test]
fn a_taken_port_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder();
    let address = taken.local_addr().unwrap().to_string();
    let output =
        redrive(folder.path()).arg("serve").env("REDRIVE__SERVER__LISTEN", &address).output().unwrap();
    assert_failed(&output, 1, &["the port is taken", &address]);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_explained() {
    let folder = folder();
    fs::write(folder.path().join("redrive-data"), "a file").unwrap();
    for command in ["serve", "migrate"] {
        let output = redrive(folder.path()).arg(command).output().unwrap();
        assert_failed(&output, 1, &["data directory ./redrive-data cannot be used", "server.data-dir"]);
    }
}

#[test]
fn a_wide_bind_without_tokens_refuses_to_start() {
    let folder = folder();
    let output =
        redrive(folder.path()).arg("serve").env("REDRIVE__SERVER__LISTEN", "0.0.0.0:0").output().unwrap();
    assert_failed(&output, 2, &["server.listen", "tokens"]);
}

/// An address at which nobody listens: a port that was free a moment ago may be somebody's by now.
fn deserted() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 9).into()
}

#[test]
fn serve_starts_while_a_database_is_down_and_says_which() {
    let config = format!("[outbox.orders]\ndatabase = \"postgres://me:hunter2@{}/shop\"\n", deserted());
    let folder = folder_with(&config);
    let server = Server::start(folder.path());
    let body = server.wait_ready(503);
    let orders = &body["components"][1];
    assert_eq!((&orders["name"], &orders["ok"]), (&Value::from("orders"), &Value::from(false)));
    assert_eq!(server.get("/api/v1/health").0, 200);
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("hunter2") && !body.to_string().contains("hunter2"));
}

#[test]
fn serve_recovers_by_itself_when_its_database_comes() {
    let folder = folder_with("[jobs.mails]\ndatabase = \"sqlite:later/mails.db\"\n");
    let server = Server::start(folder.path());
    server.wait_ready(503);
    fs::create_dir(folder.path().join("later")).unwrap();
    server.wait_ready(200);
}

#[test]
fn migrate_names_what_it_did_and_can_be_repeated() {
    let folder = folder_with("[outbox.orders]\n[jobs.mails]\n");
    for _ in 0..2 {
        let output = redrive(folder.path()).arg("migrate").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        assert!(stdout.contains("ok: outbox orders") && stdout.contains("ok: jobs mails"), "{stdout}");
    }
}

#[test]
fn migrate_fails_when_a_database_is_down_and_says_which() {
    let folder = folder_with("[jobs.mails]\ndatabase = \"sqlite:nowhere/mails.db\"\n[outbox.orders]\n");
    let output = redrive(folder.path()).arg("migrate").output().unwrap();
    let said = ["jobs mails at sqlite:nowhere/mails.db", "cannot be opened", "1 of 3"];
    assert_failed(&output, 4, &said);
    assert!(text(&output.stdout).contains("ok: outbox orders"));
}

/// A server that does not answer was a plain failure, and nobody could tell it from a table that is refused.
#[test]
fn migrate_exits_with_the_code_of_what_is_wrong() {
    let away = folder_with("[jobs.mails]\ndatabase = \"postgres://nobody@127.0.0.1:1/mails\"\n");
    let output = redrive(away.path()).arg("migrate").output().unwrap();
    assert_failed(&output, 4, &["jobs mails at postgres://127.0.0.1:1/mails", "try again"]);
    let refused = folder_with("[jobs.mails]\ntable = \"redrive_taken.mails\"\n");
    let output = redrive(refused.path()).arg("migrate").output().unwrap();
    assert_failed(&output, 1, &["jobs mails", "refused"]);
}

/// It altered one table before it failed at the other.
#[tokio::test]
async fn a_dry_run_prints_every_statement_and_every_problem_and_changes_nothing() {
    let folder = folder_with("[outbox.orders]\ndatabase = \"sqlite:app.db\"\n[jobs.mails]\n");
    let url = format!("sqlite:{}", folder.path().join("app.db").display());
    let options: sqlx::sqlite::SqliteConnectOptions = url.parse().unwrap();
    let mut app = sqlx::SqliteConnection::connect_with(&options.create_if_missing(true)).await.unwrap();
    app.execute(
        "CREATE TABLE outbox_event (id INTEGER PRIMARY KEY, event_type TEXT, aggregate_type TEXT, aggregate_id TEXT, \
         payload TEXT, processed BOOLEAN, processed_at TEXT, error_message TEXT, retry_count INT, created_at TEXT, \
         updated_at TEXT)",
    )
    .await
    .unwrap();
    app.execute("CREATE TABLE outbox_event_dlq (id INTEGER PRIMARY KEY, event_type TEXT)").await.unwrap();
    let dry = redrive(folder.path()).args(["migrate", "--dry-run"]).output().unwrap();
    let (out, problems) = (text(&dry.stdout), text(&dry.stderr));
    assert!(out.contains("ADD COLUMN lease") && out.contains("mails_job_queue"), "{out}");
    for expected in ["has no column resolved", "ADD COLUMN resolved BOOLEAN", "has no column payload"] {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    assert_failed(&dry, 1, &["cannot be migrated"]);
    let connected = redrive(folder.path()).args(["check", "--connect"]).output().unwrap();
    assert_failed(&connected, 1, &["has no column resolved"]);
    // It said so beside the errors of the same pipeline.
    assert!(!text(&connected.stdout).contains("ok: outbox orders"), "{}", text(&connected.stdout));
    assert!(text(&connected.stdout).contains("ok: jobs mails"), "{}", text(&connected.stdout));
    assert_failed(&redrive(folder.path()).arg("migrate").output().unwrap(), 1, &["has no column resolved"]);
    let columns: i64 = sqlx::query_scalar("SELECT count(*) FROM pragma_table_info('outbox_event')")
        .fetch_one(&mut app)
        .await
        .unwrap();
    assert_eq!(columns, 11, "nothing was changed");
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name LIKE '%job_queue'")
        .fetch_one(&mut app)
        .await
        .unwrap();
    assert_eq!(tables, 0, "in no part");

    app.execute("DROP TABLE outbox_event_dlq").await.unwrap();
    assert!(redrive(folder.path()).args(["migrate"]).output().unwrap().status.success());
    let again = redrive(folder.path()).args(["migrate", "--dry-run"]).output().unwrap();
    assert!(again.status.success() && !text(&again.stdout).contains("ALTER"), "{}", text(&again.stdout));
}

/// Every pipeline found out by itself, one after the other, and again when it was migrated: three seconds for each.
#[test]
fn a_server_of_another_kind_is_found_out_once_for_all_that_share_its_address() {
    let (address, dialled) = silent_until_asked_as_postgres();
    let pipeline = |name: &str| format!("[jobs.{name}]\ndatabase = \"mysql://root@{address}/shop\"\n");
    let config: String = ["a", "b", "c", "d"].iter().map(|name| pipeline(name)).collect();
    let folder = folder_with(&config);
    for command in [&["migrate"][..], &["migrate", "--dry-run"], &["check", "--connect"]] {
        let before = dialled.load(Ordering::Relaxed);
        let output = redrive(folder.path()).args(command).output().unwrap();
        assert_failed(&output, 4, &["jobs a", "jobs d", "a Postgres server answers there", "4 of 5"]);
        let dialled = dialled.load(Ordering::Relaxed) - before;
        assert_eq!(dialled, 2, "{command:?}: as MySQL, and then as Postgres");
    }
}

/// A listener that speaks as a Postgres server does, which waits to be asked; how often it was dialled.
fn silent_until_asked_as_postgres() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let dialled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dialled);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut request = [0; 8];
                if stream.read_exact(&mut request).is_ok() {
                    let _ = stream.write_all(b"N");
                }
            });
        }
    });
    (address, dialled)
}
