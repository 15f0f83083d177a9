//! Down the ladder and up again: what neither the target nor the failed events take goes to the journal on
//! disk and comes back in order; only what not even the disk takes is held, refused, and dropped at a stop.
#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

mod persisting;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use persisting::{Stand, eventually, quick, record, records};
use redrive_core::failure::Failure;
use redrive_core::trouble::{Reason, Trouble};
use redrive_engine::alerts::{AlertService, DeadLetterAlert, Dropped, LadderMoved, Level};
use redrive_engine::persist::{Durability, NotAccepted, Sink};
use redrive_engine::{Engine, PersistOptions, Persister, Rung, WatchOptions};
use redrive_spool::{Journal, JournalOptions};
use redrive_store::Record;
use redrive_testkit::{self as testkit, Backend, Client};

const BOTH: [Durability; 2] = [Durability::Memory, Durability::Journal];

fn journal(dir: &Path) -> Journal {
    Journal::open(dir, JournalOptions::default()).unwrap()
}

async fn take_away(client: &mut Client) {
    client.run("ALTER TABLE urls RENAME TO urls_away").await;
    client.run("ALTER TABLE failed_events RENAME TO failed_away").await;
}

async fn bring_back(client: &mut Client) {
    client.run("ALTER TABLE urls_away RENAME TO urls").await;
    client.run("ALTER TABLE failed_away RENAME TO failed_events").await;
}

async fn stands_on(persister: &Persister<Record>, rung: Rung) {
    eventually(&format!("it stands on {rung:?}"), async || persister.rung() == rung).await;
}

#[tokio::test]
async fn what_no_table_takes_waits_on_disk_and_comes_back_by_itself() {
    for durability in BOTH {
        for database in testkit::backends(file!()).await {
            let folder = tempfile::tempdir().unwrap();
            let stand = Stand::new(database, quick()).await;
            let persister = Persister::builder(stand.target.clone(), stand.failed.clone())
                .journaling(journal(folder.path()), durability)
                .build(quick());
            let mut client = stand.client().await;
            stand.engine.persist(&persister, WatchOptions::default());
            persister.persist_all(&records(0..10)).await.unwrap();
            persister.idle().await;
            take_away(&mut client).await;
            persister.persist_all(&records(10..500)).await.unwrap();
            stands_on(&persister, Rung::Disk).await;
            assert!(persister.pipeline().health.get().is_err(), "and says so");
            for n in 500..520 {
                persister.persist_all(&records(n..n + 1)).await.unwrap();
            }
            bring_back(&mut client).await;
            persister.idle().await;
            // A batch whose last try came just too early is among the failed events: the schedule saves it.
            let unresolved = "SELECT count(*) FROM failed_events WHERE status <> 'RESOLVED'";
            eventually("nothing waits", async || client.number(unresolved).await == 0).await;
            assert_eq!(stand.saved().await, 520, "{durability:?} on {:?}", stand.database.backend);
            let burnt = "SELECT count(*) FROM failed_events WHERE retry_count <> 0";
            assert_eq!(client.number(burnt).await, 0);
            persister.persist(&record("next", "1")).await.unwrap();
            persister.idle().await;
            assert_eq!(persister.rung(), Rung::Target);
            assert_eq!(persister.pipeline().health.get(), Ok(()));
            stand.stop().await;
        }
    }
}

#[tokio::test]
async fn what_the_journal_has_answered_for_is_saved_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::new(testkit::sqlite(), quick()).await;
    let build = || {
        Persister::builder(stand.target.clone(), stand.failed.clone())
            .journaling(journal(folder.path()), Durability::Journal)
            .build(quick())
    };
    // Nobody saves: the process ends right after it has answered.
    let first = build();
    first.persist_all(&records(0..300)).await.unwrap();
    drop(first);
    let second = build();
    assert_eq!(second.waiting(), 300);
    stand.engine.persist(&second, WatchOptions::default());
    second.idle().await;
    assert_eq!(stand.saved().await, 300);
    stand.stop().await;
    drop(second);
    assert_eq!(journal(folder.path()).stats().records, 0, "and is not saved once more");
}

/// A sink that can be away, and remembers in which order it was given what.
#[derive(Default)]
struct Switched {
    away: AtomicBool,
    keys: Mutex<Vec<String>>,
}

