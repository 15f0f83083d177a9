//! Putting work in over HTTP: events into an outbox, jobs into a queue, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use axum::body::Body;
use axum::http::Request;
use redrive_server::Gate;
use redrive_store::WorkStore as _;
use redrive_testkit::{Client, TestDatabase};
use serde_json::json;
use support::{MAX_BODY, METRICS, Stand};

const EVENTS: &str = "/api/v1/outbox/orders/events";
const JOBS: &str = "/api/v1/jobs/mails";

async fn column(database: &TestDatabase, sql: &str) -> Vec<String> {
    Client::connect(database).await.column(sql).await
}

#[tokio::test]
async fn one_event_or_many_are_stored_and_numbered_in_order() {
    let stand = Stand::new().await;
    let one = stand.post(EVENTS, r#"{"event_type":"A","payload":1}"#).await;
    assert_eq!((one.status.as_u16(), one.json), (201, json!({"ids": [1]})));
    let many =
        stand.post(EVENTS, r#" [{"event_type":"B","payload":1},{"event_type":"C","payload":2}]"#).await;
    assert_eq!((many.status.as_u16(), many.json), (201, json!({"ids": [2, 3]})));
    let types = column(&stand.database, "SELECT event_type FROM outbox_event ORDER BY id").await;
    assert_eq!(types, ["A", "B", "C"]);
}

#[tokio::test]
async fn an_empty_array_stores_nothing_and_is_no_mistake() {
    let stand = Stand::new().await;
    assert_eq!(stand.post(EVENTS, "[]").await.json, json!({"ids": []}));
    assert_eq!(stand.post(JOBS, "[]").await.json, json!({"jobs": []}));
}

#[tokio::test]
async fn a_payload_is_kept_as_text_or_as_the_json_that_was_sent() {
    let stand = Stand::new().await;
    let body = r#"[{"event_type":"A","payload":"say \"é\""},
                   {"event_type":"A","payload":{ "n": 12345678901234567890.10 }},
                   {"event_type":"A","payload":null}]"#;
    assert_eq!(stand.post(EVENTS, body).await.status, 201);
    let kept = column(&stand.database, "SELECT payload FROM outbox_event ORDER BY id").await;
    assert_eq!(kept, ["say \"é\"", "{ \"n\": 12345678901234567890.10 }", "null"]);
}

#[tokio::test]
async fn jobs_have_all_their_settings_and_duplicates_are_told() {
    let stand = Stand::new().await;
    let body = json!([
        {"subject": "7", "payload": {"a": 1}, "priority": -5, "delay": "1h", "max_retries": 9, "unique_key": "k"},
        {"subject": "8", "unique_key": "k"},
        {"subject": "9", "delay": 0},
    ]);
    let answer = stand.post(JOBS, body.to_string()).await;
    assert_eq!(answer.status, 201);
    let id = |item: usize| answer.json["jobs"][item]["id"].as_i64().unwrap();
    let expected = json!({"jobs": [{"id": id(0)}, {"duplicate": true}, {"id": id(2)}]});
    assert_eq!(answer.json, expected);
    assert_ne!(id(0), id(2));
    let mut client = Client::connect(&stand.database).await;
    let sql = "SELECT article_id, payload, priority, max_retries, unique_key FROM mails_job_queue ORDER BY article_id";
    let rows = client.rows(sql).await;
    let first: Vec<_> = rows[0].iter().flatten().map(String::as_str).collect();
    assert_eq!(first, ["7", "{\"a\":1}", "-5", "9", "k"]);
    assert_eq!(rows[1][1].as_deref().unwrap_or(""), "");
    let due = "SELECT COUNT(*) FROM mails_job_queue WHERE due_at > strftime('%Y-%m-%d %H:%M:%f', 'now')";
    assert_eq!(client.number(due).await, 1);
}

#[tokio::test]
async fn a_pipeline_that_is_not_there_or_of_another_kind_is_not_found() {
    let stand = Stand::new().await;
    let unknown = stand.post("/api/v1/outbox/nope/events", "{}").await;
    unknown.assert_problem(404, &["no outbox named `nope`", "Known here: orders"]);
    let wrong = stand.post("/api/v1/outbox/mails/events", "{}").await;
    wrong.assert_problem(404, &["no outbox named `mails`", "`mails` is a job queue", "orders"]);
    let unknown = stand.post("/api/v1/jobs/nope", "{}").await;
    unknown.assert_problem(404, &["no job queue named `nope`", "Known here: mails"]);
    for path in ["/api/v1/jobs/orders", "/api/v1/jobs/orders/claim", "/api/v1/jobs/orders/1/complete"] {
        stand.post(path, "{}").await.assert_problem(404, &["`orders` is an outbox"]);
    }
}

#[tokio::test]
async fn invalid_json_has_its_line_and_column() {
    let stand = Stand::new().await;
    let broken = stand.post(EVENTS, "[{\"event_type\": \"A\",\n  \"payload\": }]").await;
    broken.assert_problem(400, &["line 2 column 14"]);
    stand.post(JOBS, "").await.assert_problem(400, &["line 1 column 0"]);
    stand.post(JOBS, "{} {}").await.assert_problem(422, &["missing field `subject`"]);
    stand.post(JOBS, r#"{"subject":"1"} x"#).await.assert_problem(400, &["trailing characters", "column 17"]);
    let not_utf8 = stand.post(EVENTS, b"{\"event_type\":\"\xff\",\"payload\":1}".to_vec()).await;
    not_utf8.assert_problem(400, &["line 1"]);
    let not_utf8 = stand.post(EVENTS, b"{\"event_type\":\"A\",\"payload\":[\"\xff\"]}".to_vec()).await;
    not_utf8.assert_problem(400, &["line 1"]);
}

#[tokio::test]
async fn a_field_that_is_unknown_missing_or_wrong_is_named() {
    let stand = Stand::new().await;
    let body = r#"[{"event_type":"A","payload":1},{"event_type":"A","payload":1,"typ":"B"}]"#;
    stand.post(EVENTS, body).await.assert_refused(Some(1), "typ", "unknown field `typ`");
    let body = r#"[{"event_type":"A"}]"#;
    stand.post(EVENTS, body).await.assert_problem(422, &["Item 0", "missing field `payload`"]);
    let body = r#"{"event_type":5,"payload":1}"#;
    stand.post(EVENTS, body).await.assert_refused(None, "event_type", "expected a string");
    let body = r#"{"subject":"1","delay":"soon"}"#;
    stand.post(JOBS, body).await.assert_refused(None, "delay", "expected a duration such as");
    let body = r#"[{"subject":"1","priority":40000}]"#;
    stand.post(JOBS, body).await.assert_refused(Some(0), "priority", "expected a whole number from -32768");
    let body = r#"[{"subject":"1"},{"subject":"1","max_retries":0}]"#;
    stand.post(JOBS, body).await.assert_refused(Some(1), "max_retries", "from 1 to 1000000");
    stand.post(EVENTS, "3").await.assert_problem(422, &["expected an object"]);
    assert_eq!(stand.jobs.backlog().await.unwrap() + stand.outbox.backlog().await.unwrap(), 0);
}

#[tokio::test]
async fn what_the_store_cannot_keep_is_refused_whole_with_item_and_field() {
    let stand = Stand::new().await;
    let good = json!({"event_type": "A", "payload": 1});
    for (bad, field, said) in [
        (json!({"event_type": "A", "payload": "a\0b"}), "payload", "NUL byte"),
        (json!({"event_type": "", "payload": 1}), "event_type", "empty"),
        (json!({"event_type": "x".repeat(101), "payload": 1}), "event_type", "at most 100"),
        (
            json!({"event_type": "A", "aggregate_id": "x".repeat(256), "payload": 1}),
            "aggregate_id",
            "at most 255",
        ),
    ] {
        let answer = stand.post(EVENTS, json!([good, good, bad]).to_string()).await;
        answer.assert_refused(Some(2), field, said);
    }
    let bad = json!([{"subject": "1"}, {"subject": "1", "unique_key": ""}]);
    stand.post(JOBS, bad.to_string()).await.assert_refused(Some(1), "unique_key", "empty");
    assert_eq!(stand.jobs.backlog().await.unwrap() + stand.outbox.backlog().await.unwrap(), 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_declared_or_not() {
    let stand = Stand::new().await;
    let large = format!(r#"{{"event_type":"A","payload":"{}"}}"#, "x".repeat(MAX_BODY));
    stand.post(EVENTS, large.clone()).await.assert_problem(413, &["server.max-body"]);
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(large)]);
    stand.post(EVENTS, Body::from_stream(chunks)).await.assert_problem(413, &["server.max-body"]);
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused() {
    let stand = Stand::new().await;
    for media in ["text/plain", "application/x-www-form-urlencoded", "text/json"] {
        let answer = stand.post_as(media, EVENTS, r#"{"event_type":"A","payload":1}"#).await;
        answer.assert_problem(415, &["application/json"]);
    }
    let bare = Request::post(JOBS).body(Body::from(r#"{"subject":"1"}"#)).unwrap();
    stand.ask(bare).await.assert_problem(415, &["application/json"]);
    for media in ["application/json; charset=utf-8", "Application/JSON", "application/cloudevents+json"] {
        assert_eq!(stand.post_as(media, JOBS, r#"{"subject":"1"}"#).await.status, 201, "{media}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_a_503_that_says_when_to_come_back() {
    let mut database = redrive_testkit::sqlite();
    database.url = database.url.replace("test.db", "missing/test.db");
    let stand = Stand::without_tables(&Gate::default(), database);
    for (path, body) in [
        (EVENTS, r#"{"event_type":"A","payload":1}"#),
        (JOBS, r#"{"subject":"1"}"#),
        ("/api/v1/jobs/mails/claim", "{}"),
        ("/api/v1/jobs/mails/1/complete", r#"{"lease":"1"}"#),
    ] {
        let answer = stand.post(path, body).await;
        answer.assert_problem(503, &["store of"]);
        assert!(answer.headers.contains_key("retry-after"));
    }
}

#[tokio::test]
async fn a_pipeline_whose_tables_are_not_ready_is_a_503_until_they_are() {
    let gate = Gate::default();
    let stand = Stand::behind(&gate, redrive_testkit::sqlite());
    let early = stand.post(JOBS, r#"{"subject":"1"}"#).await;
    early.assert_problem(503, &["cannot be used yet", "/api/v1/ready"]);
    assert!(early.headers.contains_key("retry-after"));
    stand.jobs.migrate().await.unwrap();
    gate.open();
    assert_eq!(stand.post(JOBS, r#"{"subject":"1"}"#).await.status, 201);
}

#[tokio::test]
async fn a_store_that_refuses_is_a_500_that_keeps_the_reason_in_the_log() {
    let stand = Stand::without_tables(&Gate::default(), redrive_testkit::sqlite());
    let answer = stand.post(JOBS, r#"{"subject":"1"}"#).await;
    answer.assert_problem(500, &["refused it", "log"]);
    assert!(!answer.text.contains("no such table"), "{answer:?}");
}

#[tokio::test]
async fn what_came_in_is_counted_and_shown() {
    let stand = Stand::new().await;
    let body = r#"[{"event_type":"Counted","payload":1},{"event_type":"Counted","payload":1}]"#;
    stand.post(EVENTS, body).await;
    stand.post(EVENTS, r#"[{"event_type":"NotCounted","payload":"\u0000"}]"#).await;
    let answer = stand.get("/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let line = r#"redrive_events_total{pipeline="orders",type="Counted",outcome="accepted"} 2"#;
    assert!(answer.text.contains(line), "{}", answer.text);
    assert!(answer.text.contains("# HELP redrive_events_total Events by what became of them"));
    assert!(!answer.text.contains("NotCounted"));
}

#[tokio::test]
async fn attempt_times_are_a_histogram_with_buckets_from_a_millisecond_to_a_minute() {
    let stand = Stand::new().await;
    metrics::histogram!("redrive_attempt_seconds", "pipeline" => "p", "type" => "t").record(0.02);
    let text = stand.get("/metrics").await.text;
    for (bucket, count) in [("0.001", 0), ("0.025", 1), ("60", 1), ("+Inf", 1)] {
        let line =
            format!(r#"redrive_attempt_seconds_bucket{{pipeline="p",type="t",le="{bucket}"}} {count}"#);
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[tokio::test]
async fn types_without_end_are_counted_as_other() {
    let stand = Stand::new().await;
    let events: Vec<_> =
        (0..300).map(|n| json!({"event_type": format!("flood-{n}"), "payload": 1})).collect();
    assert_eq!(stand.post(EVENTS, json!(events).to_string()).await.status, 201);
    let text = METRICS.render();
    let series = text.lines().filter(|line| line.contains("flood-")).count();
    assert!((1..=200).contains(&series), "{series}");
    assert!(text.contains(r#"type="other",outcome="accepted""#));
}
