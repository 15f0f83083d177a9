//! The store goes away in the middle of a bulk redrive and comes back: the operation waits and says for what,
//! goes on by itself, and sends each letter once.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::time::{Duration, Instant};

use redrive_testkit::{Cable, Client, TestDatabase, mysql, postgres};
use serde_json::{Value, json};
use support::{PATIENCE, Server, eventually, folder_with, redrive};
use tempfile::TempDir;

/// Many more than are sent between the outages, however long these take.
const LETTERS: u64 = 5_000;
/// Letters in a second: as many as a portion has.
const RATE: u64 = 250;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_an_operation_waits_for_its_store_and_goes_on() {
    let Some(database) = postgres(file!()).await else { return };
    waits_and_goes_on(&Outage::of(&database, Ledger::Elsewhere).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_an_operation_waits_for_its_store_and_goes_on() {
    let Some(database) = mysql(file!()).await else { return };
    waits_and_goes_on(&Outage::of(&database, Ledger::Elsewhere).await).await;
}

async fn waits_and_goes_on(outage: &Outage<'_>) {
    // Away before the set is frozen.
    outage.cable.cut();
    let operation = outage.start(&json!({"filter": {"pipeline": "orders"}, "rate": RATE, "note": "all"}));
    outage.waits(&operation, "freezing", "the dead letters of orders cannot be reached");
    outage.cable.mend();
    outage.passes(&operation, RATE);

    // Cut off between two portions, or in one.
    for (cut, millis) in [3, 611, 977].into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(millis));
        outage.cable.cut();
        outage.waits(&operation, "running", "the dead letters of orders cannot be reached");
        outage.shows_it(&operation);
        outage.cable.mend();
        outage.passes(&operation, RATE * (2 + cut as u64));
    }
    // Sent and committed, but nobody heard of it: it is not sent again.
    let mark = format!("operation {}", operation["id"]);
    outage.cable.cut_after(&[&mark, "COMMIT"]);
    outage.cable.is_cut().await;
    outage.waits(&operation, "running", "the dead letters of orders cannot be reached");
    outage.cable.mend();
    outage.passes(&operation, RATE * 5);

    // It does not break, it just says nothing any more.
    outage.cable.silence();
    outage.waits(&operation, "running", "the store of orders takes long to answer");
    outage.cable.mend();

    let ended = outage.reaches(&operation, "finished");
    assert_eq!(ended["reason"], "", "{ended}");
    outage.sent_each_letter_once(&ended).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_goes_on_when_its_ledger_is_back() {
    let Some(database) = postgres(file!()).await else { return };
    let outage = Outage::of(&database, Ledger::Same).await;
    let operation = outage.start(&json!({"all": true, "rate": RATE}));
    outage.passes(&operation, RATE);
    for (cut, millis) in [3, 641].into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(millis));
        outage.cable.cut();
        // Nothing can be told of the operation now, but that: and it is no error of the caller's.
        let (status, problem) = eventually("a problem", || {
            Some(outage.server.get(&outage.path(&operation))).filter(|(status, _)| *status != 200)
        });
        assert_eq!(status, 503, "{problem}");
        outage.cable.mend();
        outage.passes(&operation, RATE * (2 + cut as u64));
    }
    let mark = format!("operation {}", operation["id"]);
    outage.cable.cut_after(&[&mark, "COMMIT"]);
    outage.cable.is_cut().await;
    outage.cable.mend();
    let ended = outage.reaches(&operation, "finished");
    outage.sent_each_letter_once(&ended).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operation_waited_for_is_forgotten_by_its_next_runner() {
    let Some(database) = postgres(file!()).await else { return };
    let mut outage = Outage::of(&database, Ledger::Elsewhere).await;
    let operation = outage.start(&json!({"all": true, "rate": RATE}));
    outage.passes(&operation, RATE);
    outage.cable.cut();
    outage.waits(&operation, "running", "the dead letters of orders cannot be reached");
    outage.server.signal("KILL");
    outage.cable.mend();
    outage.server = Server::start(outage.folder.path());
    let gone_on = eventually("it goes on", || {
        let now = outage.now(&operation)?;
        (now["done"].as_u64()? >= RATE * 3).then_some(now)
    });
    assert_eq!((&gone_on["state"], &gone_on["reason"]), (&json!("running"), &json!("")), "{gone_on}");
    let ended = outage.reaches(&operation, "finished");
    outage.sent_each_letter_once(&ended).await;
}

