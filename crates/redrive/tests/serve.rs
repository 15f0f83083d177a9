//! `redrive serve` at work: events and jobs go in over HTTP and reach their handlers, or become dead letters.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

#[path = "support/receiver.rs"]
mod receiver;
mod support;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use receiver::Receiver;
use redrive_testkit::{Client, Pooler, TestDatabase};
use serde_json::{Value, json};
use support::{Server, assert_failed, eventually, folder_with, redrive, sha256};

const EVENTS: &str = "/api/v1/outbox/orders/events";

/// The embedded database of a server.
fn embedded(folder: &Path) -> TestDatabase {
    let mut database = redrive_testkit::sqlite();
    database.url = format!("sqlite:{}", folder.join("redrive-data/redrive.db").display());
    database.direct.clone_from(&database.url);
    database
}

/// What a client of the embedded database sees.
fn column(folder: &Path, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { Client::connect(&embedded(folder)).await.column(sql).await })
}

fn event(event_type: &str, payload: &str) -> Value {
    json!({"event_type": event_type, "aggregate_type": "Order", "aggregate_id": "42", "payload": payload})
}

/// An outbox whose events of type `Posted` go to the receiver, with quick retries.
fn outbox_to(receiver: &Receiver) -> String {
    format!(
        "[outbox.orders]\nmax-retry-count = 2\nretry = {{ initial = \"20ms\", factor = 1.0, max = \"20ms\" }}\n\
         handlers.Posted = {{ http = \"http://{}/\" }}\n",
        receiver.address
    )
}

