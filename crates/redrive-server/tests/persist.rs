//! Handing events to a persist pipeline over HTTP, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use redrive_engine::{Engine, WatchOptions};
use redrive_server::Gate;
use serde_json::json;
use support::Stand;

const URLS: &str = "/api/v1/persist/urls";

#[tokio::test]
async fn one_event_or_many_are_accepted_and_saved_behind_the_request() {
    let stand = Stand::new().await;
    let one = stand.post(URLS, r#"{"key":"a","payload":"https://example.org/é"}"#).await;
    assert_eq!((one.status.as_u16(), one.json), (202, json!({"accepted": 1})));
    let many = stand.post(URLS, r#"[{"key":"b","payload":{ "n": 1.10 }},{"key":"c","payload":null}]"#).await;
    assert_eq!((many.status.as_u16(), many.json), (202, json!({"accepted": 2})));
    assert_eq!(stand.post(URLS, "[]").await.json, json!({"accepted": 0}));
    assert_eq!(stand.target.find("a").await.unwrap(), None, "nobody has started it");
    let engine = Engine::new();
    engine.persist(&stand.urls, WatchOptions::default());
    stand.urls.idle().await;
    for (key, payload) in [("a", "https://example.org/é"), ("b", "{ \"n\": 1.10 }"), ("c", "null")] {
        assert_eq!(stand.target.find(key).await.unwrap().unwrap(), payload);
    }
    let text = stand.get("/metrics").await.text;
    for line in [
        r#"url_persistence_success_total{pipeline="urls"} 1"#,
        r#"url_persistence_failure_total{pipeline="urls"} 0"#,
        r#"url_persistence_dlq_total{pipeline="urls"} 0"#,
        // Other tests of this process are accepted, too; only this one delivers.
        r#"redrive_events_total{pipeline="urls",type="urls",outcome="accepted"} "#,
        r#"redrive_events_total{pipeline="urls",type="urls",outcome="delivered"} 3"#,
        r#"redrive_ladder_rung{pipeline="urls"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    engine.stop().await;
    let late = stand.post(URLS, r#"{"key":"d","payload":1}"#).await;
    late.assert_problem(503, &["stopping", "Nothing was accepted"]);
}

#[tokio::test]
async fn a_full_queue_is_a_503_that_says_when_to_come_back() {
    let stand = Stand::new().await;
    let events: Vec<_> = (0..99).map(|n| json!({"key": n.to_string(), "payload": 1})).collect();
    assert_eq!(stand.post(URLS, json!(events).to_string()).await.status, 202);
    let two = r#"[{"key":"x","payload":1},{"key":"y","payload":1}]"#;
    let full = stand.post(URLS, two).await;
    full.assert_problem(503, &["99 events waiting", "Nothing was accepted"]);
    assert!(full.headers.contains_key("retry-after"));
    assert_eq!(stand.post(URLS, r#"{"key":"x","payload":1}"#).await.status, 202, "one still fits");
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_whole_with_item_and_field() {
    let stand = Stand::new().await;
    let good = json!({"key": "a", "payload": 1});
    for (bad, field, said) in [
        (json!({"key": "", "payload": 1}), "key", "empty"),
        (json!({"key": "x".repeat(256), "payload": 1}), "key", "at most 255"),
        (json!({"key": "a", "payload": "a\0b"}), "payload", "NUL byte"),
    ] {
        stand.post(URLS, json!([good, bad]).to_string()).await.assert_refused(Some(1), field, said);
    }
    stand.post(URLS, r#"{"key":"a","payload":1,"kez":1}"#).await.assert_refused(None, "kez", "unknown field");
    stand.post(URLS, r#"{"key":"a"}"#).await.assert_problem(422, &["missing field `payload`"]);
    stand.post(URLS, "{").await.assert_problem(400, &["line 1"]);
    assert_eq!(stand.urls.waiting(), 0);
}

#[tokio::test]
async fn a_pipeline_that_is_not_there_or_not_ready_says_so() {
    let stand = Stand::new().await;
    let unknown = stand.post("/api/v1/persist/nope", "{}").await;
    unknown.assert_problem(404, &["no persist pipeline named `nope`", "Known here: urls"]);
    stand.post("/api/v1/persist/orders", "{}").await.assert_problem(404, &["`orders` is an outbox"]);
    stand.post("/api/v1/jobs/urls", "{}").await.assert_problem(404, &["`urls` is a persist pipeline"]);
    let early = Stand::behind(&Gate::default(), redrive_testkit::sqlite());
    early.post(URLS, r#"{"key":"a","payload":1}"#).await.assert_problem(503, &["cannot be used yet"]);
}
