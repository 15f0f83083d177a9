//! Workers in any language: claim, complete, fail and heartbeat over HTTP.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use redrive_core::event::WorkId;
use redrive_core::state::JobState;
use redrive_engine::console::Records;
use redrive_server::Gate;
use redrive_store::Database;
use redrive_testkit::{Client, TestDatabase};
use serde_json::{Value, json};
use support::{Answer, Stand};
use tower::ServiceExt as _;

const JOBS: &str = "/api/v1/jobs/mails";

async fn enqueue(stand: &Stand, body: Value) {
    assert_eq!(stand.post(JOBS, body.to_string()).await.status, 201);
}

async fn claim(stand: &Stand, body: Value) -> Vec<Value> {
    let answer = stand.post(&format!("{JOBS}/claim"), body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json["jobs"].as_array().unwrap().clone()
}

async fn report(stand: &Stand, job: i64, what: &str, body: Value) -> Answer {
    stand.post(&format!("{JOBS}/{job}/{what}"), body.to_string()).await
}

async fn state(stand: &Stand, job: i64) -> JobState {
    stand.jobs.state(WorkId(job)).await.unwrap().unwrap()
}

/// A claim of one job; returns its lease.
async fn claim_one(stand: &Stand) -> String {
    let jobs = claim(stand, json!({})).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs[0]["lease"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_claimed_job_says_all_that_a_worker_needs() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7", "payload": {"a": 1}, "max_retries": 9})).await;
    let jobs = claim(&stand, json!({"worker": "w1", "limit": 10, "lease": "30s"})).await;
    assert_eq!(jobs.len(), 1);
    let job = &jobs[0];
    assert_eq!((&job["id"], &job["subject"]), (&json!(1), &json!("7")));
    assert_eq!(job["payload"], "{\"a\":1}");
    assert_eq!((&job["attempt"], &job["max_retries"]), (&json!(1), &json!(9)));
    assert!(job["lease"].is_string());
    let until: jiff::Timestamp = job["until"].as_str().unwrap().parse().unwrap();
    let left = until.duration_since(jiff::Timestamp::now()).as_secs_f64();
    assert!((25.0..=31.0).contains(&left), "{left}");
    job["created_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let held = Client::connect(&stand.database).await.column("SELECT leased_by FROM mails_job_queue").await;
    assert_eq!(held, ["w1"]);
}

#[tokio::test]
async fn a_claim_without_wishes_gets_one_job_and_finds_nothing_where_nothing_is() {
    let stand = Stand::new().await;
    assert!(claim(&stand, json!({})).await.is_empty());
    enqueue(&stand, json!([{"subject": "1"}, {"subject": "2"}])).await;
    assert_eq!(claim(&stand, json!({})).await.len(), 1);
}

/// A page in somebody's browser can send such a request to this machine without asking.
#[tokio::test]
async fn a_claim_that_is_not_declared_as_json_claims_nothing() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "1"})).await;
    let bare = Request::post(format!("{JOBS}/claim")).body(Body::empty()).unwrap();
    stand.ask(bare).await.assert_problem(415, &["application/json"]);
    assert_eq!(state(&stand, 1).await, JobState::Pending);
}

#[tokio::test]
async fn bytes_that_are_no_text_come_as_base64() {
    let stand = Stand::new().await;
    let insert = "INSERT INTO mails_job_queue (article_id, payload) VALUES ('7', CAST(x'ff00' AS TEXT))";
    Client::connect(&stand.database).await.run(insert).await;
    let jobs = claim(&stand, json!({})).await;
    assert_eq!((&jobs[0]["payload_base64"], &jobs[0]["payload"]), (&json!("/wA="), &Value::Null));
}

#[tokio::test]
async fn a_completed_job_is_done_and_a_second_report_is_too_late() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    let done = report(&stand, 1, "complete", json!({"lease": lease})).await;
    assert_eq!((done.status.as_u16(), done.text.as_str()), (204, ""));
    assert_eq!(state(&stand, 1).await, JobState::Completed);
    let again = report(&stand, 1, "complete", json!({"lease": lease})).await;
    again.assert_problem(409, &["Job 1", "lease", "settled already", "Nothing was changed"]);
    let late = report(&stand, 1, "fail", json!({"lease": lease, "error": "no"})).await;
    late.assert_problem(409, &["Nothing was changed"]);
    assert_eq!(state(&stand, 1).await, JobState::Completed);
}

