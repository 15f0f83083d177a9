//! Recovery of an ingest pipeline: what waits on disk under load, while the store hangs, when it is full or too old.
//! The store is one in memory that is slow, hangs or fails as told; the time is paused.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod counters;

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use counters::Counters;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use redrive_engine::alerts::{AlertService, DeadLetterAlert, Dropped, Level};
use redrive_engine::ingest::{Ingest, IngestOptions, NotAccepted};
use redrive_spool::{Batch, Target};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How a store behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// It answers after so long.
    Up(Duration),
    /// It says so at once.
    Down,
    /// It fails after so long.
    Hangs(Duration),
}

/// A store in memory that behaves as told.
#[derive(Debug)]
struct FaultyStore {
    inner: InMemory,
    mode: Mutex<Mode>,
    /// Uploads that have no answer yet.
    waiting: AtomicUsize,
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store with faults")
    }
}

/// An upload that has no answer yet.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FaultyStore {
    fn be(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn objects(&self) -> usize {
        self.inner.list(None).count().await
    }
}

fn away() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "as told".into() }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let mode = *self.mode.lock().unwrap();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        match mode {
            Mode::Up(delay) => tokio::time::sleep(delay).await,
            Mode::Down => return Err(away()),
            Mode::Hangs(delay) => {
                tokio::time::sleep(delay).await;
                return Err(away());
            }
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Dropped>>);

impl AlertService for Heard {
    fn dead_letter(&self, _: DeadLetterAlert) {}
    fn unresolved(&self, _: Level) {}
    fn dropped(&self, dropped: Dropped) {
        self.0.lock().unwrap().push(dropped);
    }
}

