//! The ingest pipeline in one process: what it accepts, where it goes, and what it never loses.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod counters;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use counters::Counters;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use redrive_core::books::Balance;
use redrive_core::dead_letter::{Filter, Operator, Order, Outcome, Page, RedeliveryState, Refusal, Status};
use redrive_engine::alerts::{
    AlertService, DeadLetterAlert, Dropped, HandlerDown, HandlerUp, Level, Silence,
};
use redrive_engine::console::{self, Action, Console, Desk, Records, Runner};
use redrive_engine::ingest::{Ingest, IngestOptions, NotAccepted, WhenFull};

use redrive_spool::filesystem::{Disk, Filesystem};
use redrive_spool::model::ModelDisk;
use redrive_spool::spool::{Inspection, Meta, OnFull, inspect};
use redrive_spool::target::Patience;
use redrive_spool::{Batch, Journal, JournalOptions, Target};
use redrive_store::{Database, OperationState};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A pipeline on folders: a store that can be taken away, a spool, perhaps a journal.
struct Stand {
    folder: TempDir,
    ingest: Arc<Ingest>,
    stop: CancellationToken,
    running: JoinHandle<()>,
    alerts: Arc<Heard>,
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl AlertService for Heard {
    fn dead_letter(&self, letter: DeadLetterAlert) {
        self.0.lock().unwrap().push(letter.event_type.to_string());
        self.0.lock().unwrap().push(letter.error.to_string());
    }
    fn unresolved(&self, _: Level) {}
    fn handler_down(&self, down: HandlerDown) {
        self.0.lock().unwrap().push(format!("{} down", down.handler));
    }
    fn dropped(&self, dropped: Dropped) {
        let Dropped { events, files, why, .. } = dropped;
        self.0.lock().unwrap().push(format!("{events} events in {files} files lost: {why}"));
    }
    fn handler_up(&self, up: HandlerUp) {
        self.0.lock().unwrap().push(format!("{} up", up.handler));
    }
}

impl Heard {
    /// Whether events were reported as lost, and this was said of it.
    fn has_lost(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|heard| heard.contains(" lost: ") && heard.contains(what))
    }

    fn contains(&self, alert: &str) -> bool {
        self.count(alert) > 0
    }

    fn count(&self, alert: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| *heard == alert).count()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Durability {
    Journal,
    Memory,
}

fn options(folder: &Path, durability: Durability) -> IngestOptions {
    let mut options = IngestOptions::new(folder);
    options.max_delay = Duration::from_millis(10);
    options.recovery_interval = Duration::from_millis(10);
    options.grace = Duration::from_secs(2);
    if durability == Durability::Memory {
        options.journal = None;
    }
    options
}

fn target(folder: &Path) -> Target {
    let address = format!("file://{}", folder.join("store").display());
    Target::open(&address, "RAW", "RAW_DLQ", &Patience::default()).unwrap()
}

impl Stand {
    fn new(durability: Durability) -> Self {
        Self::with(durability, |_| {})
    }

    fn with(durability: Durability, change: impl FnOnce(&mut IngestOptions)) -> Self {
        Self::on(Arc::new(Disk), durability, change)
    }