#[tokio::test]
async fn a_failed_job_is_retried_to_its_limit_and_then_a_dead_letter() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7", "max_retries": 2})).await;
    for attempt in 1..=2 {
        let jobs = claim(&stand, json!({"wait": "5s"})).await;
        assert_eq!(jobs[0]["attempt"], attempt);
        let body =
            json!({"lease": jobs[0]["lease"], "error": "no answer", "kind": "Timeout", "code": "http:503"});
        assert_eq!(report(&stand, 1, "fail", body).await.status, 204);
    }
    assert_eq!(state(&stand, 1).await, JobState::DeadLetter);
    let sql = "SELECT error_message, error_kind, error_code, error_class FROM mails_job_queue";
    let row = Client::connect(&stand.database).await.rows(sql).await.remove(0);
    let row: Vec<_> = row.into_iter().flatten().collect();
    assert_eq!(row, ["no answer", "Timeout", "http:503", "transient"]);
}

#[tokio::test]
async fn a_permanent_failure_is_a_dead_letter_at_once() {
    let stand = Stand::new().await;
    for class in ["permanent", "malformed"] {
        enqueue(&stand, json!({"subject": class})).await;
        let jobs = claim(&stand, json!({})).await;
        let id = jobs[0]["id"].as_i64().unwrap();
        let body = json!({"lease": jobs[0]["lease"], "error": "never", "class": class});
        assert_eq!(report(&stand, id, "fail", body).await.status, 204);
        assert_eq!(state(&stand, id).await, JobState::DeadLetter);
    }
}

#[tokio::test]
async fn a_worker_can_say_when_to_come_back() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    let body = json!({"lease": lease, "error": "slow down", "retry_after": "1h"});
    assert_eq!(report(&stand, 1, "fail", body).await.status, 204);
    assert_eq!(state(&stand, 1).await, JobState::Pending);
    assert!(claim(&stand, json!({"wait": "100ms"})).await.is_empty());
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_and_a_lost_one_is_told() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    let answer = report(&stand, 1, "heartbeat", json!({"lease": lease, "extend": "10m"})).await;
    assert_eq!(answer.status, 200);
    let until: jiff::Timestamp = answer.json["until"].as_str().unwrap().parse().unwrap();
    let left = until.duration_since(jiff::Timestamp::now()).as_secs_f64();
    assert!((590.0..=601.0).contains(&left), "{left}");
    report(&stand, 1, "heartbeat", json!({"lease": "999"})).await.assert_problem(409, &["lease 999"]);
    report(&stand, 5, "heartbeat", json!({"lease": lease})).await.assert_problem(409, &["Job 5"]);
}

#[tokio::test]
async fn a_lease_that_ran_out_settles_nothing_and_counts_as_a_failed_attempt() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let stale = claim_one(&stand).await;
    // The clock of the store decides; this is how it looks when the lease has run out.
    let expire = "UPDATE mails_job_queue SET due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 second')";
    Client::connect(&stand.database).await.run(expire).await;
    let jobs = claim(&stand, json!({"wait": "60s"})).await;
    assert_eq!(jobs[0]["attempt"], 2);
    assert_ne!(jobs[0]["lease"], Value::from(stale.as_str()));
    report(&stand, 1, "complete", json!({"lease": stale})).await.assert_problem(409, &["ran out"]);
    assert_eq!(state(&stand, 1).await, JobState::Running);
    assert_eq!(report(&stand, 1, "complete", json!({"lease": jobs[0]["lease"]})).await.status, 204);
}

/// Such a report was accepted as long as nobody had claimed the job, although the worker had to stop.
#[tokio::test]
async fn a_report_after_the_lease_ran_out_is_refused_although_nobody_claimed_the_job_since() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    let mut client = Client::connect(&stand.database).await;
    let due = |offset: &str| {
        format!("UPDATE mails_job_queue SET due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '{offset}')")
    };
    // The clock of the store decides: this is the moment at which the lease runs out.
    client.run(&due("0 seconds")).await;
    for (what, body) in [
        ("complete", json!({"lease": lease})),
        ("fail", json!({"lease": lease, "error": "no"})),
        ("heartbeat", json!({"lease": lease})),
    ] {
        report(&stand, 1, what, body).await.assert_problem(409, &["Job 1", "ran out", "Nothing was changed"]);
    }
    let row = client.rows("SELECT status, retry_count, error_message FROM mails_job_queue").await;
    assert_eq!(row, [[Some("running".to_owned()), Some("0".to_owned()), None]]);
    // With time left on it, the same lease is good.
    client.run(&due("30 seconds")).await;
    assert_eq!(report(&stand, 1, "heartbeat", json!({"lease": lease})).await.status, 200);
    assert_eq!(report(&stand, 1, "complete", json!({"lease": lease})).await.status, 204);
}