#[test]
fn events_reach_their_http_handler_and_what_keeps_failing_becomes_a_dead_letter() {
    let receiver = Receiver::start(|body| match body {
        "broken" => (500, Duration::ZERO),
        "refused" => (422, Duration::ZERO),
        _ => (200, Duration::ZERO),
    });
    let folder = folder_with(&outbox_to(&receiver));
    let server = Server::ready(folder.path());
    let events = json!([
        event("Posted", "fine"),
        event("Posted", "broken"),
        event("Posted", "refused"),
        event("Nobody", "nobody"),
    ]);
    let (status, answer) = server.post(EVENTS, &events);
    assert_eq!((status, answer), (201, json!({"ids": [1, 2, 3, 4]})));

    server.wait_metric(r#"redrive_dead_letters{pipeline="orders",status="open"} 3"#);
    assert_eq!((receiver.count("fine"), receiver.count("refused")), (1, 1));
    let attempts: Vec<_> = receiver.seen().into_iter().filter(|seen| seen.body == "broken").collect();
    let expected = ["1", "2", "3"].map(|attempt| ("orders:2", attempt));
    assert_eq!(attempts.iter().map(|seen| (&*seen.key, &*seen.attempt)).collect::<Vec<_>>(), expected);

    let sql = "SELECT payload || '/' || retry_count || '/' || error_message FROM outbox_event_dlq ORDER BY original_event_id";
    let letters = column(folder.path(), sql);
    assert!(letters[0].starts_with("broken/2/") && letters[0].contains("500"), "{letters:?}");
    assert!(letters[1].starts_with("refused/0/") && letters[1].contains("422"), "{letters:?}");
    assert!(letters[2].starts_with("nobody/0/") && letters[2].contains("\"Nobody\""), "{letters:?}");
    assert_eq!(column(folder.path(), "SELECT payload FROM outbox_event WHERE processed = TRUE"), ["fine"]);

    let metrics = server.metrics();
    for line in [
        r#"redrive_events_total{pipeline="orders",type="Posted",outcome="accepted"} 3"#,
        r#"redrive_events_total{pipeline="orders",type="Posted",outcome="delivered"} 1"#,
        r#"redrive_events_total{pipeline="orders",type="Posted",outcome="retried"} 2"#,
        r#"redrive_events_total{pipeline="orders",type="Posted",outcome="dead"} 2"#,
        r#"redrive_events_total{pipeline="orders",type="Nobody",outcome="dead"} 1"#,
        r#"redrive_attempt_seconds_count{pipeline="orders",type="Posted"} 5"#,
        r#"redrive_backlog{pipeline="orders"} 0"#,
        r#"redrive_alerts_total{channel="log",outcome="sent"} 3"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    assert!(metrics.contains("redrive_oldest_dead_letter_seconds{pipeline=\"orders\"}"), "{metrics}");
    assert!(server.log().contains("Dead letter in orders"), "{}", server.log());
}

#[test]
fn a_command_gets_the_payload_and_its_exit_status_decides() {
    let config = "[outbox.orders]\nretry = { initial = \"20ms\", factor = 1.0, max = \"20ms\" }\n\
                  handlers.Run = { command = [\"sh\", \"-c\", \"cat > got; echo $REDRIVE_EVENT_TYPE >> got\"] }\n\
                  handlers.Refuse = { command = [\"sh\", \"-c\", \"echo no such thing >&2; exit 1\"] }\n";
    let folder = folder_with(config);
    let server = Server::ready(folder.path());
    server.post(EVENTS, &json!([event("Run", "hello\n"), event("Refuse", "x")]));
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Run",outcome="delivered"} 1"#);
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Refuse",outcome="dead"} 1"#);
    assert_eq!(std::fs::read_to_string(folder.path().join("got")).unwrap(), "hello\nRun\n");
    let letters = column(folder.path(), "SELECT error_message FROM outbox_event_dlq");
    assert!(letters[0].contains("no such thing"), "{letters:?}");
}

#[test]
fn a_job_queue_with_a_handler_does_its_jobs() {
    let receiver = Receiver::start(|body| (if body == "bad" { 410 } else { 204 }, Duration::ZERO));
    let folder =
        folder_with(&format!("[jobs.mails]\nhandler = {{ http = \"http://{}/\" }}\n", receiver.address));
    let server = Server::ready(folder.path());
    let jobs = json!([{"subject": "1", "payload": "good"}, {"subject": "2", "payload": "bad"}]);
    assert_eq!(server.post("/api/v1/jobs/mails", &jobs).0, 201);
    server.wait_metric(r#"redrive_events_total{pipeline="mails",type="mails",outcome="delivered"} 1"#);
    server.wait_metric(r#"redrive_dead_letters{pipeline="mails",status="open"} 1"#);
    let states = column(folder.path(), "SELECT status FROM mails_job_queue ORDER BY job_id");
    assert_eq!(states, ["completed", "dead_letter"]);
}

#[test]
fn workers_claim_complete_fail_and_extend_over_http() {
    let folder = folder_with("[jobs.mails]\nretry = { initial = \"20ms\", factor = 1.0, max = \"20ms\" }\n");
    let server = Server::ready(folder.path());
    let post = |path: &str, body: Value| server.post(&format!("/api/v1/jobs/mails{path}"), &body);
    post("", json!([{"subject": "a"}, {"subject": "b", "max_retries": 1}, {"subject": "c"}]));
    let (_, claimed) = post("/claim", json!({"worker": "w1", "limit": 2, "lease": "30s"}));
    let lease = |index: usize| claimed["jobs"][index]["lease"].clone();
    assert_eq!(post("/1/complete", json!({"lease": lease(0)})).0, 204);
    assert_eq!(post("/2/heartbeat", json!({"lease": lease(1), "extend": "1m"})).0, 200);
    assert_eq!(post("/2/fail", json!({"lease": lease(1), "error": "no"})).0, 204);
    let (status, problem) = post("/2/complete", json!({"lease": lease(1)}));
    assert_eq!((status, &problem["status"]), (409, &json!(409)));

    // A worker that hangs past its lease: another one gets the job, and the first one's report is void.
    let (_, stale) = post("/claim", json!({"lease": "1s"}));
    assert_eq!(stale["jobs"][0]["subject"], "c");
    let (_, fresh) = post("/claim", json!({"wait": "20s"}));
    assert_eq!((&fresh["jobs"][0]["id"], &fresh["jobs"][0]["attempt"]), (&json!(3), &json!(2)));
    assert_eq!(post("/3/complete", json!({"lease": stale["jobs"][0]["lease"]})).0, 409);
    assert_eq!(post("/3/complete", json!({"lease": fresh["jobs"][0]["lease"]})).0, 204);
    let states = column(folder.path(), "SELECT status FROM mails_job_queue ORDER BY job_id");
    assert_eq!(states, ["completed", "dead_letter", "completed"]);
}

#[test]
fn a_stop_waits_for_handlers_and_hands_back_the_rest_and_a_restart_goes_on() {
    let receiver = Receiver::start(|body| (200, Duration::from_secs(if body == "slow" { 60 } else { 0 })));
    let config = format!(
        "[server]\nshutdown-deadline = \"2s\"\n[outbox.orders]\nconcurrency = 1\n\
         handlers.Posted = {{ http = \"http://{}/\" }}\n",
        receiver.address
    );
    let folder = folder_with(&config);
    let server = Server::ready(folder.path());
    server.post(EVENTS, &json!([event("Posted", "slow"), event("Posted", "waiting")]));
    eventually("the slow event is with its handler", || (receiver.count("slow") == 1).then_some(()));
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(receiver.count("waiting"), 0);
    let held =
        column(folder.path(), "SELECT COALESCE(leased_by, '-') || retry_count FROM outbox_event ORDER BY id");
    assert_eq!(held, ["-0", "-0"], "handed back, no attempt burnt");

    let server = Server::ready(folder.path());
    eventually("the slow event comes again", || (receiver.count("slow") == 2).then_some(()));
    server.signal("KILL");
}

#[test]
fn a_stop_that_takes_too_long_says_so_and_exits_with_1() {
    let receiver = Receiver::start(|_| (200, Duration::from_secs(60)));
    let config = outbox_to(&receiver);
    let folder = folder_with(&format!("[server]\nshutdown-deadline = \"500ms\"\n{config}"));
    let server = Server::ready(folder.path());
    server.post(EVENTS, &event("Posted", "slow"));
    eventually("the event is with its handler", || (receiver.count("slow") == 1).then_some(()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut client = runtime.block_on(Client::connect(&embedded(folder.path())));
    // Somebody holds the database: the event cannot be handed back.
    runtime.block_on(client.run("BEGIN IMMEDIATE"));
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("still working 500ms after the stop") && log.contains("shutdown-deadline"), "{log}");
}

#[test]
fn a_long_poll_does_not_hold_up_the_stop() {
    let folder = folder_with("[jobs.mails]\n");
    let server = Server::ready(folder.path());
    std::thread::scope(|scope| {
        let (key, path) = ("idempotency-key: poll\r\n", "/api/v1/jobs/mails/claim");
        let polling = scope.spawn(|| server.ask_with(key, "POST", path, r#"{"wait": "60s"}"#));
        // With its key it is written down: one that comes after the signal is refused, and fails the test.
        eventually("the poll has arrived", || {
            (column(folder.path(), "SELECT count(*) FROM redrive_request") == ["1"]).then_some(())
        });
        server.signal("TERM");
        assert_eq!(polling.join().unwrap(), (200, r#"{"jobs":[]}"#.to_owned()));
    });
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_pipeline_starts_by_itself_when_its_database_comes() {
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let config = outbox_to(&receiver).replacen('\n', "\ndatabase = \"sqlite:later/orders.db\"\n", 1);
    let folder = folder_with(&config);
    let server = Server::start(folder.path());
    server.wait_ready(503);
    let (status, problem) = server.post(EVENTS, &event("Posted", "early"));
    assert_eq!(status, 503, "{problem}");
    let trouble = || server.get("/api/v1/pipelines/orders").1["trouble"].clone();
    eventually("the pipeline is shown as troubled", || trouble().is_string().then_some(()));
    std::fs::create_dir(folder.path().join("later")).unwrap();
    server.wait_ready(200);
    assert_eq!(server.post(EVENTS, &event("Posted", "late")).0, 201);
    eventually("the event arrives", || (receiver.count("late") == 1).then_some(()));
    eventually("and no longer", || trouble().is_null().then_some(()));
}

/// For some seconds after the start it was shown as one that does not answer, while `/api/v1/ready` said otherwise.
#[test]
fn a_pipeline_that_is_ready_is_not_shown_as_troubled() {
    let folder = folder_with("[outbox.orders]\n[jobs.mails]\n[persist.urls]\n");
    let server = Server::ready(folder.path());
    for pipeline in server.get("/api/v1/pipelines").1["pipelines"].as_array().unwrap() {
        assert_eq!(pipeline["trouble"], Value::Null, "{pipeline}");
    }
}

/// `redrive serve 2>&1 | head`, a log collector that restarts.
#[test]
fn a_log_that_nobody_reads_any_more_stops_nothing() {
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let folder = folder_with(&outbox_to(&receiver));
    let server = Server::unheard(folder.path());
    server.wait_ready(200);
    assert_eq!(server.post(EVENTS, &event("Nobody", "dead, and said so in the log")).0, 201);
    server.wait_metric(r#"redrive_dead_letters{pipeline="orders",status="open"} 1"#);
    assert_eq!(server.post(EVENTS, &event("Posted", "late")).0, 201);
    eventually("the next event arrives", || (receiver.count("late") == 1).then_some(()));
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0), "and it stops when it is told to");
}

#[test]
fn a_letter_that_is_handed_in_is_counted_and_alerted_at_once() {
    let folder = folder_with("");
    let server = Server::ready(folder.path());
    let letter = json!({"event_type": "PaymentDone", "key": "7", "payload": "{}", "error": {"message": "no funds"}, "source": "one"});
    for _ in 0..2 {
        assert_eq!(server.post("/api/v1/dead-letters", &letter).0, 201);
    }
    server.wait_metric(r#"redrive_dead_letters{pipeline="intake",status="open"} 1"#);
    server.wait_metric(r#"redrive_alerts_total{channel="log",outcome="sent"} 1"#);
    assert!(server.log().contains("no funds"), "{}", server.log());
}

#[test]
fn ready_shows_a_pipeline_whose_store_stopped_answering() {
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let config = outbox_to(&receiver).replacen('\n', "\npoll-interval = \"50ms\"\n", 1);
    let folder = folder_with(&config);
    let server = Server::ready(folder.path());
    column(folder.path(), "ALTER TABLE outbox_event RENAME TO elsewhere");
    let body = server.wait_ready(503);
    let orders = &body["components"][1];
    assert_eq!((&orders["name"], &orders["ok"]), (&json!("orders"), &json!(false)), "{body}");
    assert!(orders["detail"].as_str().unwrap().contains("outbox_event"), "{body}");
    column(folder.path(), "ALTER TABLE elsewhere RENAME TO outbox_event");
    server.wait_ready(200);
}

#[test]
fn processed_events_are_deleted_when_they_are_old() {
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let config = outbox_to(&receiver).replacen('\n', "\nkeep-processed = \"1s\"\n", 1);
    let folder = folder_with(&config);
    let server = Server::ready(folder.path());
    server.post(EVENTS, &json!([event("Posted", "a"), event("Posted", "b")]));
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Posted",outcome="delivered"} 2"#);
    server.wait_metric(r#"redrive_purged_total{pipeline="orders"} 2"#);
    assert!(column(folder.path(), "SELECT id FROM outbox_event").is_empty());
}

#[test]
fn closed_letters_are_deleted_when_they_are_old_and_open_ones_stay() {
    let receiver = Receiver::start(|_| (409, Duration::ZERO));
    let config = outbox_to(&receiver).replacen('\n', "\nkeep-resolved = \"1h\"\n", 1);
    let folder = folder_with(&config);
    let server = Server::ready(folder.path());
    server.post(EVENTS, &json!([event("Posted", "a"), event("Posted", "b")]));
    let letters = || column(folder.path(), "SELECT id FROM outbox_event_dlq ORDER BY id");
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Posted",outcome="dead"} 2"#);
    let first = letters().remove(0);
    server.post(&format!("/api/v1/dead-letters/orders:{first}/resolve"), &json!({"note": "by phone"}));
    drop(server);
    let long_ago = "UPDATE outbox_event_dlq SET failed_at = '2026-01-01 00:00:00.000'";
    column(folder.path(), long_ago);
    column(
        folder.path(),
        &format!("{long_ago}, resolved_at = '2026-01-01 00:00:00.000' WHERE resolved = TRUE"),
    );
    let server = Server::ready(folder.path());
    server.wait_metric(r#"redrive_purged_total{pipeline="orders"} 1"#);
    assert_eq!(letters().len(), 1, "the other one waits for somebody");
}

#[test]
fn letters_are_redriven_by_their_rule() {
    // The first answer of each event is a refusal, the second one is not.
    let receiver = Receiver::start(|_| {
        static FIRST: std::sync::Once = std::sync::Once::new();
        let mut status = 200;
        FIRST.call_once(|| status = 409);
        (status, Duration::ZERO)
    });
    let rule = "\nauto-redrive = [{ code = \"http:409\", after = \"10ms\", max-redrives = 1 }]\n";
    let folder = folder_with(&outbox_to(&receiver).replacen('\n', rule, 1));
    let server = Server::ready(folder.path());
    server.post(EVENTS, &event("Posted", "x"));
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Posted",outcome="dead"} 1"#);
    server.wait_metric(r#"redrive_events_total{pipeline="orders",type="Posted",outcome="delivered"} 1"#);
    let keys: HashSet<_> = receiver.seen().into_iter().map(|seen| seen.key).collect();
    assert_eq!(keys, HashSet::from(["orders:1".to_owned()]), "a redriven event keeps its key");
    assert!(server.metrics().contains(r#"redrive_auto_redriven_total{pipeline="orders"} 1"#));
}

/// It was a green "working" everywhere.
#[test]
fn a_handler_that_is_down_is_told_on_every_screen_until_it_is_back() {
    static IS_BACK: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let receiver = Receiver::start(|_| {
        (if IS_BACK.load(std::sync::atomic::Ordering::Relaxed) { 200 } else { 503 }, Duration::ZERO)
    });
    let folder = folder_with(&outbox_to(&receiver));
    let server = Server::ready(folder.path());
    server.wait_metric(r#"redrive_handler_down{pipeline="orders",handler="Posted"} 0"#);
    server.post(EVENTS, &event("Posted", "x"));
    server.wait_metric(r#"redrive_handler_down{pipeline="orders",handler="Posted"} 1"#);
    let trouble = || server.get("/api/v1/pipelines/orders").1["trouble"].clone();
    let told = trouble();
    let told = told.as_str().unwrap();
    assert!(told.starts_with("handler Posted is down since 2") && told.contains("503"), "{told}");
    let status = redrive(folder.path())
        .args(["status", "--server", &format!("http://{}", server.address)])
        .output()
        .unwrap();
    let status = support::text(&status.stdout);
    assert!(status.contains("handler Posted is down since 2"), "{status}");
    assert_eq!(server.get("/api/v1/ready").0, 200, "redrive itself can work");
    IS_BACK.store(true, std::sync::atomic::Ordering::Relaxed);
    server.wait_metric(r#"redrive_handler_down{pipeline="orders",handler="Posted"} 0"#);
    assert_eq!(trouble(), Value::Null);
}

/// Rules were for outboxes and jobs only, and a letter that was handed in had one redrive at most: then it was `failed`.
#[test]
fn letters_that_were_handed_in_are_redriven_by_their_rule_as_often_as_it_says() {
    // It takes the second delivery only.
    let receiver = Receiver::start(|_| {
        static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (if call < 1 { 409 } else { 200 }, Duration::ZERO)
    });
    let config = format!(
        "[intake]\nmax-attempts = 1\ntargets.bank = {{ http = \"http://{}/\" }}\n\
         auto-redrive = [{{ code = \"http:409\", after = \"10ms\", factor = 1.0, max-redrives = 3 }}]\n",
        receiver.address
    );
    let folder = folder_with(&config);
    let server = Server::ready(folder.path());
    let letter = |source: &str| {
        json!({"event_type": "Paid", "key": "1", "payload": {"n": 1}, "source": source,
            "error": {"message": "no", "code": "http:409"}})
    };
    let mut with_target = letter("with");
    with_target["target"] = "bank".into();
    for handed_in in [&with_target, &letter("without")] {
        assert_eq!(server.post("/api/v1/dead-letters", handed_in).0, 201);
    }
    let status = |id: &str| server.get(&format!("/api/v1/dead-letters/{id}")).1["status"].clone();
    eventually("the first redrive fails", || (receiver.seen().len() == 1).then_some(()));
    eventually("the second redrive gets through", || (status("intake:1") == "redriven").then_some(()));
    assert_eq!(receiver.seen().len(), 2);
    assert_eq!(server.get("/api/v1/dead-letters/intake:1").1["target"], "bank");
    let shown = redrive(folder.path()).args(["show", "intake:1"]).output().unwrap();
    assert!(support::text(&shown.stdout).contains("target    bank"), "{}", support::text(&shown.stdout));
    assert_eq!(status("intake:2"), "open", "there is nowhere to send it to");
    assert!(server.metrics().contains(r#"redrive_auto_redriven_total{pipeline="intake"} 2"#));
}

#[test]
fn a_handler_that_cannot_work_is_refused_at_the_start() {
    let folder = folder_with("[outbox.orders]\nhandlers.A = { http = \"not an address\" }\n");
    let output = redrive(folder.path()).arg("serve").output().unwrap();
    assert_failed(&output, 2, &["redrive.toml:2:23", "outbox.orders.handlers.A.http.url"]);
    let header = "headers = { idempotency-key = \"x\" }";
    let config = format!("[outbox.orders]\nhandlers.A = {{ http = {{ url = \"http://h/\", {header} }} }}\n");
    let folder = folder_with(&config);
    let mut command = redrive(folder.path());
    let output = command.arg("serve").env("REDRIVE__SERVER__LISTEN", "127.0.0.1:0").output().unwrap();
    assert_failed(&output, 2, &["redrive.toml:2", "handlers.A", "idempotency-key"]);
}

#[test]
fn two_servers_on_one_database_deliver_each_event_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for database in runtime.block_on(redrive_testkit::servers(file!())) {
        deliver_with_two_servers(&runtime, &database);
    }
}

fn deliver_with_two_servers(runtime: &tokio::runtime::Runtime, database: &TestDatabase) {
    const EVENT_COUNT: usize = 2_000;
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let place = format!("\ndatabase = \"{}\"\n", database.url);
    let config = outbox_to(&receiver).replacen('\n', &place, 1);
    let folders = [folder_with(&config), folder_with(&config)];
    let servers = [Server::ready(folders[0].path()), Server::ready(folders[1].path())];
    for batch in 0..20 {
        let bodies = (0..EVENT_COUNT / 20).map(|n| event("Posted", &format!("{batch}-{n}")));
        assert_eq!(servers[batch % 2].post(EVENTS, &bodies.collect()).0, 201);
    }
    eventually("every event arrives", || (receiver.seen().len() >= EVENT_COUNT).then_some(()));
    let sql = "SELECT COUNT(*) FROM outbox_event WHERE processed = FALSE";
    eventually("every event is processed", || {
        let left = runtime.block_on(async { Client::connect(database).await.number(sql).await });
        (left == 0).then_some(())
    });
    let seen = receiver.seen();
    let keys: HashSet<_> = seen.iter().map(|delivery| &delivery.key).collect();
    assert_eq!((seen.len(), keys.len()), (EVENT_COUNT, EVENT_COUNT));
    for server in &servers {
        let delivered = r#"redrive_events_total{pipeline="orders",type="Posted",outcome="delivered"}"#;
        assert!(server.metrics().contains(delivered), "one of them did nothing");
    }
}

/// An event that one server takes in is handled by the other one at once: Postgres tells it.
#[test]
fn a_server_hears_of_work_that_came_in_elsewhere() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(database) = runtime.block_on(redrive_testkit::postgres(file!())) else { return };
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let place = format!("\ndatabase = \"{}\"\npoll-interval = \"1h\"\n", database.url);
    let folder = folder_with(&outbox_to(&receiver).replacen('\n', &place, 1));
    let server = Server::ready(folder.path());
    // Once this one has arrived, the server has looked at the table and listens or is about to.
    server.post(EVENTS, &event("Posted", "first"));
    eventually("the first event arrives", || (receiver.count("first") == 1).then_some(()));
    let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) \
                  VALUES ('Posted', 'Order', '42', 'elsewhere')";
    runtime.block_on(async { Client::connect(&database).await.run(insert).await });
    eventually("the other event arrives", || (receiver.count("elsewhere") == 1).then_some(()));
}

#[test]
fn a_server_behind_a_pooler_hears_of_work_over_a_direct_address() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pooled = redrive_testkit::pooled(file!(), Pooler::Transaction);
    let Some(database) = runtime.block_on(pooled) else { return };
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let place = format!(
        "\ndatabase = \"{}\"\nlisten-database = \"{}\"\npoll-interval = \"1h\"\n",
        database.url, database.direct
    );
    let folder = folder_with(&outbox_to(&receiver).replacen('\n', &place, 1));
    let server = Server::ready(folder.path());
    server.post(EVENTS, &event("Posted", "first"));
    eventually("the first event arrives", || (receiver.count("first") == 1).then_some(()));
    let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) \
                  VALUES ('Posted', 'Order', '42', 'elsewhere')";
    runtime.block_on(async { Client::connect(&database).await.run(insert).await });
    eventually("the other event arrives", || (receiver.count("elsewhere") == 1).then_some(()));
    assert!(!server.log().contains("found by polling"), "{}", server.log());
}

#[test]
fn a_server_that_hears_of_nothing_through_a_pooler_says_so_once_and_polls() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pooled = redrive_testkit::pooled(file!(), Pooler::Transaction);
    let Some(database) = runtime.block_on(pooled) else { return };
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let place = format!("\ndatabase = \"{}\"\npoll-interval = \"50ms\"\n", database.url);
    let folder = folder_with(&outbox_to(&receiver).replacen('\n', &place, 1));
    let server = Server::ready(folder.path());
    let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) \
                  VALUES ('Posted', 'Order', '42', 'elsewhere')";
    runtime.block_on(async { Client::connect(&database).await.run(insert).await });
    eventually("the event arrives", || (receiver.count("elsewhere") == 1).then_some(()));
    let said = || server.log().matches("found by polling").count();
    eventually("it is said", || (said() == 1).then_some(()));
}

/// One alert watches all pipelines, so they must count alike: 1 is where events belong.
#[test]
fn pipelines_of_different_kinds_stand_on_the_same_ladder() {
    let sink =
        "{ database = \"sqlite:decisions.db\", table = \"decision_log\", columns = { id = \"$.id\" } }";
    let kafka = format!("brokers = \"127.0.0.1:1\"\ntopic = \"decisions\"\ngroup = \"g\"\nsink = {sink}\n");
    let folder = folder_with(&format!("[persist.urls]\n[kafka.decisions]\n{kafka}"));
    let server = Server::start(folder.path());
    server.wait_metric(r#"redrive_ladder_rung{pipeline="urls"} 1"#);
    server.wait_metric(r#"redrive_ladder_rung{pipeline="decisions"} 1"#);
}

/// A damaged journal of Kafka's letters was logged, and nobody was told.
#[test]
fn a_damaged_journal_is_counted_and_told_whatever_pipeline_it_is_of() {
    let receiver = Receiver::start(|_| (200, Duration::ZERO));
    let sink =
        "{ database = \"sqlite:decisions.db\", table = \"decision_log\", columns = { id = \"$.id\" } }";
    let kafka = format!("brokers = \"127.0.0.1:1\"\ntopic = \"decisions\"\ngroup = \"g\"\nsink = {sink}\n");
    let alerts = format!("[alerts]\nchannels = [{{ webhook = \"http://{}/\" }}]\n", receiver.address);
    let folder = folder_with(&format!("[persist.urls]\n[ingest.clicks]\n[kafka.decisions]\n{kafka}{alerts}"));
    let journals = ["persist/urls", "journal/clicks", "kafka/decisions/outgoing", "kafka/decisions/refused"];
    for journal in journals {
        let journal = folder.path().join("redrive-data").join(journal);
        std::fs::create_dir_all(&journal).unwrap();
        for first in ["00000000000000000001", "00000000000000000002"] {
            std::fs::write(journal.join(format!("{first}.journal")), "no record at all").unwrap();
        }
    }
    let server = Server::start(folder.path());
    for (pipeline, found) in [("urls", 1), ("clicks", 1), ("decisions", 2)] {
        let count = |line: &&str| {
            let name = "redrive_journal_damaged_total{pipeline=\"";
            line.starts_with(&format!("{name}{pipeline}\",kind=\"damaged\"}}")) && !line.ends_with(" 0")
        };
        let line = eventually(pipeline, || server.metrics().lines().find(count).map(str::to_owned));
        let counted: u32 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(counted >= found, "{line}");
    }
    let told = |journal: &str| {
        let mut bodies = receiver.seen().into_iter().map(|delivery| delivery.body);
        bodies.any(|body| body.contains("is damaged") && body.contains(journal))
    };
    for journal in journals {
        eventually(journal, || told(journal).then_some(()));
    }
}

#[test]
fn with_tokens_nobody_else_is_let_in_and_a_viewer_changes_nothing() {
    let tokens = format!(
        "tokens = [{{ name = \"vera\", role = \"viewer\", sha256 = \"{}\" }}, \
         {{ name = \"otto\", role = \"operator\", sha256 = \"{}\" }}]\n",
        sha256("looking"),
        sha256("doing")
    );
    let folder = folder_with(&format!("[server]\n{tokens}[outbox.orders]\n"));
    let server = Server::ready(folder.path());
    let body = event("Posted", "x").to_string();
    for (header, look, put) in [
        ("", 401, 401),
        ("authorization: Bearer guessed\r\n", 401, 401),
        ("authorization: Basic bG9va2luZw==\r\n", 401, 401),
        ("authorization: Bearer looking\r\n", 200, 403),
        ("authorization: Bearer doing\r\n", 200, 201),
    ] {
        assert_eq!(server.ask_with(header, "GET", "/metrics", "").0, look, "{header}");
        assert_eq!(server.ask_with(header, "POST", EVENTS, &body).0, put, "{header}");
    }
    assert!(!server.log().contains("looking"), "tokens stay out of the log");
}
