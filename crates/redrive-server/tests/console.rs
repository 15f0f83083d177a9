//! The console over HTTP: letters, groups, operations, pipelines, the audit log, and who may do what.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use redrive_engine::console::Runner;
use redrive_server::{Access, Gate, Role};
use redrive_testkit::{PATIENCE, eventually, hostile};
use serde_json::{Value, json};
use support::{Answer, Stand, grant};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const LETTERS: &str = "/api/v1/dead-letters";
const REDRIVES: &str = "/api/v1/redrives";
fn ids(page: &Answer) -> Vec<String> {
    page.json["letters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn post_with_key(stand: &Stand, path: &str, key: &str, body: &Value) -> Answer {
    let request =
        Request::post(path).header("content-type", "application/json").header("idempotency-key", key);
    stand.ask(request.body(Body::from(body.to_string())).unwrap()).await
}

/// Carries operations out while it lives.
struct AtWork(CancellationToken);

impl AtWork {
    fn on(stand: &Stand) -> Self {
        let stop = CancellationToken::new();
        tokio::spawn(Runner::new(Arc::clone(&stand.console)).run(stop.clone()));
        Self(stop)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn ended(stand: &Stand, operation: &Value, state: &str) -> Value {
    let path = format!("{REDRIVES}/{}", operation["id"]);
    eventually(PATIENCE, state, async || stand.get(&path).await.json["state"] == state).await;
    stand.get(&path).await.json
}

#[tokio::test]
async fn letters_are_listed_filtered_and_shown_whole() {
    let stand = Stand::new().await;
    let dead = stand.bury(&["a", "b"], "no such address 17").await;
    stand.bury(&["c"], "the mailbox is full").await;
    assert_eq!(ids(&stand.get(LETTERS).await).len(), 3);
    for (query, count) in [
        ("q=MAILBOX", 1),
        ("key=a", 1),
        ("type=mails", 3),
        ("status=open&pipeline=mails", 3),
        ("status=resolved", 0),
        ("class=permanent", 3),
        ("class=transient", 0),
        ("since=1h", 3),
        ("until=1h", 0),
        ("since=2100-01-01T00:00:00Z", 0),
        ("pipeline=orders", 0),
    ] {
        assert_eq!(ids(&stand.get(&format!("{LETTERS}?{query}")).await).len(), count, "{query}");
    }
    let groups = stand.get("/api/v1/groups").await.json["groups"].clone();
    assert_eq!((groups[0]["count"].clone(), groups[1]["count"].clone()), (2.into(), 1.into()));
    let fingerprint = groups[0]["fingerprint"].as_str().unwrap();
    assert_eq!(ids(&stand.get(&format!("{LETTERS}?group={fingerprint}")).await).len(), 2);
    assert_eq!(stand.get(&format!("/api/v1/groups/{fingerprint}")).await.json["count"], 2);
    stand.get("/api/v1/groups/0000000000000000").await.assert_problem(404, &["no group"]);

    let letter = stand.get(&format!("{LETTERS}/{}", dead[0])).await.json;
    assert_eq!(letter["payload"], json!({"format": "text", "text": "a", "size": 1, "cut": false}));
    assert_eq!(letter["history"][0]["message"], "no such address 17");
    assert_eq!(letter["origin"]["in"], "table");
    let raw = stand.get(&format!("{LETTERS}/{}/payload", dead[0])).await;
    assert_eq!(
        (raw.text.as_str(), &raw.headers["content-type"]),
        ("a", &"application/octet-stream".parse().unwrap())
    );
    assert_eq!(
        raw.headers["content-disposition"],
        format!("attachment; filename=\"{}.bin\"", dead[0].replace(':', "-"))
    );
}

/// Nothing said what became of a redriven letter, and a job that was redriven was answered with 404.
#[tokio::test]
async fn a_redriven_letter_is_shown_with_what_became_of_it_and_links_both_ways() {
    let stand = Stand::new().await;
    let event = json!({"event_type": "OrderCreated", "aggregate_id": "42", "payload": "{}"});
    assert_eq!(stand.post("/api/v1/outbox/orders/events", event.to_string()).await.status, 201);
    let first = stand.kill_event().await;
    let shown = stand.get(&format!("{LETTERS}/{first}")).await.json;
    assert_eq!((&shown["redelivery"], &shown["redriven_from"]), (&Value::Null, &Value::Null));
    assert_eq!(stand.post(&format!("{LETTERS}/{first}/redrive"), Body::empty()).await.status, 200);
    let pending = stand.get(&format!("{LETTERS}/{first}")).await.json;
    assert_eq!(pending["redelivery"], json!({"state": "pending", "at": null, "letter": null}));
    stand.get(&format!("/letters/{first}")).await.assert_shows(&["not handled yet"]);

    let second = stand.kill_event().await;
    let failed = stand.get(&format!("{LETTERS}/{first}")).await.json;
    assert_eq!(
        (&failed["redelivery"]["state"], &failed["redelivery"]["letter"]),
        (&json!("failed"), &json!(second))
    );
    assert!(failed["redelivery"]["at"].is_string(), "{failed}");
    assert_eq!(stand.get(&format!("{LETTERS}/{second}")).await.json["redriven_from"], json!(first));
    let to_second = "failed again <time";
    stand
        .get(&format!("/letters/{first}"))
        .await
        .assert_shows(&[to_second, &format!("href=\"/letters/{second}\"")]);
    stand
        .get(&format!("/letters/{second}"))
        .await
        .assert_shows(&["redriven from", &format!("href=\"/letters/{first}\"")]);

    let job = stand.bury(&["a"], "no such address").await.remove(0);
    assert_eq!(stand.post(&format!("{LETTERS}/{job}/redrive"), Body::empty()).await.status, 200);
    let claimed = stand.post("/api/v1/jobs/mails/claim", "{}").await.json["jobs"][0].clone();
    let lease = json!({"lease": claimed["lease"]}).to_string();
    assert_eq!(
        stand.post(&format!("/api/v1/jobs/mails/{}/complete", claimed["id"]), lease).await.status,
        204
    );
    let delivered = stand.get(&format!("{LETTERS}/{job}")).await.json;
    assert_eq!(
        (&delivered["status"], &delivered["redelivery"]["state"]),
        (&json!("redriven"), &json!("delivered"))
    );
    assert!(delivered["redelivery"]["at"].is_string(), "{delivered}");
    stand.get(&format!("/letters/{job}")).await.assert_shows(&["delivered <time"]);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_said_with_what_to_do() {
    let stand = Stand::new().await;
    for (path, status, said) in [
        ("/api/v1/dead-letters?limit=501", 422, "1 to 500"),
        ("/api/v1/dead-letters?limit=0", 422, "1 to 500"),
        ("/api/v1/dead-letters?since=yesterday", 422, "an hour ago"),
        ("/api/v1/dead-letters?cursor=x", 422, "start again without it"),
        ("/api/v1/dead-letters?colour=red", 422, "unknown field `colour`"),
        ("/api/v1/dead-letters?status=dead", 422, "unknown value"),
        ("/api/v1/dead-letters?key=%00", 422, "NUL"),
        ("/api/v1/dead-letters?pipeline=nope", 404, "There are intake, mails, orders, urls"),
        ("/api/v1/dead-letters/nope:1", 404, "no pipeline nope"),
        ("/api/v1/dead-letters/mails:999", 404, "no letter mails:999"),
        ("/api/v1/dead-letters/rubbish", 404, "ids look like"),
        ("/api/v1/redrives/7", 404, "no operation 7"),
        ("/api/v1/redrives/x", 404, "/api/v1/redrives"),
        ("/api/v1/pipelines/nope", 404, "no pipeline nope"),
        ("/api/v1/stats?step=0s", 422, "a second or more"),
    ] {
        let answer = stand.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {answer:?}");
        let detail = answer.json["detail"].as_str().unwrap().to_lowercase();
        assert!(detail.contains(&said.to_lowercase()), "{path}: {detail}");
    }
    let many: Vec<String> = (0..10_001).map(|id| format!("m:{id}")).collect();
    for (path, body, field) in [
        (REDRIVES, json!({"ids": many}), "ids"),
        (REDRIVES, json!({"ids": ["x"]}), "ids"),
        (REDRIVES, json!({"all": true, "rate": 0}), "rate"),
        (REDRIVES, json!({"all": true, "note": "n".repeat(2_001)}), "note"),
        (
            LETTERS,
            json!({"event_type": "", "key": "", "payload": 1, "error": {"message": "m"}}),
            "event_type",
        ),
        (LETTERS, json!({"event_type": "A", "key": "", "error": {"message": "m"}}), "payload"),
        (
            LETTERS,
            json!({"event_type": "A", "key": "", "payload": 1, "error": {"message": "m", "code": "zzz"}}),
            "code",
        ),
    ] {
        let answer = stand.post(path, body.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json["field"]), (422, &field.into()), "{answer:?}");
    }
    // It said: data did not match any variant of untagged enum CanaryIn.
    for (canary, said) in
        [(json!({"step": [1]}), "unknown field `step`"), (json!("yes"), "true, false, or a ramp")]
    {
        let answer = stand.post(REDRIVES, json!({"all": true, "canary": canary}).to_string()).await;
        answer.assert_refused(None, "canary", said);
    }
    // Every message has a blank text in it: beside another filter it chose more than was meant.
    for filter in [json!({"q": ""}), json!({"q": " \t"}), json!({"pipeline": "mails", "q": ""})] {
        for path in [REDRIVES, "/api/v1/resolutions"] {
            let answer = stand.post(path, json!({"filter": filter, "all": true}).to_string()).await;
            answer.assert_refused(None, "q", "is blank");
        }
    }
    for body in [json!({}), json!({"filter": {}}), json!({"ids": []})] {
        stand.post(REDRIVES, body.to_string()).await.assert_problem(422, &["all = true"]);
        stand.post("/api/v1/resolutions", body.to_string()).await.assert_problem(422, &["all = true"]);
    }
    stand.post("/api/v1/pipelines/nope/pause", "").await.assert_problem(404, &["no pipeline nope"]);
}

#[tokio::test]
async fn pages_are_stable_while_letters_arrive() {
    let stand = Stand::new().await;
    let subjects: Vec<String> = (0..60).map(|subject| subject.to_string()).collect();
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let before: BTreeSet<String> = stand.bury(&subjects, "no").await.into_iter().collect();
    let mut seen = Vec::new();
    let mut path = format!("{LETTERS}?limit=7");
    loop {
        let page = stand.get(&path).await;
        seen.extend(ids(&page));
        stand.bury(&["late"], "no").await;
        let Some(next) = page.json["next"].as_str() else { break };
        path = format!("{LETTERS}?limit=7&cursor={next}");
    }
    assert_eq!(seen.len(), 60, "none twice, none left out");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), before);
}

#[tokio::test]
async fn of_a_thousand_who_redrive_one_letter_at_once_one_wins() {
    let stand = Stand::new().await;
    let letter = stand.bury(&["a"], "no").await.remove(0);
    let path = format!("{LETTERS}/{letter}/redrive");
    let answers = join_all((0..1_000).map(|_| stand.post(&path, ""))).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    let late = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!((won, late), (1, 999));
    let claimed = stand.post("/api/v1/jobs/mails/claim", r#"{"limit": 10}"#).await;
    assert_eq!(claimed.json["jobs"].as_array().unwrap().len(), 1);
    let audit = stand.get("/api/v1/audit").await.json["entries"].clone();
    assert_eq!((audit.as_array().unwrap().len(), &audit[0]["action"]), (1, &"redrive".into()));
    assert_eq!((&audit[0]["subject"], &audit[0]["operator"]), (&letter.into(), &"local".into()));
}

#[tokio::test]
async fn an_edit_is_sent_and_the_original_is_kept() {
    let stand = Stand::new().await;
    let letter = stand.bury(&["a"], "no").await.remove(0);
    let path = format!("{LETTERS}/{letter}/redrive");
    let both = json!({"payload": 1, "payload_base64": "MQ=="});
    stand.post(&path, both.to_string()).await.assert_problem(422, &["one of the two"]);
    assert_eq!(stand.post(&path, json!({"payload": {"b": 1}}).to_string()).await.status, 200);
    let claimed = stand.post("/api/v1/jobs/mails/claim", "{}").await;
    let job = &claimed.json["jobs"][0];
    assert_eq!(job["payload"], "{\"b\":1}");
    let report = json!({"lease": job["lease"], "error": "no again", "class": "permanent"}).to_string();
    assert_eq!(stand.post(&format!("/api/v1/jobs/mails/{}/fail", job["id"]), report).await.status, 204);
    let edits = stand.get(&format!("{LETTERS}/{letter}")).await.json["edits"].clone();
    assert_eq!(
        (&edits[0]["original"]["text"], &edits[0]["edited"]["text"]),
        (&"a".into(), &"{\"b\":1}".into())
    );
}

#[tokio::test]
async fn a_letter_is_resolved_with_a_note() {
    let stand = Stand::new().await;
    let letter = stand.bury(&["a"], "no").await.remove(0);
    let path = format!("{LETTERS}/{letter}/resolve");
    assert_eq!(stand.post(&path, "{}").await.status, 422, "a note is required");
    assert_eq!(stand.post(&path, json!({"note": "a test order"}).to_string()).await.status, 200);
    stand.post(&path, json!({"note": "again"}).to_string()).await.assert_problem(409, &["not waiting"]);
    let closed = stand.get(&format!("{LETTERS}/{letter}")).await.json;
    assert_eq!((&closed["status"], &closed["resolution"]["by"]), (&"resolved".into(), &"local".into()));
}

#[tokio::test]
async fn an_operation_is_counted_first_then_carried_out_and_found_again() {
    let stand = Stand::new().await;
    stand.bury(&["a", "b", "c"], "no").await;
    let filter = json!({"filter": {"type": "mails", "since": "1h"}, "note": "mended"});
    let mut dry = filter.clone();
    dry["dry_run"] = true.into();
    let counted = stand.post(REDRIVES, dry.to_string()).await;
    assert_eq!((counted.status.as_u16(), &counted.json["total"]), (200, &3.into()));
    assert_eq!(stand.get(REDRIVES).await.json["operations"], json!([]), "a dry run leaves nothing");

    let _at_work = AtWork::on(&stand);
    let begun = stand.post(REDRIVES, filter.to_string()).await;
    assert_eq!(begun.status, 202);
    assert_eq!(begun.headers["location"], format!("{REDRIVES}/{}", begun.json["id"]).as_str());
    let done = ended(&stand, &begun.json, "finished").await;
    assert_eq!((&done["total"], &done["done"], &done["note"]), (&3.into(), &3.into(), &"mended".into()));
    let cancel = format!("{REDRIVES}/{}/cancel", begun.json["id"]);
    stand.post(&cancel, "").await.assert_problem(409, &["is finished"]);
    assert_eq!(
        stand.post("/api/v1/jobs/mails/claim", r#"{"limit": 10}"#).await.json["jobs"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test]
async fn many_letters_are_resolved_at_once_and_some_by_name() {
    let stand = Stand::new().await;
    let dead = stand.bury(&["a", "b", "c"], "no").await;
    let _at_work = AtWork::on(&stand);
    let named = stand.post("/api/v1/resolutions", json!({"ids": [dead[0], "mails:999"]}).to_string()).await;
    let done = ended(&stand, &named.json, "finished").await;
    assert_eq!((&done["done"], &done["refused"]), (&1.into(), &1.into()));
    assert!(done["refusals"][0].as_str().unwrap().contains("mails:999"), "{done}");
    let all = stand.post("/api/v1/resolutions", json!({"all": true, "note": "over"}).to_string()).await;
    assert_eq!(ended(&stand, &all.json, "finished").await["done"], 2);
    assert_eq!(
        stand.get(&format!("{LETTERS}?status=resolved")).await.json["letters"].as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn operations_are_paused_resumed_and_cancelled() {
    let stand = Stand::new().await;
    let subjects: Vec<String> = (0..50).map(|subject| subject.to_string()).collect();
    stand.bury(&subjects.iter().map(String::as_str).collect::<Vec<_>>(), "no").await;
    let _at_work = AtWork::on(&stand);
    let begun = stand.post(REDRIVES, json!({"all": true, "rate": 1}).to_string()).await.json;
    let path = format!("{REDRIVES}/{}", begun["id"]);
    eventually(PATIENCE, "it runs", async || stand.get(&path).await.json["state"] == "running").await;
    assert_eq!(stand.post(&format!("{path}/pause"), "").await.json["state"], "paused");
    let again = stand.post(&format!("{path}/pause"), "").await;
    assert_eq!((again.status.as_u16(), &again.json["state"]), (200, &"paused".into()), "it is so already");
    assert_eq!(stand.post(&format!("{path}/resume"), "").await.json["state"], "running");
    let cancelled = stand.post(&format!("{path}/cancel"), "").await.json;
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&"cancelled".into(), &"by local".into()));
    let again = stand.post(&format!("{path}/cancel"), "").await;
    assert_eq!((again.status.as_u16(), &again.json["state"]), (200, &"cancelled".into()), "it is so already");
    stand.post(&format!("{path}/pause"), "").await.assert_problem(409, &["is cancelled"]);
    stand.post(&format!("{path}/resume"), "").await.assert_problem(409, &["is cancelled"]);
    let entries = stand.get("/api/v1/audit").await.json["entries"].clone();
    let paused = entries.as_array().unwrap().iter().filter(|entry| entry["action"] == "pause").count();
    assert_eq!(paused, 1, "what changed nothing is not written down");
}

/// A client whose connection broke sent its order again, and it was there twice.
#[tokio::test]
async fn work_that_is_sent_again_with_its_key_comes_in_once() {
    let stand = Stand::new().await;
    let event = json!({"event_type": "OrderCreated", "payload": {"n": 1}});
    let jobs = json!([{"subject": "7"}, {"subject": "8", "unique_key": "u"}]);
    for (path, body) in [("/api/v1/outbox/orders/events", event), ("/api/v1/jobs/mails", jobs)] {
        let first = post_with_key(&stand, path, "k", &body).await;
        assert_eq!(first.status, 201, "{first:?}");
        let again = post_with_key(&stand, path, "k", &body).await;
        assert_eq!((again.status, &again.json), (first.status, &first.json), "{path}");
        let other =
            post_with_key(&stand, path, "k", &json!({"subject": "9", "event_type": "A", "payload": 1})).await;
        assert_eq!(other.status, 422, "{other:?}");
    }
    let other = post_with_key(&stand, "/api/v1/jobs/mails", "k", &json!({"subject": "9"})).await;
    other.assert_refused(None, "Idempotency-Key", "something else");
    let mut client = redrive_testkit::Client::connect(&stand.database).await;
    let stored =
        client.column("SELECT count(*) FROM outbox_event UNION ALL SELECT count(*) FROM mails_job_queue");
    assert_eq!(stored.await, ["1", "2"]);
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_told_the_same() {
    let stand = Stand::new().await;
    let dead = stand.bury(&["a", "b"], "no").await;
    for path in [REDRIVES, "/api/v1/resolutions"] {
        let body = json!({"ids": [dead[0]]});
        let first = post_with_key(&stand, path, "k", &body).await;
        let again = post_with_key(&stand, path, "k", &body).await;
        assert_eq!((first.status.as_u16(), &first.json["id"]), (202, &again.json["id"]), "{path}");
    }
    let operations = stand.get(REDRIVES).await.json["operations"].clone();
    assert_eq!(operations.as_array().unwrap().len(), 2, "the key of a redrive is not that of a resolution");

    let other = post_with_key(&stand, REDRIVES, "k", &json!({"ids": [dead[1]]})).await;
    other.assert_problem(422, &["something else", "use a new key"]);

    let redrive = format!("{LETTERS}/{}/redrive", dead[1]);
    assert_eq!(post_with_key(&stand, &redrive, "one", &json!({})).await.status, 200);
    let other = post_with_key(&stand, &redrive, "one", &json!({"payload": 2})).await;
    other.assert_problem(422, &["something else", "use a new key"]);
    assert_eq!(post_with_key(&stand, &redrive, "one", &json!({})).await.status, 200);
    assert_eq!(post_with_key(&stand, &redrive, "two", &json!({})).await.status, 409);

    let event = json!({"event_type": "A", "key": "1", "payload": 1, "error": {"message": "m"}});
    let first = post_with_key(&stand, LETTERS, "source-1", &event).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(post_with_key(&stand, LETTERS, "source-1", &event).await.json, first.json);
    let mut named = event.clone();
    named["source"] = "source-1".into();
    assert_eq!(stand.post(LETTERS, named.to_string()).await.json, first.json);
    assert_ne!(stand.post(LETTERS, event.to_string()).await.json, first.json, "without a key it is another");
    // Two services that count their letters alike: the second one's was lost, with 201.
    named["service"] = "billing".into();
    let other = stand.post(LETTERS, named.to_string()).await;
    assert_eq!(other.status, 201, "{other:?}");
    assert_ne!(other.json, first.json, "each service has sources of its own");
    named["payload"] = 2.into();
    stand.post(LETTERS, named.to_string()).await.assert_problem(422, &["intake:", "a source of its own"]);
    let letter = other.json["id"].as_str().unwrap();
    let edited = stand.post(&format!("{LETTERS}/{letter}/redrive"), r#"{"payload": 3}"#).await;
    assert_eq!(edited.status, 409, "it has no target: {edited:?}");
    named["payload"] = 1.into();
    named["source"] = "s".repeat(255).into();
    let long = stand.post(LETTERS, named.to_string()).await;
    assert_eq!(stand.post(LETTERS, named.to_string()).await.json, long.json);
    assert_eq!(long.status, 201, "{long:?}");

    // "An hour ago" is another moment when it is said again.
    let relative = |since: &str| json!({"filter": {"since": since, "type": "T"}});
    let begun = post_with_key(&stand, REDRIVES, "relative", &relative("1h")).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let again = post_with_key(&stand, REDRIVES, "relative", &relative("1h")).await;
    assert_eq!((again.status.as_u16(), &again.json["id"]), (202, &begun.json["id"]), "{again:?}");
    post_with_key(&stand, REDRIVES, "relative", &relative("2h"))
        .await
        .assert_problem(422, &["asked for something else"]);

    for wrong in ["", "a b", "é", &"k".repeat(141)] {
        let answer = post_with_key(&stand, REDRIVES, wrong, &json!({"all": true})).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json["field"]),
            (422, &"Idempotency-Key".into()),
            "{wrong:?}"
        );
    }
}

#[tokio::test]
async fn a_letter_that_is_handed_in_keeps_everything() {
    let stand = Stand::new().await;
    let event = json!({
        "event_type": "PaymentDone", "key": "42", "payload_base64": "/wA=", "attempts": 4, "service": "billing",
        "headers": [{"name": "trace", "value": "abc"}, {"name": "trace", "value": "def"}],
        "error": {"message": "gateway away", "kind": "IOException", "code": "http:503"},
        "failed_at": "2025-10-21T07:28:00Z", "first_failed_at": "2025-10-21T07:00:00Z",
    });
    let taken = stand.post(LETTERS, event.to_string()).await;
    assert_eq!(
        (taken.status.as_u16(), taken.headers["location"].to_str().unwrap()),
        (201, "/api/v1/dead-letters/intake:1")
    );
    let letter = stand.get(taken.headers["location"].to_str().unwrap()).await.json;
    assert_eq!(letter["payload"]["text"], "/wA=");
    assert_eq!(
        letter["failure"],
        json!({"class": "transient", "code": "http:503", "kind": "IOException", "message": "gateway away"})
    );
    assert_eq!(letter["origin"], json!({"in": "service", "name": "billing"}));
    assert_eq!(letter["target"], Value::Null);
    let page = stand.get("/letters/intake:1").await.text;
    assert!(page.contains("<dt>target</dt><dd>none: it can only be resolved</dd>"), "{page}");
    assert_eq!((&letter["headers"][1]["value"]["text"], &letter["attempts"]), (&"def".into(), &4.into()));
    assert_eq!(
        (&letter["failed_at"], &letter["first_failed_at"]),
        (&"2025-10-21T07:28:00Z".into(), &"2025-10-21T07:00:00Z".into())
    );
}

#[tokio::test]
async fn a_pipeline_is_paused_and_resumed() {
    let stand = Stand::new().await;
    assert_eq!(stand.post("/api/v1/pipelines/orders/pause", "").await.json["paused"], true);
    assert_eq!(stand.get("/api/v1/pipelines/orders").await.json["paused"], true);
    assert_eq!(stand.post("/api/v1/pipelines/orders/resume", "").await.json["paused"], false);
    let actions = stand.get("/api/v1/audit?limit=1").await.json;
    assert_eq!((&actions["entries"][0]["action"], &actions["next"]), (&"resume pipeline".into(), &2.into()));
    let names: Vec<Value> = stand.get("/api/v1/pipelines").await.json["pipelines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pipeline| pipeline["name"].clone())
        .collect();
    assert_eq!(names, ["intake", "mails", "orders", "urls"]);
}

#[tokio::test]
async fn a_store_that_is_down_is_a_503_that_says_when_to_come_back() {
    let mut database = redrive_testkit::sqlite();
    database.url = database.url.replace("test.db", "missing/test.db");
    let stand = Stand::without_tables(&Gate::default(), database);
    let event = json!({"event_type": "A", "key": "1", "payload": 1, "error": {"message": "m"}}).to_string();
    let all = json!({"all": true}).to_string();
    for (path, body) in [
        (LETTERS, None),
        ("/api/v1/dead-letters/mails:1", None),
        ("/api/v1/dead-letters/mails:1/payload", None),
        (REDRIVES, None),
        ("/api/v1/redrives/1", None),
        ("/api/v1/audit", None),
        (LETTERS, Some(event.as_str())),
        (REDRIVES, Some(all.as_str())),
        ("/api/v1/resolutions", Some(all.as_str())),
        ("/api/v1/dead-letters/mails:1/redrive", Some("")),
        ("/api/v1/dead-letters/mails:1/resolve", Some(r#"{"note":""}"#)),
        ("/api/v1/redrives/1/pause", Some("")),
    ] {
        let answer = match body {
            None => stand.get(path).await,
            Some(body) => stand.post(path, body.to_owned()).await,
        };
        answer.assert_problem(503, &["store"]);
        assert!(answer.headers.contains_key("retry-after"), "{path}");
        assert!(!answer.text.contains("missing"), "the place of the database is for the log");
    }
    let groups = stand.get("/api/v1/groups").await;
    assert_eq!((groups.status.as_u16(), groups.json["unavailable"].as_array().unwrap().len()), (200, 4));
    assert!(stand.get("/api/v1/pipelines/mails").await.json["trouble"].is_string());
}

#[tokio::test]
async fn the_stream_tells_how_things_are_and_ends_when_the_server_stops() {
    let stand = Stand::new().await;
    stand.bury(&["a"], "no").await;
    let beats = CancellationToken::new();
    let beating = tokio::spawn(stand.pulse.clone().beat(Arc::clone(&stand.console), beats.clone()));
    for newcomer in ["the first", "the second"] {
        let request = Request::get("/api/v1/stream").body(Body::empty()).unwrap();
        let answer = stand.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut events = answer.into_body().into_data_stream();
        let first = tokio::time::timeout(PATIENCE, events.next()).await.expect(newcomer).unwrap().unwrap();
        let text = String::from_utf8(first.to_vec()).unwrap();
        assert!(text.starts_with("event: snapshot\ndata: {") && text.contains(r#""waiting":1"#), "{text}");
        if newcomer == "the second" {
            stand.stop.cancel();
            let rest = tokio::time::timeout(PATIENCE, to_bytes(Body::from_stream(events), 10_000)).await;
            rest.expect("it ends").unwrap();
        }
    }
    beats.cancel();
    beating.await.unwrap();
}

#[tokio::test]
async fn every_answer_keeps_a_browser_from_guessing_framing_caching_and_referring() {
    let stand = Stand::new().await;
    let paths =
        ["/api/v1/health", LETTERS, "/api/v1/dead-letters/nope:1", "/nothing", "/metrics", "/openapi.json"];
    for path in paths {
        let headers = stand.get(path).await.headers;
        for (name, value) in [
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(headers[name], value, "{path}");
        }
    }
}

/// A client that is told to send a token where nobody asks for one looks for a token in vain; and one that is told
/// nothing, where the description was made without tokens, sends none.
#[tokio::test]
async fn the_description_says_where_a_token_is_needed_and_where_none_will_do_as_well() {
    let security = |description: &Value, path: &str| description["paths"][path]["get"]["security"].clone();
    let open = Stand::new().await.get("/openapi.json").await.json;
    let access = Access::new(vec![grant("ada", Role::Admin, "a")]);
    let stand = Stand::guarded(&Gate::default(), redrive_testkit::sqlite(), access);
    let token =
        Request::get("/openapi.json").header("authorization", "Bearer a").body(Body::empty()).unwrap();
    let guarded = stand.ask(token).await.json;
    for description in [&open, &guarded] {
        assert_eq!(security(description, "/api/v1/health"), json!([]), "anybody may ask");
    }
    assert_eq!(security(&open, "/api/v1/pipelines"), json!([{"token": []}, {}]));
    assert_eq!(security(&guarded, "/api/v1/pipelines"), json!([{"token": []}]));
}

/// Every operation of the description.
fn operations(description: &Value) -> Vec<(String, Method, Value)> {
    let mut operations = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((path.clone(), method.to_uppercase().parse().unwrap(), operation.clone()));
        }
    }
    operations
}

/// Responses had no description and operation ids repeated: no validator accepted it, and no generator made a client.
#[tokio::test]
async fn every_operation_has_an_id_of_its_own_and_every_response_a_description() {
    let description = Stand::new().await.get("/openapi.json").await.json;
    let operations = operations(&description);
    let ids: BTreeSet<&str> =
        operations.iter().map(|(.., operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    for (path, _, operation) in &operations {
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["description"].as_str().is_some_and(|said| !said.is_empty()), "{path} {status}");
        }
        assert!(operation["summary"].as_str().is_some(), "{path}");
    }
}

/// There were none. They are sent here as they are shown.
#[tokio::test]
async fn every_body_has_an_example_that_its_route_accepts() {
    let stand = Stand::new().await;
    let letter = stand.bury(&["a"], "no such address").await.remove(0);
    let description = stand.get("/openapi.json").await.json;
    let mut sent = 0;
    for (path, method, operation) in operations(&description) {
        let Some(content) = operation["requestBody"]["content"].as_object() else { continue };
        let id = if path.contains("dead-letters") { &letter } else { "1" };
        let queue = if path.contains("/outbox/") {
            "orders"
        } else if path.contains("/jobs/") {
            "mails"
        } else {
            "urls"
        };
        let path = path.replace("{id}", id).replace("{name}", queue);
        for (media_type, content) in content {
            let example = &content["example"];
            assert!(!example.is_null(), "{path} has no example of {media_type}");
            let body = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            let request = Request::builder().method(&method).uri(&path).header("content-type", media_type);
            let answer = stand.ask(request.body(Body::from(body)).unwrap()).await;
            // No such pipeline, lease or target is an answer, too: the body was read.
            let is_read = answer.status.is_success() || [404, 409].contains(&answer.status.as_u16());
            let names_a_target = answer.text.contains("intake.targets") || answer.text.contains("target");
            assert!(is_read || names_a_target, "{path}: {answer:?}");
            sent += 1;
        }
    }
    assert!(sent >= 13, "{sent}");
}

/// Every route of the router, from its own description.
async fn routes(stand: &Stand) -> Vec<(Method, String)> {
    let token =
        Request::get("/openapi.json").header("authorization", "Bearer a").body(Body::empty()).unwrap();
    let paths = stand.ask(token).await.json["paths"].as_object().unwrap().clone();
    let mut routes = Vec::new();
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            routes.push((method.to_uppercase().parse().unwrap(), path.clone()));
        }
    }
    routes
}

#[tokio::test]
async fn every_role_may_call_the_routes_of_its_rank_and_no_other() {
    let access = Access::new(vec![
        grant("vera", Role::Viewer, "v"),
        grant("otto", Role::Operator, "o"),
        grant("ada", Role::Admin, "a"),
    ]);
    let gate = Gate::default();
    gate.open();
    let stand = Stand::guarded(&gate, redrive_testkit::sqlite(), access);
    let routes = routes(&stand).await;
    assert!(routes.len() >= 34, "{}", routes.len());
    for (method, path) in routes {
        let is_open = matches!(path.as_str(), "/api/v1/health" | "/api/v1/ready");
        let needed = if method == Method::GET { 1 } else { 2 };
        for (rank, token) in [
            (0, None),
            (0, Some("Bearer x")),
            (1, Some("Bearer v")),
            (2, Some("Bearer o")),
            (3, Some("Bearer a")),
        ] {
            // A stream would go on; whether it is let in is known without reading it.
            let mut request = Request::builder().method(method.clone()).uri(path.replace(['{', '}'], ""));
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let answer = stand.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let refused = match answer.status().as_u16() {
                status @ (401 | 403) => Some(status),
                _ => None,
            };
            let expected = match rank {
                _ if is_open => None,
                0 => Some(401),
                rank if rank < needed => Some(403),
                _ => None,
            };
            assert_eq!(refused, expected, "{method} {path} {token:?}");
        }
    }
}

#[tokio::test]
async fn hostile_text_in_every_field_is_data_and_nothing_else() {
    let stand = Stand::new().await;
    let texts = hostile::texts();
    for text in &texts {
        // Names are short; what is longer is refused.
        let name: String = text.chars().take(90).collect();
        let event = json!({
            "event_type": name, "key": text, "payload": text, "source": text, "service": name,
            "headers": [{"name": text, "value": text}], "error": {"message": text, "kind": name, "code": format!("other:{name}")},
        });
        let taken = stand.post(LETTERS, event.to_string()).await;
        assert_eq!(taken.status, 201, "{text:?} {taken:?}");
        let path = taken.headers["location"].to_str().unwrap().to_owned();
        let letter = stand.get(&path).await;
        assert_inert(&letter);
        assert_eq!(letter.json["key"], text.as_str(), "what was sent comes back as it is");
        assert_eq!(letter.json["payload"]["text"], text.as_str());
        assert_eq!(letter.json["headers"][0]["name"], text.as_str());
        let raw = stand.get(&format!("{path}/payload")).await;
        assert_eq!(raw.headers["content-type"], "application/octet-stream");
        assert_eq!(raw.headers["x-content-type-options"], "nosniff");
        assert!(
            raw.headers["content-disposition"]
                .to_str()
                .unwrap()
                .starts_with("attachment; filename=\"intake-")
        );
    }
    for path in
        [&format!("{LETTERS}?limit=500"), "/api/v1/groups?limit=500", "/api/v1/audit", "/api/v1/pipelines"]
    {
        let answer = stand.get(path).await;
        assert_eq!(answer.status, 200);
        assert_inert(&answer);
    }
}

/// JSON that no browser takes for a page, without a raw control character, and headers without any of it.
#[track_caller]
fn assert_inert(answer: &Answer) {
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    // JSON escapes these; DEL may stand as it is.
    assert!(!answer.text.chars().any(|letter| letter < ' '), "{}", answer.text);
    assert!(answer.headers.get("set-cookie").is_none());
}
