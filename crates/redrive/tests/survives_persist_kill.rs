//! A persist pipeline with a journal is killed at random moments while events are handed in: whatever was
//! answered with 202 is in the target, or among the failed events if it is poison. And one without a
//! journal that is told to go saves what it holds first.
//!
//! A failed run prints its seed; `REDRIVE_TEST_SEED` repeats its decisions.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_testkit::{Client, PATIENCE, TestDatabase, backends, eventually, mysql, postgres, sqlite};
use serde_json::{Value, json};
use support::{Server, folder_with, seed};

const KILLS: u64 = 30;
const CALLERS: usize = 4;
/// As many for each kill are enough to prove something; a busy machine takes its time.
const EVENTS_PER_KILL: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_nothing_that_was_answered_for_is_lost() {
    survives_kills(sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_nothing_that_was_answered_for_is_lost() {
    let Some(database) = postgres(file!()).await else { return };
    survives_kills(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_nothing_that_was_answered_for_is_lost() {
    let Some(database) = mysql(file!()).await else { return };
    survives_kills(database).await;
}

async fn survives_kills(database: TestDatabase) {
    let folder = folder_with(&configuration(&database, "journal"));
    let calls = Arc::new(Calls::default());
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let calls = Arc::clone(&calls);
            std::thread::spawn(move || calls.make(number))
        })
        .collect();
    let seed = seed();
    eprintln!("REDRIVE_TEST_SEED={seed}");
    for kill in 0..KILLS {
        let server = Server::start(folder.path());
        *calls.address.lock().unwrap() = Some(server.address);
        let moment = (seed.wrapping_add(kill).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 250;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let enough = EVENTS_PER_KILL * kill as usize;
        let accepted = || async { calls.accepted.lock().unwrap().len() >= enough };
        eventually(PATIENCE, "events are accepted", accepted).await;
        server.signal("KILL");
        drop(server);
    }
    calls.stop.store(true, Ordering::Relaxed);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    let accepted = std::mem::take(&mut *calls.accepted.lock().unwrap());
    assert!(accepted.len() > 1_000, "only {} events: this proves nothing", accepted.len());

    let server = Server::ready(folder.path());
    // One batch after the other: when the second is saved, the poison that came with the first is written down.
    for last in ["last", "very-last"] {
        let (status, _) = server.post("/api/v1/persist/urls", &json!({"key": last, "payload": "1"}));
        assert_eq!(status, 202);
        let saved = format!("SELECT count(*) FROM urls WHERE short_url = '{last}'");
        let is_saved = || async { Client::connect(&database).await.number(&saved).await == 1 };
        eventually(PATIENCE, "the last event is saved", is_saved).await;
    }
    let mut client = Client::connect(&database).await;
    balance(&mut client, &accepted).await;
    let metrics = server.metrics();
    assert!(metrics.contains(r#"redrive_ladder_rung{pipeline="urls"} 1"#), "{metrics}");
}

/// Every event in its place.
async fn balance(client: &mut Client, accepted: &[(String, String)]) {
    let two = |row: &Vec<Option<String>>| (row[0].clone().unwrap(), row[1].clone().unwrap());
    let rows = client.rows("SELECT short_url, long_url FROM urls").await;
    let saved: HashMap<_, _> = rows.iter().map(two).collect();
    assert_eq!(saved.len(), rows.len());
    let rows = client.rows("SELECT short_url, long_url FROM failed_events").await;
    let failed: HashSet<_> = rows.iter().map(two).collect();
    let mut poison = 0;
    for (key, payload) in accepted {
        if key == "taken" {
            let first = saved[key] == *payload;
            assert!(first || failed.contains(&(key.clone(), payload.clone())), "poison {payload} is lost");
            poison += 1;
        } else {
            assert_eq!(saved.get(key), Some(payload), "{key} is lost");
        }
    }
    assert!(poison > 10, "there was hardly any poison: {poison}");
    assert!(failed.iter().all(|(key, _)| key == "taken"), "a healthy event failed");
}

/// Those who hand in events, and what was accepted of them.
#[derive(Default)]
struct Calls {
    address: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
    number: AtomicUsize,
    accepted: Mutex<Vec<(String, String)>>,
}

impl Calls {
    fn make(&self, caller: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let first = self.number.fetch_add(10, Ordering::Relaxed);
            let mut events: Vec<_> =
                (first..first + 10).map(|n| (format!("k{n}"), format!("https://example.org/{n}"))).collect();
            if first.is_multiple_of(7) {
                events[3] = ("taken".to_owned(), format!("{caller}-{first}"));
            }
            if self.hand_in(&events) {
                self.accepted.lock().unwrap().extend(events);
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Whether they were accepted; a server that is gone has accepted nothing, as far as we know.
    fn hand_in(&self, events: &[(String, String)]) -> bool {
        let Some(address) = *self.address.lock().unwrap() else { return false };
        let event = |(key, payload): &(String, String)| json!({"key": key, "payload": payload});
        let body = Value::from(events.iter().map(event).collect::<Vec<_>>()).to_string();
        let length = body.len();
        let head = "POST /api/v1/persist/urls HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let request =
            format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let mut answer = String::new();
        let asked = TcpStream::connect(address)
            .and_then(|mut stream| stream.write_all(request.as_bytes()).map(|()| stream))
            .and_then(|mut stream| stream.read_to_string(&mut answer));
        asked.is_ok() && answer.starts_with("HTTP/1.1 202")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_go_saves_what_it_holds_first() {
    for database in backends(file!()).await {
        for durability in ["memory", "journal"] {
            Client::connect(&database).await.attempt("DROP TABLE urls").await.ok();
            let folder = folder_with(&configuration(&database, durability));
            let server = Server::ready(folder.path());
            for first in (0..9_000).step_by(1_000) {
                let events: Vec<_> =
                    (first..first + 1_000).map(|n| json!({"key": format!("k{n}"), "payload": n})).collect();
                assert_eq!(server.post("/api/v1/persist/urls", &json!(events)).0, 202);
            }
            server.signal("TERM");
            let (code, log) = server.end();
            assert_eq!(code, Some(0), "{log}");
            let mut client = Client::connect(&database).await;
            assert_eq!(client.number("SELECT count(*) FROM urls").await, 9_000, "{log}");
        }
    }
}

fn configuration(database: &TestDatabase, durability: &str) -> String {
    format!(
        "[persist.urls]\ndatabase = \"{}\"\ndurability = \"{durability}\"\nbatch-size = 50\n",
        database.url
    )
}