    fn on(
        filesystem: Arc<dyn Filesystem>,
        durability: Durability,
        change: impl FnOnce(&mut IngestOptions),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let alerts = Arc::new(Heard::default());
        let mut options = options(folder.path(), durability);
        change(&mut options);
        let target = target(folder.path());
        let ingest = Ingest::open_on(filesystem, "events", options, target, alerts.clone()).unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(Arc::clone(&ingest).run(stop.clone()));
        Self { folder, ingest, stop, running, alerts }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A file where a folder was: whatever is written there fails.
    fn take_away(&self, name: &str) {
        fs::rename(self.path(name), self.path(&format!("{name}-away"))).unwrap();
        fs::write(self.path(name), "").unwrap();
    }

    fn give_back(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
        fs::rename(self.path(&format!("{name}-away")), self.path(name)).unwrap();
    }

    async fn accept(&self, line: &str) {
        self.ingest.accept(Bytes::from(format!("{line}\n")), 1).await.unwrap();
    }

    fn stored(&self) -> u64 {
        events(&self.path("store/RAW"))
    }

    async fn balance(&self) -> Balance {
        self.ingest.letters().balance().await.unwrap()
    }

    async fn end(self) -> TempDir {
        self.stop.cancel();
        self.running.await.unwrap();
        self.folder
    }
}

fn events(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let files = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files
        .map(|data| match inspect(&data, &Meta::unknown()) {
            Inspection::Sound { events } => events,
            Inspection::Damaged { .. } => 0,
        })
        .sum()
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    redrive_testkit::eventually(redrive_testkit::PATIENCE, what, async || holds()).await;
}

#[tokio::test]
async fn events_are_in_the_store_after_the_delay() {
    for durability in [Durability::Journal, Durability::Memory] {
        let stand = Stand::new(durability);
        stand.accept("{\"a\":1}").await;
        stand.accept("{\"b\":2}").await;
        eventually("stored", || stand.stored() == 2).await;
        eventually("settled", || stand.ingest.status().backlog == 0).await;
        assert!(stand.alerts.0.lock().unwrap().is_empty());
        stand.end().await;
    }
}

#[tokio::test]
async fn while_the_store_is_away_batches_wait_on_disk_and_drain_when_it_is_back() {
    let stand = Stand::new(Durability::Memory);
    stand.take_away("store");
    for number in 0..10 {
        stand.accept(&format!("{{\"number\":{number}}}")).await;
        eventually("saved", || stand.ingest.status().backlog == 0).await;
    }
    let status = stand.ingest.status();
    assert!(status.spool.files > 0 && status.store_down.is_some());
    assert!(stand.alerts.contains("store down"));
    stand.give_back("store");
    eventually("drained", || stand.ingest.status().spool.files == 0).await;
    assert_eq!(stand.stored(), 10);
    eventually("told", || stand.alerts.contains("store up")).await;
    stand.end().await;
}

/// Recovery waits for a moment without uploads, and under load there is none: for 40 s nobody asked a store
/// that had been back all the while, and accepted events were evicted.
#[tokio::test]
async fn under_a_steady_load_a_live_batch_notices_that_the_store_is_back() {
    let stand = Stand::with(Durability::Memory, |options| {
        // No moment without uploads.
        options.recovery_interval = Duration::from_secs(3600);
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    stand.take_away("store");
    stand.accept("{\"first\":1}").await;
    eventually("saved", || stand.ingest.status().spool.files == 1).await;
    stand.give_back("store");
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "noticed", async || {
        stand.accept("{\"next\":1}").await;
        stand.ingest.status().store_down.is_none()
    })
    .await;
    assert!(stand.alerts.contains("store up"));
    stand.end().await;
}

/// A good file with a name that the store has no room for: every live batch went to disk, though the store
/// was healthy.
#[tokio::test]
async fn one_file_that_the_store_cannot_take_stops_nobody() {
    let stand = Stand::with(Durability::Memory, |options| {
        let name = format!("1700000000_{}_000001.jsonl.gz", "x".repeat(228));
        let batch = Batch::compress(&[Bytes::from("{\"long\":1}\n")]).unwrap();
        options.spool_options.max_age = Duration::MAX;
        fs::create_dir_all(&options.spool).unwrap();
        let path = options.spool.join(name);
        fs::write(&path, batch.data).unwrap();
        // Nobody writes to it any more.
        fs::File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
    });
    let mut sent = 0;
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "the file was found out", async || {
        stand.accept("{\"live\":1}").await;
        sent += 1;
        stand.alerts.contains("file refused")
    })
    .await;
    for _ in 0..20 {
        stand.accept("{\"live\":1}").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let status = stand.ingest.status();
        assert_eq!(status.store_down, None);
    }
    eventually("all of them are safe", || stand.ingest.status().backlog == 0).await;
    eventually("it waits alone", || stand.ingest.status().spool.files == 1).await;
    assert_eq!(stand.stored(), sent + 20);
    assert_eq!(stand.alerts.count("file refused"), 1);
    assert!(stand.alerts.count("store down") <= 1, "before anybody knew better");
    stand.end().await;
}

/// Whether or not it is time: nothing is deleted while nobody knows whether the store is back.
#[tokio::test(start_paused = true)]
async fn before_a_file_is_evicted_the_store_is_asked() {
    let stand = Stand::with(Durability::Memory, |options| {
        options.recovery_interval = Duration::from_secs(3600);
        options.spool_options.max_size = 150;
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    stand.take_away("store");
    // It fails again and again: then it is asked once in 15 s.
    for number in 0..200 {
        // Until the store is away beyond doubt, nothing makes room, and senders wait.
        let _ = stand.ingest.accept(Bytes::from(format!("{{\"number\":{number}}}\n")), 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(stand.alerts.has_lost("its oldest files made room"), "there is room for one file only");
    eventually("saved", || stand.ingest.status().backlog == 0).await;
    let evicted = stand.balance().await.expired;
    stand.give_back("store");
    tokio::time::sleep(Duration::from_secs(1)).await;
    stand.accept("{\"last\":1}").await;
    eventually("stored", || stand.stored() >= 1).await;
    assert_eq!(stand.balance().await.expired, evicted);
    stand.end().await;
}

/// What was rescued from it was in the store, and nobody had delivered it.
#[tokio::test]
async fn what_is_rescued_from_a_damaged_file_counts_as_delivered() {
    let counters = Counters::default();
    let stand = metrics::with_local_recorder(&counters, || {
        Stand::with(Durability::Memory, |options| {
            let batch = Batch::compress(&[Bytes::from("{\"a\":1}\nnot json\n{\"b\":2}\n")]).unwrap();
            options.spool_options.max_age = Duration::MAX;
            fs::create_dir_all(&options.spool).unwrap();
            let path = options.spool.join("1700000000_x_000001.jsonl.gz");
            fs::write(&path, batch.data).unwrap();
            // Nobody writes to it any more.
            fs::File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        })
    });
    eventually("set aside", || stand.alerts.contains("file damaged")).await;
    let delivered = counters.get("redrive_events_total events  delivered");
    assert_eq!((delivered, stand.stored()), (2, 2));
    stand.end().await;
}

/// The founding behaviour: without a journal, what neither store nor disk takes is dropped, and told.
#[tokio::test]
async fn from_memory_a_batch_that_nobody_takes_is_dropped_and_told() {
    let stand = Stand::new(Durability::Memory);
    stand.take_away("store");
    stand.take_away("spool");
    stand.accept("{}").await;
    eventually("dropped", || stand.alerts.has_lost("neither the store nor the disk")).await;
    assert!(stand.ingest.status().nowhere.is_some());
    eventually("room is free again", || stand.ingest.status().backlog == 0).await;
    stand.end().await;
}

#[tokio::test]
async fn with_a_journal_a_batch_that_nobody_takes_is_kept_until_somebody_does() {
    let stand = Stand::new(Durability::Journal);
    stand.take_away("store");
    stand.take_away("spool");
    stand.accept("{}").await;
    eventually("the store was asked", || stand.alerts.contains("store down")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let status = stand.ingest.status();
    assert_eq!(status.backlog, 1);
    assert!(status.nowhere.is_some(), "an outage of both is no state to be ready in");
    assert!(!stand.alerts.has_lost(""));
    stand.give_back("spool");
    eventually("saved", || stand.ingest.status().backlog == 0).await;
    stand.give_back("store");
    eventually("stored", || stand.stored() == 1).await;
    eventually("it is over", || stand.ingest.status().nowhere.is_none()).await;
    stand.end().await;
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_body_as_large_as_the_queue_passes_when_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), Durability::Memory);
    options.queue = 10 << 10;
    // Nobody works: nothing leaves the queue.
    let ingest = Ingest::open("events", options, target(folder.path()), Arc::new(Silence)).unwrap();
    let large = Bytes::from(vec![b' '; 20 << 10]);
    ingest.accept(large.clone(), 1).await.unwrap();
    let refused = ingest.accept(Bytes::from("{}\n"), 1).await.unwrap_err();
    assert!(matches!(refused, NotAccepted::QueueFull), "{refused}");
}

#[tokio::test]
async fn on_pause_senders_wait_while_store_and_spool_take_nothing_and_nothing_is_deleted() {
    for durability in [Durability::Journal, Durability::Memory] {
        let stand = Stand::with(durability, |options| {
            options.on_full = WhenFull::Pause;
            options.queue = 1;
            options.spool_options.on_full = OnFull::Refuse;
            options.spool_options.max_size = 1;
        });
        stand.take_away("store");
        stand.accept("{\"number\":1}").await;
        let ingest = Arc::clone(&stand.ingest);
        let waiting = tokio::spawn(async move { ingest.accept(Bytes::from("{\"number\":2}\n"), 1).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished(), "whoever sends waits");
        stand.give_back("store");
        waiting.await.unwrap().unwrap();
        eventually("stored", || stand.stored() == 2).await;
        assert!(!stand.alerts.has_lost(""));
        stand.end().await;
    }
}

#[tokio::test]
async fn at_the_stop_what_is_in_memory_is_stored_and_nobody_is_accepted_any_more() {
    let stand = Stand::new(Durability::Memory);
    stand.accept("{\"last\":1}").await;
    let ingest = Arc::clone(&stand.ingest);
    let folder = stand.end().await;
    assert_eq!(events(&folder.path().join("store/RAW")), 1);
    assert!(matches!(ingest.accept("{}\n".into(), 1).await, Err(NotAccepted::Stopping)));
}

/// They were gone without a word, and the log spoke of a journal that was not there.
#[tokio::test]
async fn from_memory_what_nobody_took_before_the_stop_is_counted_and_told() {
    let stand = Stand::with(Durability::Memory, |options| {
        options.on_full = WhenFull::Reject;
        options.grace = Duration::from_millis(50);
    });
    stand.take_away("store");
    stand.take_away("spool");
    stand.ingest.accept(Bytes::from("{}\n{}\n{}\n"), 3).await.unwrap();
    let (alerts, queue) = (Arc::clone(&stand.alerts), stand.ingest.letters());
    stand.end().await;
    let books = queue.balance().await.unwrap();
    assert_eq!((books.dropped, books.gap()), (3, 0));
    let heard = alerts.0.lock().unwrap();
    assert!(heard.iter().any(|alert| alert.starts_with("3 events in 1 files lost: ")), "{heard:?}");
}

#[tokio::test]
async fn what_was_in_the_journal_at_the_end_is_delivered_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = options(folder.path(), Durability::Journal);
        Ingest::open("events", options, target(folder.path()), Arc::new(Silence)).unwrap()
    };
    let ingest = open();
    for number in 0..50 {
        ingest.accept(format!("{{\"number\":{number}}}\n").into(), 1).await.unwrap();
    }
    drop(ingest);
    let ingest = open();
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&ingest).run(stop.clone()));
    eventually("stored", || events(&folder.path().join("store/RAW")) == 50).await;
    stop.cancel();
    running.await.unwrap();
    drop(ingest);
    let ingest = open();
    assert_eq!(ingest.status().backlog, 0);
}

/// The record was in the journal and nowhere else: its segment and all later ones stayed for ever, and in
/// the end everybody was refused.
#[tokio::test]
async fn what_a_sender_that_hung_up_left_in_the_journal_is_delivered() {
    let disk = ModelDisk::default();
    let stand = Stand::on(Arc::new(disk.clone()), Durability::Journal, |_| {});
    let held = disk.hold_syncs();
    let mut accepting = Box::pin(stand.ingest.accept(Bytes::from("{\"hung\":\"up\"}\n"), 1));
    assert!((&mut accepting).now_or_never().is_none(), "it waits for the disk");
    let held = tokio::task::spawn_blocking(|| {
        held.wait_for_one();
        held
    });
    let held = held.await.unwrap();
    drop(accepting);
    drop(held);
    eventually("stored", || stand.stored() == 1).await;
    eventually("acknowledged", || stand.ingest.status().backlog == 0).await;
    stand.end().await;
}

#[tokio::test]
async fn a_full_journal_is_told_once_and_when_it_is_over() {
    let stand = Stand::with(Durability::Journal, |options| {
        let journal = JournalOptions { max_size: 10 << 10, ..JournalOptions::default() };
        options.journal = options.journal.take().map(|(dir, _)| (dir, journal));
    });
    for _ in 0..3 {
        let refused = stand.ingest.accept(Bytes::from(vec![b' '; 20 << 10]), 1).await.unwrap_err();
        assert!(matches!(refused, NotAccepted::DiskFull(_)), "{refused}");
    }
    assert_eq!(stand.alerts.count("journal down"), 1);
    stand.accept("{}").await;
    assert_eq!(stand.alerts.count("journal up"), 1);
    stand.end().await;
}

/// Back to an older version, and forward again: what the newer one had answered for was acknowledged by the
/// older one, which could not read it.
#[tokio::test]
async fn a_record_of_a_later_version_stays_in_the_journal() {
    let stand = Stand::with(Durability::Journal, |options| {
        let (dir, journal) = options.journal.clone().unwrap();
        let journal = Journal::open(&dir, journal).unwrap();
        let later = std::thread::spawn(move || journal.append_blocking(vec!["?of tomorrow".into()]));
        later.join().unwrap().unwrap();
    });
    stand.accept("{}").await;
    eventually("stored", || stand.stored() == 1).await;
    let dir = stand.path("journal");
    let folder = stand.end().await;
    redrive_testkit::eventually(redrive_testkit::PATIENCE, "closed", async || {
        Journal::open(&dir, JournalOptions::default()).is_ok()
    })
    .await;
    let journal = Journal::open(&dir, JournalOptions::default()).unwrap();
    let left = journal.reader().next(10, 1_000).await.unwrap();
    assert_eq!(left.iter().map(|record| &record.payload[..]).collect::<Vec<_>>(), [b"?of tomorrow"]);
    drop(folder);
}

/// A page of the console took 47 s with 300,000 files: each count made a letter of every one of them.
#[tokio::test]
async fn many_files_are_counted_without_looking_at_each() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), Durability::Memory);
    fs::create_dir_all(&options.spool).unwrap();
    let (files, start) = (30_000, Timestamp::now().as_second() - 20_000);
    let name = |number: i64| format!("{}_x_{number:06}.jsonl.gz", start + number / 2);
    for number in 0..files {
        fs::File::create(options.spool.join(name(number))).unwrap();
    }
    let ingest = Ingest::open("events", options, target(folder.path()), Arc::new(Silence)).unwrap();
    let queue = ingest.letters();
    let at = |second: i64| Some(Timestamp::from_millisecond((start + second) * 1000 + 500).unwrap());
    let of = |text: &str| Some(text.to_owned());
    let group = queue.groups(1).await.unwrap()[0].fingerprint;
    let begun = std::time::Instant::now();
    for (filter, expected) in [
        (Filter::default(), files as u64),
        (Filter { group: Some(group), ..Filter::default() }, files as u64),
        (Filter { event_type: of("batch"), since: at(9), ..Filter::default() }, files as u64 - 20),
        (Filter { since: at(9), until: at(11), ..Filter::default() }, 4),
        (Filter { until: at(9), ..Filter::default() }, 20),
        (Filter { key: of(&name(3)), ..Filter::default() }, 1),
        (Filter { key: of(&name(3)), since: at(9), ..Filter::default() }, 0),
        (Filter { key: of("x"), ..Filter::default() }, 0),
        (Filter { event_type: of("x"), ..Filter::default() }, 0),
        (Filter { text: of("nothing like it"), ..Filter::default() }, 0),
    ] {
        for _ in 0..10 {
            assert_eq!(queue.count(&filter).await.unwrap(), expected, "{filter:?}");
        }
        let page = queue.list(&filter, Page::first(50)).await.unwrap();
        assert_eq!(page.letters.len() as u64, expected.min(50), "{filter:?}");
        let ids = queue.ids(&filter, None, 50).await.unwrap();
        assert_eq!(ids.ids.len() as u64, expected.min(50), "{filter:?}");
    }
    let arrived = queue.arrivals(at(9).unwrap()).await.unwrap();
    assert_eq!(arrived.iter().map(|hour| hour.count).sum::<u64>(), files as u64 - 20);
    // It was four minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// The event was gone, and nobody heard of it.
