//! A bulk redrive whose server is killed again and again: each letter goes back once, and the operation ends.
//!
//! `REDRIVE_TEST_REDRIVE_LETTERS` says how many letters there are of each kind; the default is few.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::time::Duration;

use redrive_testkit::{Client, TestDatabase, postgres, sqlite};
use serde_json::json;
use support::{Server, folder_with, redrive};

const KILLS: u64 = 30;

fn letters() -> u64 {
    std::env::var("REDRIVE_TEST_REDRIVE_LETTERS").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000)
}

#[tokio::test]
async fn sqlite_sends_each_letter_once() {
    sends_each_letter_once(sqlite(), "strftime('%Y-%m-%d %H:%M:%f', 'now')", Pace::Slow).await;
}

#[tokio::test]
async fn postgres_sends_each_letter_once() {
    let Some(database) = postgres(file!()).await else { return };
    sends_each_letter_once(database, "now()", Pace::Slow).await;
}

// Without a rate, portions are sent side by side, and a kill hits several of them.
#[tokio::test]
async fn postgres_sends_each_letter_once_in_several_lanes() {
    let Some(database) = postgres(file!()).await else { return };
    sends_each_letter_once(database, "now()", Pace::AtOnce).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Portions of a fiftieth, one a second: most kills are in the middle of something.
    Slow,
    /// As quickly as it goes, and ten times as many letters, so that it takes a while.
    AtOnce,
}

async fn sends_each_letter_once(database: TestDatabase, now: &str, pace: Pace) {
    // Nobody claims the jobs, and the outbox's handler is away: what is sent back stays where it is.
    let folder = folder_with(&format!(
        "[server]\ndatabase = \"{url}\"\n[jobs.mails]\ntable = \"mails\"\n\
         [outbox.orders]\nhandlers.Order = {{ http = \"http://127.0.0.1:9/\" }}\n",
        url = database.url
    ));
    assert!(redrive(folder.path()).arg("migrate").status().unwrap().success());
    let count = if pace == Pace::Slow { letters() } else { 10 * letters() };
    let numbers =
        format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) ");
    let mut client = Client::connect(&database).await;
    client
        .run(&format!(
            "INSERT INTO mails (article_id, status, retry_count, error_message, completed_at) \
             {numbers} SELECT 'mail', 'dead_letter', 3, 'refused', {now} FROM s"
        ))
        .await;
    client
        .run(&format!(
            "INSERT INTO outbox_event_dlq (original_event_id, event_type, payload, error_message) \
             {numbers} SELECT n, 'Order', '{{}}', 'refused' FROM s"
        ))
        .await;

    let server = Server::ready(folder.path());
    let mut request = json!({"all": true, "note": "all of them"});
    if pace == Pace::Slow {
        request["rate"] = json!((count / 50).max(1));
    }
    let (status, operation) = server.post("/api/v1/redrives", &request);
    assert_eq!(status, 202, "{operation}");
    let path = format!("/api/v1/redrives/{}", operation["id"]);
    let begun = "SELECT count(*) FROM redrive_operation WHERE state = 'running' \
                 AND EXISTS (SELECT 1 FROM redrive_operation_portion WHERE done > 0)";
    // A set that is not whole is frozen anew after a kill: that has tests of its own.
    while client.number(begun).await == 0 {
        assert_ne!(server.get(&path).1["state"], "finished", "it was over before the first kill");
    }
    let mut server = server;
    let mut under_way = 0;
    for kill in 0..KILLS {
        std::thread::sleep(Duration::from_millis(100 + kill * 53 % 400));
        server.signal("KILL");
        server.end();
        under_way += client.number(begun).await;
        server = Server::start(folder.path());
    }
    assert!(under_way > 2, "only {under_way} of {KILLS} kills were in the middle of it");
    if pace == Pace::Slow {
        // It need not take its time any more.
        let hurry = "UPDATE redrive_operation SET request = REPLACE(request, '\"rate\":', '\"rate\":1000')";
        client.run(hurry).await;
    }
    server.wait_ready(200);
    let ended = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(200));
        let operation = server.get(&path).1;
        (operation["state"] == "finished").then_some(operation)
    });
    let ended = ended.unwrap_or_else(|| panic!("it does not end: {} {}", server.get(&path).1, server.log()));
    assert_eq!(
        (&ended["total"], &ended["done"], &ended["refused"]),
        (&json!(2 * count), &json!(2 * count), &json!(0))
    );
    server.signal("TERM");
    server.end();

    let count = i64::try_from(count).unwrap();
    let once = "SELECT count(*) FROM mails WHERE status = 'pending' AND redrive_count = 1";
    assert_eq!(client.number(once).await, count, "each job went back once");
    let events = "SELECT count(*) FROM outbox_event WHERE redrive_count = 1";
    assert_eq!(client.number(events).await, count, "each event went back");
    let distinct = "SELECT count(DISTINCT origin_id) FROM outbox_event";
    assert_eq!(client.number(distinct).await, count, "and none of them twice");
    assert_eq!(client.number("SELECT count(*) FROM outbox_event_dlq WHERE redriven = TRUE").await, count);
}