#[tokio::test]
async fn a_report_on_a_job_that_another_worker_has_claimed_since_is_refused() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let stale = claim_one(&stand).await;
    let expire = "UPDATE mails_job_queue SET due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 second')";
    Client::connect(&stand.database).await.run(expire).await;
    let jobs = claim(&stand, json!({"wait": "60s", "worker": "w2"})).await;
    for (what, body) in [
        ("complete", json!({"lease": stale})),
        ("fail", json!({"lease": stale, "error": "no", "class": "permanent"})),
        ("heartbeat", json!({"lease": stale})),
    ] {
        report(&stand, 1, what, body).await.assert_problem(409, &["Nothing was changed"]);
    }
    assert_eq!(report(&stand, 1, "complete", json!({"lease": jobs[0]["lease"]})).await.status, 204);
}

#[tokio::test]
async fn a_long_poll_gets_a_job_as_soon_as_there_is_one() {
    let stand = Stand::new().await;
    let begun = Instant::now();
    let waiting = claim(&stand, json!({"wait": "30s"}));
    let adding = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        enqueue(&stand, json!({"subject": "7"})).await;
    };
    let (jobs, ()) = tokio::join!(waiting, adding);
    assert_eq!(jobs.len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited to the end");
}

fn claim_request(key: Option<&str>, body: &Value) -> Request<Body> {
    let request = Request::post(format!("{JOBS}/claim")).header("content-type", "application/json");
    let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
    request.body(Body::from(body.to_string())).unwrap()
}

/// The claim was written down all the same: the job was leased to nobody, and that counted as an attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_for_a_client_that_hung_up_is_given_back_uncounted() {
    given_back(redrive_testkit::sqlite(), "BEGIN IMMEDIATE").await;
    let Some(database) = redrive_testkit::postgres(file!()).await else { return };
    given_back(database, "BEGIN; LOCK TABLE mails_job_queue IN ACCESS EXCLUSIVE MODE").await;
}

async fn given_back(database: TestDatabase, lock: &str) {
    let stand = Stand::without_tables(&Gate::default(), database);
    stand.jobs.migrate().await.unwrap();
    Records::of(&Database::open(&stand.database.url).unwrap()).migrate().await.unwrap();
    // From now on the connection knows the statement: it is sent in one piece.
    assert!(claim(&stand, json!({})).await.is_empty());
    enqueue(&stand, json!({"subject": "7"})).await;
    let mut other = Client::connect(&stand.database).await;
    for key in [None, Some("k1")] {
        other.run(lock).await;
        let wish = json!({"worker": "gone", "wait": "20s"});
        let claiming = stand.router.clone().oneshot(claim_request(key, &wish));
        // It waits for the lock when its client hangs up, and is carried out afterwards.
        assert!(tokio::time::timeout(Duration::from_millis(500), claiming).await.is_err());
        other.run("COMMIT").await;
        let jobs = claim(&stand, json!({"wait": "60s", "worker": "here"})).await;
        assert_eq!(jobs.len(), 1, "it was given back");
        assert_eq!(jobs[0]["attempt"], 1, "and no attempt was counted");
        let again = json!({"lease": jobs[0]["lease"], "error": "again"});
        assert_eq!(report(&stand, 1, "fail", again).await.status, 204);
        other.run("UPDATE mails_job_queue SET retry_count = 0").await;
    }
}

