//! A settlement waits for a row that somebody else has locked: what the worker holds beside it stays its own, and no
//! other process takes it over.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::dead_letter::PipelineKind;
use redrive_core::event::{Event, NewEvent, WorkId};
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;
use redrive_core::policy::Policy;
use redrive_core::state::OutboxState;
use redrive_engine::{Engine, Pace, Pipeline, Route, Routes, WatchOptions};
use redrive_store::{Database, Outbox, OutboxOptions};
use redrive_testkit::{Client, TestDatabase, mysql, postgres};
use tokio::sync::{mpsc, watch};

const LEASE: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(60);

/// Says which event it has begun with, and ends with it when that is allowed.
struct Gated {
    begun: mpsc::UnboundedSender<WorkId>,
    may_end: Mutex<HashMap<WorkId, watch::Receiver<bool>>>,
}

#[async_trait]
impl Handler for Gated {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        for event in batch {
            self.begun.send(event.id).ok();
            let gate = self.may_end.lock().unwrap().get(&event.id).cloned();
            if let Some(mut gate) = gate {
                gate.wait_for(|open| *open).await.unwrap();
            }
        }
        vec![Ok(()); batch.len()]
    }
}

/// An instance with connections of its own, as in another process.
async fn instance(database: &TestDatabase, handler: Gated) -> (Engine, Arc<Outbox>) {
    let connection = Database::connect(&database.url).await.unwrap();
    let outbox = Arc::new(Outbox::new(connection, OutboxOptions::new("orders")).unwrap());
    outbox.migrate().await.unwrap();
    let policy =
        Policy::new(6, Backoff::new(Duration::from_millis(1), 1.0, Duration::from_millis(1)).unwrap());
    let pace = Pace {
        lease: LEASE,
        poll_interval: Duration::from_millis(50),
        handler_timeout: LONG,
        ..Pace::default()
    };
    let pipeline = Pipeline::new("orders", PipelineKind::Outbox, outbox.clone(), outbox.clone(), policy)
        .handled_by(Routes::All(Route::new("gated", Arc::new(handler))))
        .at(pace);
    let engine = Engine::new();
    engine.start(&Arc::new(pipeline), WatchOptions::default());
    (engine, outbox)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_settlement_that_waits_for_a_locked_row_costs_no_attempts() {
    let Some(database) = postgres(file!()).await else { return };
    survives_a_locked_row(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_a_settlement_that_waits_for_a_locked_row_costs_no_attempts() {
    let Some(database) = mysql(file!()).await else { return };
    survives_a_locked_row(database).await;
}

async fn survives_a_locked_row(database: TestDatabase) {
    let (begun, mut started) = mpsc::unbounded_channel();
    let (gates, may_end): (HashMap<WorkId, watch::Sender<bool>>, HashMap<_, _>) = (1..=4)
        .map(|id| (WorkId(id), watch::channel(false)))
        .map(|(id, (gate, seen))| ((id, gate), (id, seen)))
        .unzip();
    let (a, outbox) = instance(&database, Gated { begun, may_end: Mutex::new(may_end) }).await;
    let event = NewEvent {
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        aggregate_id: "42".into(),
        payload: "{}".into(),
    };
    let ids = outbox.append(vec![event; 4]).await.unwrap();
    for _ in &ids {
        tokio::time::timeout(LONG, started.recv()).await.unwrap().unwrap();
    }
    // The first row is somebody else's for a while; its handler ends, and its settlement waits.
    let mut other = Client::connect(&database).await;
    let lock = format!("SELECT id FROM outbox_event WHERE id = {} FOR UPDATE", ids[0].0);
    other.run("BEGIN").await;
    other.rows(&lock).await;
    gates[&ids[0]].send_replace(true);
    let (begun, mut taken_over) = mpsc::unbounded_channel();
    let (b, _) = instance(&database, Gated { begun, may_end: Mutex::default() }).await;
    // Longer than every lease: the clock is what this is about.
    tokio::time::sleep(LEASE * 2).await;
    for gate in gates.values() {
        gate.send_replace(true);
    }
    other.run("COMMIT").await;
    let delivered = async {
        for id in &ids {
            while outbox.state(*id).await.unwrap() != Some(OutboxState::Processed) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(LONG, delivered).await.expect("everything is settled");
    a.stop().await;
    b.stop().await;
    assert_eq!(taken_over.recv().await, None, "nothing was taken over");
    assert_eq!(started.recv().await, None, "nothing was begun twice");
    let counted = Client::connect(&database).await.number("SELECT sum(retry_count) FROM outbox_event").await;
    assert_eq!(counted, 0, "no attempt was counted");
}
