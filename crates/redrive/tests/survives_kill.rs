//! The server is killed at random moments, again and again, while events flow: none is lost, every poison
//! event is dead exactly once, no healthy one is, and few are delivered twice.
//!
//! A failed run prints its seed; `REDRIVE_TEST_SEED` repeats its decisions.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::NewEvent;
use redrive_store::{Database, Outbox, OutboxOptions, WorkStore as _};
use redrive_testkit::{Client, PATIENCE, Pooler, TestDatabase, eventually, mysql, pooled, postgres, sqlite};
use support::{folder_with, seed};
use survival::{Process, Receiver};

const EVENTS: usize = 20_000;
const POISON: usize = EVENTS / 50;
const KILLS: usize = 50;
const WORKERS: usize = 2;
const BATCH: usize = 50;
/// The most events that a server has claimed and not settled.
const IN_FLIGHT: usize = WORKERS * BATCH;
/// So many events wait at most, as applications write them while servers come and go.
const AHEAD: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_nothing_is_lost_when_the_server_is_killed_fifty_times() {
    survives_kills(sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_nothing_is_lost_when_the_server_is_killed_fifty_times() {
    let Some(database) = postgres(file!()).await else { return };
    survives_kills(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_pgbouncer_nothing_is_lost_when_the_server_is_killed_fifty_times() {
    let Some(database) = pooled(file!(), Pooler::Transaction).await else { return };
    survives_kills(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_nothing_is_lost_when_the_server_is_killed_fifty_times() {
    let Some(database) = mysql(file!()).await else { return };
    survives_kills(database).await;
}

async fn survives_kills(database: TestDatabase) {
    let mut random = Random::seeded();
    let receiver =
        Receiver::start(|event| async move { if event.body == "poison" { 422 } else { 200 } }).await;
    let outbox = outbox(&database).await;
    let folder = folder_with(&configuration(&database, &receiver));
    let payloads = random.shuffled(POISON, EVENTS);
    let killing = async {
        for kills_left in (1..=KILLS).rev() {
            let server = Process::serve(folder.path(), "server");
            random_moment(&mut random, &receiver, kills_left).await;
            server.kill();
        }
        Process::serve(folder.path(), "server")
    };
    let (server, accepted) = tokio::join!(killing, accept(&outbox, payloads, &receiver));
    let settled = || async { outbox.backlog().await.unwrap() == 0 };
    eventually(PATIENCE, "everything is settled", settled).await;
    server.kill();

    let books = Books::read(&database).await;
    books.balance(&accepted);
    delivered_at_least_once_and_rarely_twice(&receiver, &accepted);
}

/// Either in the middle of its start, or after it has delivered some of what is left.
async fn random_moment(random: &mut Random, receiver: &Receiver, kills_left: usize) {
    if random.below(5) == 0 {
        tokio::time::sleep(Duration::from_millis(random.below(200) as u64)).await;
        return;
    }
    let before = receiver.distinct();
    let share = 2 * (EVENTS - before) / (kills_left + 1);
    let more = 1 + random.below(share.max(1)).min((EVENTS - before).saturating_sub(2 * IN_FLIGHT));
    let delivered = || async { receiver.distinct() >= before + more };
    eventually(PATIENCE, "events are delivered", delivered).await;
    tokio::time::sleep(Duration::from_micros(random.below(20_000) as u64)).await;
}

/// What was accepted: the number of each event, and whether it is poison.
type Accepted = Vec<(String, bool)>;

/// Writes events as an application does, a little ahead of their delivery.
async fn accept(outbox: &Outbox, payloads: Vec<&'static str>, receiver: &Receiver) -> Accepted {
    let mut accepted = Vec::new();
    for payloads in payloads.chunks(500) {
        let events = payloads.iter().map(|payload| event(payload)).collect();
        let ids = outbox.append(events).await.unwrap();
        accepted.extend(ids.iter().map(ToString::to_string).zip(payloads.iter().map(|it| *it == "poison")));
        let wanted = || async { accepted.len() < receiver.distinct() + AHEAD };
        eventually(PATIENCE, "events are delivered", wanted).await;
    }
    accepted
}

/// What the tables say in the end.
struct Books {
    processed: Vec<String>,
    dead: Vec<String>,
    left: i64,
}

impl Books {
    async fn read(database: &TestDatabase) -> Self {
        let mut client = Client::connect(database).await;
        Self {
            processed: client.column("SELECT id FROM outbox_event WHERE processed = TRUE").await,
            dead: client.column("SELECT original_event_id FROM outbox_event_dlq").await,
            left: client.number("SELECT count(*) FROM outbox_event WHERE processed = FALSE").await,
        }
    }

    /// Accepted = delivered + dead, each event in its place and only once.
    fn balance(&self, accepted: &Accepted) {
        let of = |poison: bool| {
            accepted.iter().filter(|event| event.1 == poison).map(|event| &event.0).collect::<HashSet<_>>()
        };
        let dead: HashSet<_> = self.dead.iter().collect();
        assert_eq!(self.dead.len(), dead.len(), "some are dead twice");
        assert!(dead.is_superset(&of(true)), "poison was not dead-lettered");
        assert_eq!(dead.difference(&of(true)).count(), 0, "healthy events are dead");
        assert!(self.processed.iter().collect::<HashSet<_>>() == of(false), "healthy events are lost");
        assert_eq!((accepted.len(), self.left), (EVENTS, 0));
    }
}

fn delivered_at_least_once_and_rarely_twice(receiver: &Receiver, accepted: &Accepted) {
    let times = receiver.times();
    for (id, _) in accepted {
        assert!(times.contains_key(&format!("orders:{id}")), "{id} was never delivered");
    }
    let repeated: usize = times.values().map(|times| *times as usize - 1).sum();
    assert!(repeated <= IN_FLIGHT * KILLS, "{repeated} deliveries too many");
}

async fn outbox(database: &TestDatabase) -> Arc<Outbox> {
    let connections = Database::connect(&database.url).await.unwrap();
    let outbox = Outbox::new(connections, OutboxOptions::new("orders")).unwrap();
    outbox.migrate().await.unwrap();
    Arc::new(outbox)
}

fn event(payload: &str) -> NewEvent {
    NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        payload: payload.into(),
    }
}

fn configuration(database: &TestDatabase, receiver: &Receiver) -> String {
    format!(
        "[outbox.orders]\n\
         database = \"{}\"\n\
         workers = {WORKERS}\n\
         batch-size = {BATCH}\n\
         concurrency = 32\n\
         lease = \"1s\"\n\
         poll-interval = \"100ms\"\n\
         retry = {{ initial = \"50ms\", factor = 1.0, max = \"50ms\" }}\n\
         handlers.OrderCreated = {{ http = \"http://{}/\" }}\n",
        database.url, receiver.address
    )
}

/// SplitMix64: enough for a test, and the same everywhere.
struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    fn seeded() -> Self {
        let seed = seed();
        Self { seed, state: seed }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % limit
    }

    /// So many payloads, some of them poison.
    fn shuffled(&mut self, poison: usize, events: usize) -> Vec<&'static str> {
        let mut payloads = vec!["fine"; events];
        payloads[..poison].fill("poison");
        for last in (1..events).rev() {
            payloads.swap(last, self.below(last + 1));
        }
        payloads
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("REDRIVE_TEST_SEED={}", self.seed);
        }
    }
}