/// A pipeline on such a store.
struct Stand {
    _folder: TempDir,
    ingest: Arc<Ingest>,
    store: Arc<FaultyStore>,
    heard: Arc<Heard>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Stand {
    /// With so many files that wait, each of them so many seconds old.
    fn with(mode: Mode, files: u32, age: i64, change: impl FnOnce(&mut IngestOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = IngestOptions::new(folder.path());
        options.journal = None;
        change(&mut options);
        fs::create_dir_all(&options.spool).unwrap();
        let batch = Batch::compress(&[Bytes::from("{\"waits\":1}\n{\"waits\":2}\n")]).unwrap();
        for number in 0..files {
            let name = format!("{}_x_{number:06}.jsonl.gz", Timestamp::now().as_second() - age);
            let path = options.spool.join(name);
            fs::write(&path, &batch.data).unwrap();
            fs::write(format!("{}.meta.json", path.display()), serde_json::to_vec(&batch.meta).unwrap())
                .unwrap();
            // Nobody writes to it any more.
            fs::File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        let (heard, counters) = (Arc::new(Heard::default()), Arc::new(Counters::default()));
        let store = Arc::new(FaultyStore {
            inner: InMemory::new(),
            mode: Mutex::new(mode),
            waiting: AtomicUsize::new(0),
        });
        let target = Target::over(store.clone(), "", "RAW", "RAW_DLQ").unwrap();
        let ingest = metrics::with_local_recorder(&*counters, || {
            Ingest::open("events", options, target, heard.clone()).unwrap()
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(Arc::clone(&ingest).run(stop.clone()));
        Self { _folder: folder, ingest, store, heard, counters, stop, running }
    }

    fn files(&self) -> u64 {
        self.ingest.status().spool.files
    }

    async fn accept(&self) -> Result<(), NotAccepted> {
        self.ingest.accept(Bytes::from("{\"live\":1}\n"), 1).await
    }

    /// Sends 50 events a second until this holds.
    async fn under_load_until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..50 * 3_600 {
            if holds() {
                return;
            }
            let _ = self.accept().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not within an hour: {what}");
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..10 * 3_600 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not within an hour: {what}");
    }

    fn lost(&self, reason: &str) -> u64 {
        self.counters.get(&format!("redrive_events_lost_total events {reason}"))
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

const SLOW: Mode = Mode::Up(Duration::from_millis(1_500));
const UP: Mode = Mode::Up(Duration::ZERO);

/// 15 files stood still for 42 s while something was being uploaded, and then expired with 510 events.
#[tokio::test(start_paused = true)]
async fn under_a_steady_load_files_have_their_share_and_none_expires() {
    let stand = Stand::with(SLOW, 15, 1_000, |options| {
        options.spool_options.max_age = Duration::from_secs(500);
    });
    stand.under_load_until("all files are gone", || stand.files() == 0).await;
    assert_eq!((stand.lost("expired"), stand.lost("evicted")), (0, 0));
    assert_eq!(stand.counters.get("dlq_events_reuploaded_total events"), 30);
    assert!(stand.heard.0.lock().unwrap().is_empty());
    stand.end().await;
}

/// Files that have time take one upload in five.
#[tokio::test(start_paused = true)]
async fn the_share_of_young_files_is_small() {
    let stand = Stand::with(SLOW, 10, 0, |_| {});
    stand.under_load_until("all files are gone", || stand.files() == 0).await;
    let stored = stand.counters.get("s3_events_stored_total events");
    let live = stand.store.objects().await - 10;
    assert!(live >= 30, "{live} live batches went beside 10 files, with {stored} events");
    stand.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_files_expire_and_an_idle_pipeline_notices_that_it_is_back() {
    let stand = Stand::with(Mode::Down, 3, 1_000, |options| {
        options.spool_options.max_age = Duration::from_secs(500);
    });
    stand.until("all files expired", || stand.lost("expired") == 6).await;
    stand.until("told", || stand.ingest.status().store_down.is_some()).await;
    assert_eq!((stand.files(), stand.counters.get("dlq_files_expired_total events")), (0, 3));
    stand.store.be(UP);
    stand.until("noticed", || stand.ingest.status().store_down.is_none()).await;
    let told: (u64, u64) = stand
        .heard
        .0
        .lock()
        .unwrap()
        .iter()
        .fold((0, 0), |sum, lost| (sum.0 + lost.events, sum.1 + lost.files));
    assert_eq!(told, (6, 3));
    assert_eq!(stand.store.objects().await, 0, "a probe leaves nothing behind");
    stand.end().await;
}

/// All four slots hung for 30 s each, one after the other, and senders were refused though the disk was free.
#[tokio::test(start_paused = true)]
async fn while_the_store_hangs_one_probe_is_out_and_everything_else_is_on_disk() {
    let hangs = Mode::Hangs(Duration::from_secs(30));
    let stand = Stand::with(hangs, 3, 0, |options| options.queue = 256 << 10);
    stand.under_load_until("the outage is known", || stand.ingest.status().store_down.is_some()).await;
    // Those that were under way when it began.
    stand.until("overtaken", || stand.store.waiting() <= 1).await;
    let mut probes = 0;
    for _ in 0..50 * 300 {
        stand.accept().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(stand.store.waiting() <= 1, "one probe at a time");
        probes = probes.max(stand.store.waiting());
        assert!(stand.ingest.status().backlog <= 200, "a batch, and the one with which the probe is out");
    }
    assert_eq!(probes, 1);
    stand.store.be(UP);
    stand.until("drained", || stand.files() == 0 && stand.ingest.status().backlog == 0).await;
    stand.end().await;
}

/// Files of a store that answered were evicted.
#[tokio::test(start_paused = true)]
async fn a_full_spool_of_a_store_that_is_back_is_uploaded_first_and_senders_wait_for_room() {
    let stand = Stand::with(Mode::Down, 20, 0, |options| {
        let batch = Batch::compress(&[Bytes::from("{\"waits\":1}\n{\"waits\":2}\n")]).unwrap();
        let size = batch.data.len() + serde_json::to_vec(&batch.meta).unwrap().len();
        options.spool_options.max_size = size as u64 * 20;
        options.queue = 64 << 10;
    });
    let evicting = || stand.lost("evicted") > 0;
    stand.under_load_until("the store is away beyond doubt, and files make room", evicting).await;
    stand.until("saved", || stand.ingest.status().backlog == 0).await;
    let evicted = stand.lost("evicted");
    stand.store.be(SLOW);
    stand.until("noticed", || stand.ingest.status().store_down.is_none()).await;
    let refused = matches!(stand.accept().await, Err(NotAccepted::DiskFull(_)));
    let had_room = stand.files() < 20;
    assert!(refused || had_room, "senders wait while there is no room");
    stand.under_load_until("drained under load", || stand.files() == 0).await;
    assert_eq!(stand.lost("evicted"), evicted, "nothing is evicted while the store answers");
    stand.end().await;
}
