//! The database of a persist pipeline goes down and up in the middle: everything that was accepted ends in
//! the target, once, and no retry is counted for anybody.
//!
//! Alone in this file: it takes the servers away from under everybody who uses them.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod persisting;
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use persisting::{Stand, eventually, quick, record};
use redrive_engine::persist::Durability;
use redrive_engine::{Persister, Rung, WatchOptions};
use redrive_spool::{Journal, JournalOptions};
use redrive_store::Record;
use redrive_testkit::{TestDatabase, mysql, postgres};
use servers::{recovers_quickly, restartable, service};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_goes_down_and_up_loses_and_fails_no_event() {
    if let Some(database) = restartable(postgres(file!()).await, file!()) {
        recovers_quickly(&database).await;
        survives("postgres", database, Durability::Memory).await;
        survives("postgres", postgres(file!()).await.unwrap(), Durability::Journal).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_goes_down_and_up_loses_and_fails_no_event() {
    if let Some(database) = restartable(mysql(file!()).await, file!()) {
        survives("mariadb", database, Durability::Memory).await;
        survives("mariadb", mysql(file!()).await.unwrap(), Durability::Journal).await;
    }
}

async fn survives(name: &str, database: TestDatabase, durability: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::new(database, quick()).await;
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    let persister = Persister::builder(stand.target.clone(), stand.failed.clone())
        .journaling(journal, durability)
        .build(quick());
    stand.engine.persist(&persister, WatchOptions::default());
    let caller = Caller::start(persister.clone());

    for action in ["stop", "kill"] {
        caller.accepts(2_000).await;
        service(action, name).await;
        eventually("it is down the ladder", async || persister.rung() == Rung::Disk).await;
        caller.accepts(500).await;
        service("start", name).await;
        eventually("it is up again", async || persister.rung() == Rung::Target).await;
    }
    let accepted = caller.stop().await;
    persister.idle().await;
    // Between the two, some may have become failed events: the schedule brings them back.
    eventually("nothing waits", async || stand.failed_count("RESOLVED").await == all_failed(&stand).await)
        .await;
    assert_eq!(stand.saved().await, i64::try_from(accepted).unwrap(), "{name}, {durability:?}");
    let burnt = "SELECT count(*) FROM failed_events WHERE retry_count <> 0";
    assert_eq!(stand.client().await.number(burnt).await, 0, "attempts were burnt");
    assert_eq!(persister.pipeline().health.get(), Ok(()));
    stand.stop().await;
}

async fn all_failed(stand: &Stand) -> i64 {
    stand.client().await.number("SELECT count(*) FROM failed_events").await
}

/// Somebody who hands in events all the time, and counts those that were accepted.
struct Caller {
    accepted: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Caller {
    fn start(persister: Persister<Record>) -> Self {
        let (accepted, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (Arc::clone(&accepted), Arc::clone(&stopped));
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let first = count.load(Ordering::Relaxed);
                let batch: Vec<_> = (first..first + 20).map(|n| record(&format!("k{n}"), "v")).collect();
                if persister.persist_all(&batch).await.is_ok() {
                    count.fetch_add(20, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self { accepted, stopped, task }
    }

    /// Waits until so many more were accepted.
    async fn accepts(&self, more: usize) {
        let before = self.accepted.load(Ordering::Relaxed);
        eventually("more is accepted", async || self.accepted.load(Ordering::Relaxed) >= before + more).await;
    }

    async fn stop(self) -> usize {
        self.stopped.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.accepted.load(Ordering::Relaxed)
    }
}