#[tokio::test]
async fn a_claim_that_is_repeated_with_its_key_gets_the_same_jobs_under_the_same_leases() {
    let stand = Stand::new().await;
    enqueue(&stand, json!([{"subject": "1"}, {"subject": "2"}, {"subject": "3"}])).await;
    let wish = json!({"worker": "w1", "limit": 2, "lease": "30s"});
    let held = |answer: Answer| {
        assert_eq!(answer.status, 200, "{answer:?}");
        let jobs = answer.json["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| (job["id"].clone(), job["lease"].clone())).collect::<Vec<_>>()
    };
    let first = stand.ask(claim_request(Some("k1"), &wish)).await;
    let subjects = first.json["jobs"][0]["subject"].clone();
    let first = held(first);
    assert_eq!(first.len(), 2);
    let again = stand.ask(claim_request(Some("k1"), &wish)).await;
    assert_eq!(again.json["jobs"][0]["subject"], subjects);
    assert_eq!(held(again), first);
    assert_eq!(
        held(stand.ask(claim_request(Some("k2"), &wish)).await).len(),
        1,
        "another key, another claim"
    );

    // What is not held any more is not handed out again.
    let lease = json!({"lease": first[0].1});
    assert_eq!(report(&stand, first[0].0.as_i64().unwrap(), "complete", lease).await.status, 204);
    assert_eq!(held(stand.ask(claim_request(Some("k1"), &wish)).await), first[1..]);

    let other = stand.ask(claim_request(Some("k1"), &json!({"worker": "w1", "limit": 3}))).await;
    other.assert_refused(None, "Idempotency-Key", "something else");
}

#[tokio::test]
async fn a_claim_with_a_key_that_found_nothing_may_find_something_when_it_is_repeated() {
    let stand = Stand::new().await;
    let ask = async || {
        stand.ask(claim_request(Some("k1"), &json!({}))).await.json["jobs"].as_array().unwrap().len()
    };
    assert_eq!(ask().await, 0);
    enqueue(&stand, json!({"subject": "1"})).await;
    assert_eq!(ask().await, 1);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_server() {
    let stand = Stand::new().await;
    let begun = Instant::now();
    let waiting = claim(&stand, json!({"wait": "30s"}));
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stand.stop.cancel();
    };
    let (jobs, ()) = tokio::join!(waiting, stopping);
    assert!(jobs.is_empty() && begun.elapsed() < Duration::from_secs(30), "it waited to the end");
}

#[tokio::test]
async fn a_queue_that_is_paused_gives_nothing_out() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    stand.mails.switch.pause();
    assert!(claim(&stand, json!({})).await.is_empty());
    stand.mails.switch.resume();
    assert_eq!(claim(&stand, json!({})).await.len(), 1);
}

#[tokio::test]
async fn wishes_out_of_bounds_are_refused_with_the_bounds() {
    let stand = Stand::new().await;
    let path = format!("{JOBS}/claim");
    for (body, field, said) in [
        (json!({"limit": 0}), "limit", "from 1 to 1000"),
        (json!({"limit": 1001}), "limit", "from 1 to 1000"),
        (json!({"lease": "999ms"}), "lease", "from 1s to 1h"),
        (json!({"lease": 3601}), "lease", "from 1s to 1h"),
        (json!({"wait": "61s"}), "wait", "at most 1m"),
        (json!({"limt": 1}), "limt", "unknown field `limt`"),
    ] {
        stand.post(&path, body.to_string()).await.assert_refused(None, field, said);
    }
}

#[tokio::test]
async fn reports_that_make_no_sense_are_refused() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    for (what, body, field, said) in [
        ("complete", json!({"lease": "seven"}), "lease", "the lease that the claim gave out"),
        ("complete", json!({"lease": 7}), "lease", "expected a string"),
        ("fail", json!({"lease": lease, "error": "x", "class": "odd"}), "class", "unknown value `odd`"),
        ("fail", json!({"lease": lease, "error": "x", "code": "503"}), "code", "scheme:value"),
        ("fail", json!({"lease": lease, "error": "x", "kind": "a\0b"}), "kind", "NUL"),
        ("fail", json!({"lease": lease, "error": "x", "kind": "x".repeat(101)}), "kind", "at most 100"),
        (
            "fail",
            json!({"lease": lease, "error": "x", "class": "permanent", "retry_after": 5}),
            "retry_after",
            "is permanent is not retried",
        ),
        ("heartbeat", json!({"lease": lease, "extend": 0}), "extend", "from 1s to 1h"),
    ] {
        report(&stand, 1, what, body).await.assert_refused(None, field, said);
    }
    let missing = report(&stand, 1, "fail", json!({"lease": lease})).await;
    missing.assert_problem(422, &["missing field `error`"]);
    let unnumbered = stand.post(&format!("{JOBS}/seven/complete"), r#"{"lease":"1"}"#).await;
    unnumbered.assert_problem(404, &["no job `seven` in `mails`"]);
    assert_eq!(state(&stand, 1).await, JobState::Running);
}

#[tokio::test]
async fn an_error_text_that_no_store_can_keep_is_made_harmless() {
    let stand = Stand::new().await;
    enqueue(&stand, json!({"subject": "7"})).await;
    let lease = claim_one(&stand).await;
    let body = json!({"lease": lease, "error": format!("a\0b{}", "x".repeat(20_000)), "class": "permanent"});
    assert_eq!(report(&stand, 1, "fail", body).await.status, 204);
    assert_eq!(state(&stand, 1).await, JobState::DeadLetter);
}