#[tokio::test]
async fn a_journal_that_was_emptied_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let alerts = Arc::new(Heard::default());
    let open = || {
        let options = options(folder.path(), Durability::Journal);
        Ingest::open("events", options, target(folder.path()), alerts.clone()).unwrap()
    };
    open().accept("{}\n".into(), 1).await.unwrap();
    fs::write(folder.path().join("journal/00000000000000000001.journal"), "").unwrap();
    assert!(alerts.0.lock().unwrap().is_empty());
    open();
    let heard = alerts.0.lock().unwrap();
    assert!(heard.len() == 2 && heard[0].contains("a file of it is empty"), "{heard:?}");
    assert!(
        heard[1].starts_with("1 events in 0 files lost: ") && heard[1].contains("records 1 to 1"),
        "{heard:?}"
    );
}

/// Files that wait are letters like any other: listed, shown, redriven out of turn, given up.
#[tokio::test]
async fn files_that_wait_are_dead_letters() {
    let stand = Stand::new(Durability::Memory);
    let queue = stand.ingest.letters();
    assert_eq!(queue.stats().await.unwrap().waiting(), 0);
    assert!(queue.groups(10).await.unwrap().is_empty());
    stand.take_away("store");
    for number in 0..9 {
        stand.accept(&format!("{{\"number\":{number}}}")).await;
        eventually("saved", || stand.ingest.status().backlog == 0).await;
    }
    let files = stand.ingest.status().spool.files;
    assert_eq!(files, 9, "each a file of its own");
    // Nobody but this test works on the files from here on.
    let Stand { folder, ingest, stop, running, .. } = stand;
    stop.cancel();
    running.await.unwrap();

    let (mut seen, mut page) = (Vec::new(), Page::first(4));
    loop {
        let listing = queue.list(&Filter::default(), page).await.unwrap();
        seen.extend(listing.letters);
        let Some(next) = listing.next else { break };
        page = page.after(next);
    }
    let names: BTreeSet<String> = seen.iter().map(|letter| letter.id.local.clone()).collect();
    assert_eq!((seen.len(), names.len()), (9, 9), "each once, though many are of the same second");
    let group = queue.groups(10).await.unwrap().remove(0);
    assert_eq!((group.count, group.fingerprint), (9, seen[0].fingerprint));
    let hour = Timestamp::now() - Duration::from_secs(3600);
    assert_eq!(queue.arrivals(hour).await.unwrap().iter().map(|one| one.count).sum::<u64>(), 9);
    let (mut frozen, mut after) = (Vec::new(), None);
    loop {
        let ids = queue.ids(&Filter::default(), after, 4).await.unwrap();
        frozen.extend(ids.ids);
        after = ids.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(frozen.iter().cloned().collect::<BTreeSet<_>>(), names);
    let first = &frozen[..1];
    let letter = queue.get(&first[0]).await.unwrap().unwrap();
    assert!(letter.payload.starts_with(b"{\"number\":"), "its lines are shown");

    let order = Order::new(&Operator::new("ops"), "once");
    let away = queue.redrive(first, &order).await;
    assert!(away.is_err(), "the store is still away, and that is no refusal: {away:?}");
    assert_eq!(queue.count(&Filter::default()).await.unwrap(), 9);
    fs::remove_file(folder.path().join("store")).unwrap();
    fs::rename(folder.path().join("store-away"), folder.path().join("store")).unwrap();
    assert_eq!(queue.redrive(first, &order).await.unwrap().done, first);
    assert_eq!(queue.outcomes(first).await.unwrap(), [Outcome::Delivered]);
    let uploaded = queue.get(&first[0]).await.unwrap().expect("a redriven file is shown, though it is gone");
    let after = uploaded.redelivery.unwrap();
    assert_eq!((uploaded.summary.status, after.state), (Status::Redriven, RedeliveryState::Delivered));
    assert!(after.at.is_some_and(|at| at >= hour), "{:?}", after.at);
    assert_eq!(queue.redrive(first, &order).await.unwrap().refused, [Refusal::Unknown(first[0].clone())]);
    let given_up = queue.resolve(&frozen[1..3], &Operator::new("ops"), "not worth it").await.unwrap();
    assert_eq!((given_up.done.len(), ingest.status().spool.files), (2, 6));
    let aside = folder.path().join("spool/.resolved");
    assert!(frozen[1..3].iter().all(|file| aside.join(file).exists()), "kept, though not uploaded");
    let resolved = queue.get(&frozen[1]).await.unwrap().expect("a resolved file is shown");
    assert_eq!((resolved.summary.status, resolved.redelivery), (Status::Resolved, None));
    assert_eq!(queue.get("1700000000_nobody-1_000001.jsonl.gz").await.unwrap(), None);
    assert_eq!(queue.groups(10).await.unwrap()[0].fingerprint, group.fingerprint, "whatever the store says");
    let out = ["../../etc/passwd".to_owned(), "/etc/passwd".to_owned()];
    assert_eq!(queue.resolve(&out, &Operator::new("ops"), "").await.unwrap().refused.len(), 2);
    assert!(queue.get("../spool").await.unwrap().is_none());
    assert_eq!(events(&folder.path().join("store/RAW")), 1);
    let books = queue.balance().await.unwrap();
    assert_eq!((books.accepted, books.delivered, books.open, books.resolved), (9, 1, 6, 2));
    assert_eq!(books.gap(), 0);
}

/// The first file was uploaded and gone, so the same order found it unknown once the store was back.
#[tokio::test]
async fn an_order_that_the_store_interrupts_counts_each_file_once_and_payloads_are_whole() {
    let stand = Stand::new(Durability::Memory);
    let queue = stand.ingest.letters();
    stand.take_away("store");
    let large = format!("{{\"large\":\"{}\"}}", "x".repeat(2 << 20));
    for line in ["{}", large.as_str()] {
        stand.accept(line).await;
        eventually("saved", || stand.ingest.status().backlog == 0).await;
    }
    let Stand { folder, stop, running, .. } = stand;
    stop.cancel();
    running.await.unwrap();
    let ids = queue.ids(&Filter::default(), None, 10).await.unwrap().ids;
    let mut payloads = Vec::new();
    for id in &ids {
        payloads.push(queue.get(id).await.unwrap().unwrap().payload.len());
    }
    assert_eq!(payloads.iter().max(), Some(&(large.len() + 1)), "the large one is not cut");

    let store = folder.path().join("store");
    fs::remove_file(&store).unwrap();
    fs::rename(folder.path().join("store-away"), &store).unwrap();
    // A folder where the second object belongs: the store takes the first one only.
    let blocked = store.join("RAW").join(&ids[1]);
    fs::create_dir_all(blocked.join("in the way")).unwrap();
    let order = Order::new(&Operator::new("ops"), "operation 1");
    let away = queue.redrive(&ids, &order).await;
    assert!(away.is_err(), "{away:?}");
    fs::remove_dir_all(&blocked).unwrap();
    let acted = queue.redrive(&ids, &order).await.unwrap();
    assert_eq!((acted.before, acted.done, acted.refused), (ids[..1].to_vec(), ids[1..].to_vec(), vec![]));
}

/// A store that is away is no refusal: the operation says what it waits for, and goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_waits_for_a_store_that_is_away_and_goes_on() {
    let stand = Stand::new(Durability::Memory);
    let queue = stand.ingest.letters();
    stand.take_away("store");
    for number in 0..3 {
        stand.accept(&format!("{{\"number\":{number}}}")).await;
        eventually("saved", || stand.ingest.status().backlog == 0).await;
    }
    // Nobody but the operation works on the files from here on.
    let Stand { folder, stop, running, .. } = stand;
    stop.cancel();
    running.await.unwrap();

    let ledger = redrive_testkit::sqlite();
    let records = Records::of(&Database::connect(&ledger.url).await.unwrap());
    records.migrate().await.unwrap();
    let console = Arc::new(Console::new(records, [Desk { queue, workers: None }]));
    let filter = Filter { pipeline: Some("events".into()), ..Filter::default() };
    let request = console::Request::new(Action::Redrive, filter);
    let id = console.start(&request, &Operator::new("ops"), None).await.unwrap().id;
    let stop = CancellationToken::new();
    let runner = tokio::spawn(Runner::new(Arc::clone(&console)).run(stop.clone()));
    let now = || async { console.operation(id).await.unwrap() };
    let patience = Duration::from_secs(30);
    let waits = || async { now().await.reason.contains("waiting: ") };
    redrive_testkit::eventually(patience, "it says what it waits for", waits).await;
    assert_eq!((now().await.state, now().await.refused), (OperationState::Running, 0));
    let store = folder.path().join("store");
    fs::remove_file(&store).unwrap();
    fs::rename(folder.path().join("store-away"), &store).unwrap();
    let ended = || async { now().await.state == OperationState::Finished };
    redrive_testkit::eventually(patience, "it is finished", ended).await;
    let ended = now().await;
    assert_eq!((ended.total, ended.done, ended.refused, ended.reason.as_str()), (3, 3, 0, ""));
    stop.cancel();
    runner.await.unwrap();
}
