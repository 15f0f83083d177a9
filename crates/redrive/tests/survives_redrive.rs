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
    sends_each_letter_once(sqlite(), "strftime('%Y-%m-%d %H:%M:%f', 'now')").await;
}

#[tokio::test]
async fn postgres_sends_each_letter_once() {
    let Some(database) = postgres(file!()).await else { return };
    sends_each_letter_once(database, "now()").await;
}

async fn sends_each_letter_once(database: TestDatabase, now: &str) {
    // Nobody claims the jobs, and the outbox's handler is away: what is sent back stays where it is.
    let folder = folder_with(&format!(
        "[server]\ndatabase = \"{url}\"\n[jobs.mails]\ntable = \"mails\"\n\
         [outbox.orders]\nhandlers.Order = {{ http = \"http://127.0.0.1:9/\" }}\n",
        url = database.url
    ));
    assert!(redrive(folder.path()).arg("migrate").status().unwrap().success());
    let count = letters();
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
    // Portions of a fiftieth: most kills are in the middle of something.
    let request = json!({"all": true, "rate": (count / 50).max(1), "note": "all of them"});
    let (status, operation) = server.post("/api/v1/redrives", &request);
    assert_eq!(status, 202, "{operation}");
    let path = format!("/api/v1/redrives/{}", operation["id"]);
    let mut server = server;
    for kill in 0..KILLS {
        std::thread::sleep(Duration::from_millis(kill * 53 % 400));
        server.signal("KILL");
        server.end();
        server = Server::start(folder.path());
    }
    // It need not take its time any more.
    client.run("UPDATE redrive_operation SET request = REPLACE(request, '\"rate\":', '\"rate\":1000')").await;
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