/// Where the operations are written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ledger {
    /// In a file of the server's own.
    Elsewhere,
    /// Beside the letters.
    Same,
}

/// A server with dead letters behind a cable.
struct Outage<'a> {
    database: &'a TestDatabase,
    cable: Cable,
    server: Server,
    folder: TempDir,
}

impl<'a> Outage<'a> {
    async fn of(database: &'a TestDatabase, ledger: Ledger) -> Self {
        let cable = Cable::to(database).await;
        let address = cable.address(database);
        let ledger = match ledger {
            Ledger::Same => format!("[server]\ndatabase = \"{address}\"\n"),
            Ledger::Elsewhere => String::new(),
        };
        // The receiver is away: what is sent back stays where it is.
        let folder = folder_with(&format!(
            "{ledger}[outbox.orders]\ndatabase = \"{address}\"\n\
             handlers.Order = {{ http = \"http://127.0.0.1:9/\" }}\n"
        ));
        assert!(redrive(folder.path()).arg("migrate").status().unwrap().success());
        let numbers =
            format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {LETTERS})");
        let letters = "INSERT INTO outbox_event_dlq (original_event_id, event_type, payload, error_message)";
        let mut client = Client::connect(database).await;
        // MariaDB stops counting at a thousand, unless it is told otherwise.
        client.attempt("SET SESSION max_recursive_iterations = 1000000").await.ok();
        client.run(&format!("{letters} {numbers} SELECT n, 'Order', '{{}}', 'refused' FROM s")).await;
        let server = Server::ready(folder.path());
        Self { database, cable, server, folder }
    }

    fn start(&self, request: &Value) -> Value {
        let (status, operation) = self.server.post("/api/v1/redrives", request);
        assert_eq!(status, 202, "{operation}");
        operation
    }

    fn path(&self, operation: &Value) -> String {
        format!("/api/v1/redrives/{}", operation["id"])
    }

    fn now(&self, operation: &Value) -> Option<Value> {
        let (status, now) = self.server.get(&self.path(operation));
        (status == 200).then_some(now)
    }

    #[track_caller]
    fn until(&self, what: &str, operation: &Value, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.now(operation);
            if let Some(now) = now.clone().filter(&holds) {
                return now;
            }
            assert!(Instant::now() < deadline, "still not: {what}: {now:?}\n{}", self.server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the operation says that it waits, and why.
    #[track_caller]
    fn waits(&self, operation: &Value, state: &str, why: &str) {
        let reason = format!("waiting: {why}");
        self.until(&reason, operation, |now| {
            now["state"] == state && now["reason"].as_str().unwrap().starts_with(&reason)
        });
    }

    /// The dashboard says it too.
    fn shows_it(&self, operation: &Value) {
        for page in [format!("/operations/{}", operation["id"]), "/operations".to_owned()] {
            let (status, page) = self.server.ask_with("accept: text/html\r\n", "GET", &page, "");
            assert_eq!(status, 200);
            assert!(page.contains("waiting: the dead letters of orders cannot be reached"), "{page}");
        }
    }

    /// Waits until so many letters are sent, and nothing is waited for.
    #[track_caller]
    fn passes(&self, operation: &Value, letters: u64) {
        self.until(&format!("{letters} sent"), operation, |now| {
            now["done"].as_u64().unwrap() >= letters && now["reason"] == ""
        });
    }

    #[track_caller]
    fn reaches(&self, operation: &Value, state: &str) -> Value {
        self.until(state, operation, |now| now["state"] == state)
    }

    async fn sent_each_letter_once(&self, ended: &Value) {
        let all = json!(LETTERS);
        assert_eq!((&ended["total"], &ended["done"], &ended["refused"]), (&all, &all, &json!(0)), "{ended}");
        let mut client = Client::connect(self.database).await;
        let all = i64::try_from(LETTERS).unwrap();
        let sent = "SELECT count(*) FROM outbox_event WHERE redrive_count = 1";
        assert_eq!(client.number(sent).await, all, "each letter is sent");
        let distinct = "SELECT count(DISTINCT origin_id) FROM outbox_event";
        assert_eq!(client.number(distinct).await, all, "and none of them twice");
        assert_eq!(client.number("SELECT count(*) FROM outbox_event").await, all, "nor anything else");
    }
}