#[async_trait]
impl Sink for Switched {
    async fn save(&self, records: &[Record]) -> Result<Vec<(usize, Failure)>, Failure> {
        if self.away.load(Ordering::Relaxed) {
            return Err(Failure::transient("Away", "nobody answers"));
        }
        self.keys.lock().unwrap().extend(records.iter().map(|record| record.key.clone()));
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn events_are_saved_in_the_order_in_which_they_were_accepted_whatever_happens() {
    for durability in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let stand = Stand::without_tables(testkit::sqlite(), quick());
        let sink = Arc::new(Switched::default());
        let persister = Persister::builder(sink.clone(), stand.failed.clone())
            .journaling(journal(folder.path()), durability)
            .build(PersistOptions { batch_size: 7, ..quick() });
        stand.engine.persist(&persister, WatchOptions::default());
        for n in 0..600 {
            sink.away.store(n / 100 % 2 == 1, Ordering::Relaxed);
            persister.persist(&record(&format!("{n}"), "v")).await.unwrap();
            if n % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        sink.away.store(false, Ordering::Relaxed);
        persister.idle().await;
        let expected: Vec<_> = (0..600).map(|n| n.to_string()).collect();
        assert_eq!(*sink.keys.lock().unwrap(), expected, "{durability:?}");
        stand.stop().await;
    }
}

/// Remembers what people would be told.
#[derive(Default)]
struct Told {
    moves: Mutex<Vec<(Rung, Rung)>>,
    dropped: Mutex<Vec<u64>>,
    letters: Mutex<Vec<String>>,
}

impl AlertService for Told {
    fn dead_letter(&self, letter: DeadLetterAlert) {
        self.letters.lock().unwrap().push(letter.error.to_string());
    }

    fn unresolved(&self, _: Level) {}

    fn ladder_moved(&self, moved: LadderMoved) {
        self.moves.lock().unwrap().push((moved.from, moved.to));
    }

    fn dropped(&self, dropped: Dropped) {
        self.dropped.lock().unwrap().push(dropped.events);
    }
}

#[tokio::test]
async fn with_a_full_disk_events_are_held_then_refused_and_nothing_accepted_is_lost() {
    for durability in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let small = JournalOptions { segment_size: 2_000, max_size: 8_000, ..JournalOptions::default() };
        let stand = Stand::without_tables(testkit::sqlite(), quick());
        let (sink, told) = (Arc::new(Switched::default()), Arc::new(Told::default()));
        sink.away.store(true, Ordering::Relaxed);
        let persister = Persister::builder(sink.clone(), stand.failed.clone())
            .journaling(Journal::open(folder.path(), small).unwrap(), durability)
            .alerting(told.clone())
            .build(PersistOptions { queue: 50, batch_size: 10, ..quick() });
        stand.engine.persist(&persister, WatchOptions::default());
        let mut accepted = Vec::new();
        let refusal = loop {
            let key = accepted.len().to_string();
            match persister.persist(&record(&key, &"x".repeat(100))).await {
                Ok(()) => accepted.push(key),
                Err(refusal) => break refusal,
            }
            assert!(accepted.len() < 1_000, "it must end");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert!(matches!(refusal, NotAccepted::Full { .. } | NotAccepted::Disk(_)), "{refusal:?}");
        let lowest = if durability == Durability::Memory { Rung::Nowhere } else { Rung::Disk };
        stands_on(&persister, lowest).await;
        sink.away.store(false, Ordering::Relaxed);
        persister.idle().await;
        assert_eq!(*sink.keys.lock().unwrap(), accepted, "{durability:?}");
        persister.persist(&record("again", "1")).await.unwrap();
        persister.idle().await;
        stand.stop().await;
        assert!(told.dropped.lock().unwrap().is_empty());
        let moves = told.moves.lock().unwrap();
        assert_eq!((moves[0].0, moves[0].1), (Rung::Target, Rung::Disk), "{moves:?}");
        assert_eq!(moves.last().unwrap().1, Rung::Target, "{moves:?}");
        assert!(moves.windows(2).all(|pair| pair[0].1 == pair[1].0), "{moves:?}");
    }
}

async fn stop_while_all_is_away(journal: Option<Journal>, told: &Arc<Told>) {
    let stand = Stand::without_tables(testkit::sqlite(), quick());
    let sink = Arc::new(Switched::default());
    sink.away.store(true, Ordering::Relaxed);
    let mut builder = Persister::builder(sink, stand.failed.clone()).alerting(told.clone());
    if let Some(journal) = journal {
        builder = builder.journaling(journal, Durability::Memory);
    }
    let options = PersistOptions { batch_size: 10, grace: Duration::from_millis(300), ..quick() };
    let persister = builder.build(options);
    persister.persist_all(&records(0..25)).await.unwrap();
    stand.engine.persist(&persister, WatchOptions::default());
    stand.engine.stop().await;
}

#[tokio::test]
async fn a_stop_leaves_on_disk_what_nobody_takes() {
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    stop_while_all_is_away(Some(journal(folder.path())), &told).await;
    assert!(told.dropped.lock().unwrap().is_empty());
    let sink = Arc::new(Switched::default());
    let stand = Stand::without_tables(testkit::sqlite(), quick());
    let persister = Persister::<Record>::builder(sink.clone(), stand.failed.clone())
        .journaling(journal(folder.path()), Durability::Memory)
        .build(quick());
    assert_eq!(persister.waiting(), 25);
    let engine = Engine::new();
    engine.persist(&persister, WatchOptions::default());
    persister.idle().await;
    let expected: Vec<_> = (0..25).map(|n| format!("k{n}")).collect();
    assert_eq!(*sink.keys.lock().unwrap(), expected);
    engine.stop().await;
}

#[tokio::test]
async fn without_a_disk_a_stop_drops_counts_and_tells() {
    let told = Arc::new(Told::default());
    stop_while_all_is_away(None, &told).await;
    assert_eq!(told.dropped.lock().unwrap().iter().sum::<u64>(), 25);
}

/// 100 kB are too long for the failed events, as they are for the founding table on MariaDB.
async fn make_small(stand: &Stand) {
    let small = match stand.database.backend {
        Backend::Sqlite => {
            "CREATE TRIGGER small BEFORE INSERT ON failed_events WHEN length(NEW.long_url) > 65535
             BEGIN SELECT RAISE(ABORT, 'too long'); END"
        }
        Backend::Postgres => "ALTER TABLE failed_events ALTER COLUMN long_url TYPE VARCHAR(65535)",
        Backend::MySql => "ALTER TABLE failed_events MODIFY long_url TEXT NOT NULL",
    };
    stand.client().await.run(small).await;
}

async fn make_large(stand: &Stand) {
    let large = match stand.database.backend {
        Backend::Sqlite => "DROP TRIGGER small",
        Backend::Postgres => "ALTER TABLE failed_events ALTER COLUMN long_url TYPE TEXT",
        Backend::MySql => "ALTER TABLE failed_events MODIFY long_url MEDIUMTEXT NOT NULL",
    };
    stand.client().await.run(large).await;
}

/// It was tried again for ever, and nothing behind it was saved.
#[tokio::test]
async fn an_event_that_no_table_can_hold_stays_on_disk_alone_until_one_can() {
    for durability in BOTH {
        for database in testkit::backends(file!()).await {
            let folder = tempfile::tempdir().unwrap();
            let (stand, told) = (Stand::new(database, quick()).await, Arc::new(Told::default()));
            make_small(&stand).await;
            stand.target.save(&[record("taken", "first")]).await.unwrap();
            let persister = Persister::builder(stand.target.clone(), stand.failed.clone())
                .journaling(journal(folder.path()), durability)
                .alerting(told.clone())
                .build(quick());
            stand.engine.persist(&persister, WatchOptions::default());
            let mut batch = records(0..20);
            batch[7] = record("taken", &"x".repeat(100_000));
            batch[9] = record("taken", "second");
            persister.persist_all(&batch).await.unwrap();
            persister.persist_all(&records(20..30)).await.unwrap();
            eventually("the healthy ones are saved", async || stand.saved().await == 29).await;
            let buried = "SELECT count(*) FROM failed_events";
            let mut client = stand.client().await;
            eventually("so is the other poison", async || client.number(buried).await == 1).await;
            let is_told =
                |text: &String| text.contains("cannot hold it") && text.contains("stays in the journal");
            eventually("people know", async || told.letters.lock().unwrap().iter().any(is_told)).await;
            let health = &persister.pipeline().health;
            let is_reported = |trouble: Trouble| trouble.reason == Reason::TableRefused;
            eventually("readiness knows", async || health.get().is_err_and(is_reported)).await;
            make_large(&stand).await;
            eventually("and it is buried when it can be", async || client.number(buried).await == 2).await;
            persister.idle().await;
            eventually("readiness knows that, too", async || health.get().is_ok()).await;
            stand.stop().await;
            drop(persister);
            assert_eq!(journal(folder.path()).stats().records, 0, "{durability:?}");
        }
    }
}

#[tokio::test]
async fn without_a_disk_an_event_that_no_table_can_hold_is_dropped_and_told() {
    let (stand, told) = (Stand::new(testkit::sqlite(), quick()).await, Arc::new(Told::default()));
    make_small(&stand).await;
    stand.target.save(&[record("taken", "first")]).await.unwrap();
    let persister =
        Persister::builder(stand.target.clone(), stand.failed.clone()).alerting(told.clone()).build(quick());
    stand.engine.persist(&persister, WatchOptions::default());
    persister.persist_all(&[record("taken", &"x".repeat(100_000)), record("good", "1")]).await.unwrap();
    persister.idle().await;
    assert_eq!(stand.saved().await, 2);
    assert_eq!(*told.dropped.lock().unwrap(), [1]);
    stand.stop().await;
}

#[tokio::test]
async fn a_journal_that_lacks_events_is_told() {
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    let stand = Stand::without_tables(testkit::sqlite(), quick());
    let small = JournalOptions { segment_size: 100, ..JournalOptions::default() };
    let build = || {
        Persister::<Record>::builder(stand.target.clone(), stand.failed.clone())
            .journaling(Journal::open(folder.path(), small).unwrap(), Durability::Journal)
            .alerting(told.clone())
            .build(quick())
    };
    let persister = build();
    for record in records(0..20) {
        persister.persist(&record).await.unwrap();
    }
    drop(persister);
    std::fs::remove_file(folder.path().join("00000000000000000003.journal")).unwrap();
    build();
    assert_eq!(*told.dropped.lock().unwrap(), [2], "two in each file");
}
