//! Status tells the truth: whatever keeps a pipeline from its work shows in readiness, status, dashboard and metrics,
//! by name, with a reason that machines read and words that people read.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use redrive_testkit::{Backend, Client, TestDatabase};
use serde_json::Value;
use support::{Server, assert_failed, eventually, folder_with, redrive, sha256, text};

fn outbox(database: &TestDatabase) -> String {
    format!("[outbox.orders]\ndatabase = \"{}\"\nhandlers.A = {{ command = [\"true\"] }}\n", database.url)
}

fn component(ready: &Value) -> Value {
    let components = ready["components"].as_array().unwrap();
    components.iter().find(|component| component["name"] == "orders").unwrap().clone()
}

/// Everybody said that all was well, until an event died and its letter was refused.
#[test]
fn a_table_that_was_altered_shows_everywhere_before_an_event_dies() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for database in runtime.block_on(redrive_testkit::backends(file!())) {
        let run = |sql: &str| runtime.block_on(async { Client::connect(&database).await.run(sql).await });
        let folder = folder_with(&outbox(&database));
        let server = Server::ready(folder.path());
        let well = component(&server.wait_ready(200));
        assert_eq!((well["ok"].clone(), well["reason"].clone()), (true.into(), Value::Null));

        run(match database.backend {
            // SQLite takes no new column without a default.
            Backend::Sqlite => "ALTER TABLE outbox_event_dlq DROP COLUMN resolution_note",
            _ => "ALTER TABLE outbox_event_dlq ADD COLUMN team VARCHAR(20) NOT NULL",
        });
        let refused = component(&server.wait_ready(503));
        assert_eq!(refused["reason"], "table-refused", "{:?}: {refused}", database.backend);
        let column = if database.backend == Backend::Sqlite { "resolution_note" } else { "team" };
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(column) && detail.contains("ALTER TABLE"), "the remedy: {detail}");
        assert!(refused["since"].as_str() > well["since"].as_str());
        server.wait_metric(r#"redrive_ready{kind="outbox",name="orders"} 0"#);
        server.wait_metric(r#"redrive_trouble{kind="outbox",name="orders",reason="table-refused"} 1"#);
        let (_, pipeline) = server.get("/api/v1/pipelines/orders");
        assert!(pipeline["trouble"].as_str().is_some_and(|said| said.contains(column)), "{pipeline}");
        let page = server.page("/pipelines");
        assert!(page.contains(column), "the dashboard: {page}");
        let status = redrive(folder.path()).args(["status", "--server", &server.url()]).output().unwrap();
        assert!(text(&status.stdout).contains(column), "{}", text(&status.stdout));

        run(match database.backend {
            Backend::Sqlite => "ALTER TABLE outbox_event_dlq ADD COLUMN resolution_note TEXT",
            _ => "ALTER TABLE outbox_event_dlq DROP COLUMN team",
        });
        assert_eq!(component(&server.wait_ready(200))["reason"], Value::Null);
        server.wait_metric(r#"redrive_trouble{kind="outbox",name="orders",reason="table-refused"} 0"#);
    }
}

/// `/ready` gave tables and addresses to whoever asked.
#[test]
fn without_a_token_readiness_gives_codes_and_no_details() {
    let folder = folder_with(&format!(
        "[server]\ntokens = [{{ name = \"vera\", role = \"viewer\", sha256 = \"{}\" }}]\n\
         [outbox.orders]\ndatabase = \"postgres://nobody@127.0.0.1:1/secret_place\"\nhandlers.A = {{ command = [\"true\"] }}\n",
        sha256("viewer-token")
    ));
    let server = Server::start(folder.path());
    let asked = eventually("it has tried", || {
        let found = component(&server.wait_ready(503));
        (found["reason"] == "store-unreachable").then_some(found)
    });
    assert!(asked["detail"].is_null() && asked["since"].is_string(), "{asked}");
    let (_, wrong) = server.ask_with("authorization: Bearer wrong\r\n", "GET", "/api/v1/ready", "");
    assert!(!wrong.contains("detail") && !wrong.contains("127.0.0.1:1"), "{wrong}");
    let server = server.with_token("viewer-token");
    assert!(component(&server.wait_ready(503))["detail"].is_string());
}

/// It was 0 while 500 waited, for as long as a minute, and nothing said how old that was.
#[test]
fn the_backlog_is_counted_every_few_seconds_and_has_its_time() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for database in runtime.block_on(redrive_testkit::backends(file!())) {
        let folder = folder_with(&outbox(&database));
        let server = Server::ready(folder.path());
        assert_eq!(server.post("/api/v1/pipelines/orders/pause", &Value::Null).0, 200);
        let rows = vec!["('A', 'Order', '42', '{}')"; 500].join(", ");
        let insert = format!(
            "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) VALUES {rows}"
        );
        runtime.block_on(async { Client::connect(&database).await.run(&insert).await });
        // Each worker may have begun a claim of 50 before it heard of the pause.
        let is_counted = |backlog: u64| (400..=500).contains(&backlog);
        eventually("the metric knows", || {
            let metrics = server.metrics();
            let line =
                metrics.lines().find_map(|line| line.strip_prefix(r#"redrive_backlog{pipeline="orders"} "#));
            line.and_then(|value| value.parse().ok()).filter(|backlog| is_counted(*backlog))
        });
        let pipeline = eventually("the console knows", || {
            let (_, pipeline) = server.get("/api/v1/pipelines/orders");
            pipeline["backlog"].as_u64().is_some_and(is_counted).then_some(pipeline)
        });
        assert!(pipeline["backlog_at"].is_string(), "{pipeline}");
    }
}

/// It was answered with 500 and "the log says why", and readiness never knew.
#[test]
fn an_append_that_a_constraint_refuses_is_answered_with_the_reason_and_shows_when_it_goes_on() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for database in runtime.block_on(redrive_testkit::backends(file!())) {
        let folder = folder_with(&outbox(&database));
        let server = Server::ready(folder.path());
        let run = |sql: &str| runtime.block_on(async { Client::connect(&database).await.run(sql).await });
        run(match database.backend {
            Backend::Sqlite => {
                "CREATE TRIGGER typed BEFORE INSERT ON outbox_event WHEN NEW.event_type = 'B' \
                 BEGIN SELECT RAISE(ABORT, 'typed: B is unknown'); END"
            }
            _ => "ALTER TABLE outbox_event ADD CONSTRAINT typed CHECK (event_type <> 'B')",
        });
        let append = |event_type: &str| {
            let event = serde_json::json!({"event_type": event_type, "payload": "{}"});
            server.post("/api/v1/outbox/orders/events", &event)
        };
        let (status, problem) = append("B");
        assert_eq!(status, 422, "{:?}: {problem}", database.backend);
        assert!(problem["detail"].as_str().is_some_and(|said| said.contains("typed")), "{problem}");
        server.wait_metric("redrive_appends_refused_total{pipeline=\"orders\"} 1");
        assert_eq!(append("A").0, 201);
        assert_eq!(component(&server.wait_ready(200))["reason"], Value::Null, "one sender's mistake");
        for _ in 0..5 {
            assert_eq!(append("B").0, 422);
        }
        let refused = component(&server.wait_ready(503));
        assert_eq!(refused["reason"], "table-refused", "{refused}");
        assert!(refused["detail"].as_str().is_some_and(|said| said.contains("typed")), "{refused}");
        assert_eq!(append("A").0, 201);
        server.wait_ready(200);
    }
}

/// The right grants were nowhere to be found.
#[test]
fn the_grants_of_a_role_are_printed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for database in runtime.block_on(redrive_testkit::servers(file!())) {
        let folder = folder_with(&outbox(&database));
        assert!(redrive(folder.path()).arg("migrate").output().unwrap().status.success());
        let printed = redrive(folder.path()).args(["migrate", "--grants", "app"]).output().unwrap();
        let printed = text(&printed.stdout);
        for table in ["outbox_event", "outbox_event_dlq", "redrive_request"] {
            let quoted =
                printed.lines().filter(|line| line.starts_with("GRANT SELECT, INSERT, UPDATE, DELETE ON"));
            assert!(quoted.clone().any(|line| line.contains(table)), "{table}: {printed}");
        }
        assert!(printed.contains("SQLite has no rights"), "{printed}");
    }
    let folder = folder_with("[outbox.orders]\ndatabase = \"postgres://nobody@127.0.0.1:1/x\"\n");
    let away = redrive(folder.path()).args(["migrate", "--grants", "app"]).output().unwrap();
    assert_failed(&away, 4, &["orders"]);
}
