//! The spool: on a real disk, on one that fails as told, and with a store that does.

#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{ObjectStore, ObjectStoreExt as _};
use redrive_spool::filesystem::Filesystem;
use redrive_spool::model::{Fault, ModelDisk};
use redrive_spool::spool::{Culprit, Evict, Finding, OnFull, Outcome};
use redrive_spool::target::Patience;
use redrive_spool::{Batch, Spool, SpoolOptions, Target};
use url::Url;

const NOW: i64 = 1_700_000_100;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn options() -> SpoolOptions {
    SpoolOptions::new("i-abc123")
}

fn open(dir: &Path, options: SpoolOptions) -> Arc<Spool> {
    Arc::new(Spool::open(dir, options, at(NOW)).unwrap())
}

fn batch(text: &str) -> Batch {
    Batch::compress(&[format!("{{\"event\":\"{text}\"}}\n").into()]).unwrap()
}

fn store() -> (Arc<InMemory>, Target) {
    let store = Arc::new(InMemory::new());
    (store.clone(), Target::over(store, "", "RAW", "RAW_DLQ").unwrap())
}

async fn objects(store: &InMemory) -> BTreeMap<String, Bytes> {
    let mut objects = BTreeMap::new();
    for object in store.list(None).try_collect::<Vec<_>>().await.unwrap() {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        objects.insert(object.location.to_string(), bytes);
    }
    objects
}

fn text(data: &[u8]) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(data).read_to_string(&mut text).unwrap();
    text
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_saved_batch_has_the_founding_names_and_formats() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    let name = spool.name(at(1_700_000_001));
    assert_eq!(name, "1700000001_i-abc123_000001.jsonl.gz");
    spool.save(&name, &batch("a"), at(NOW)).unwrap();
    assert_eq!(names(folder.path()), [name.clone(), format!("{name}.meta.json")]);
    assert_eq!(text(&fs::read(folder.path().join(&name)).unwrap()), "{\"event\":\"a\"}\n");
    let meta: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join(format!("{name}.meta.json"))).unwrap()).unwrap();
    assert_eq!(meta["num_events"], 1);
    assert_eq!(spool.name(at(1_700_000_001)), "1700000001_i-abc123_000002.jsonl.gz");
}

/// The golden pair pins both formats; `REDRIVE_BLESS=1` writes it anew.
#[test]
fn the_files_on_disk_are_the_golden_ones() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..23).map(|number| format!("{{\"id\":{number}}}\n")).collect();
    let spool = open(folder.path(), options());
    let name = spool.name(at(1_700_000_001));
    spool.save(&name, &Batch::compress(&[lines.clone().into()]).unwrap(), at(NOW)).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/spool");
    for file in names(folder.path()) {
        let written = fs::read(folder.path().join(&file)).unwrap();
        if std::env::var_os("REDRIVE_BLESS").is_some() {
            fs::create_dir_all(&golden).unwrap();
            fs::write(golden.join(&file), &written).unwrap();
        }
        let pinned = fs::read(golden.join(&file)).unwrap();
        // How gzip packs is the library's business; what it unpacks to is ours.
        if file.ends_with(".gz") {
            assert_eq!(text(&pinned), lines);
            assert_eq!(text(&written), lines);
        } else {
            assert_eq!(String::from_utf8(written).unwrap(), String::from_utf8(pinned).unwrap());
        }
    }
}

#[tokio::test]
async fn files_are_uploaded_oldest_first_whoever_wrote_them_and_then_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let order = [
        "1700000001_b_000009.jsonl.gz",
        "1700000002_a_000001.jsonl.gz",
        "1700000002_i-abc123_000002.jsonl.gz",
        "1700000003_a_7.jsonl.gz",
    ];
    for name in order.iter().rev() {
        fs::write(folder.path().join(name), batch(name).data).unwrap();
    }
    let spool = open(folder.path(), options());
    let (store, target) = store();
    for name in order {
        let step = spool.process_one(&target, at(NOW)).await;
        assert!(matches!(&step.outcome, Outcome::Uploaded { file, events: 1 } if file == name), "{step:?}");
    }
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Empty));
    assert!(names(folder.path()).is_empty());
    assert_eq!(spool.stats().bytes, 0);
    let uploaded = objects(&store).await;
    let expected: Vec<String> = order.iter().map(|name| format!("RAW/{name}")).collect();
    assert_eq!(uploaded.keys().cloned().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_file_that_somebody_drops_in_is_found_and_one_that_is_no_batch_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), SpoolOptions { scan: 2, ..options() });
    let (store, target) = store();
    fs::write(folder.path().join("by hand.txt"), "hello").unwrap();
    fs::write(folder.path().join("1700000001_x_000001.jsonl.gz"), batch("x").data).unwrap();
    fs::create_dir(folder.path().join("a folder")).unwrap();
    fs::write(folder.path().join(".hidden"), "").unwrap();
    let mut outcomes = Vec::new();
    for second in 0..30 {
        outcomes.push(spool.process_one(&target, at(NOW + 5 * second)).await.outcome);
    }
    outcomes.retain(|outcome| !matches!(outcome, Outcome::Empty));
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    let objects = objects(&store).await;
    assert_eq!(objects["RAW_DLQ/by hand.txt"], "hello");
    assert!(objects.contains_key("RAW/1700000001_x_000001.jsonl.gz"));
    assert_eq!(names(folder.path()), [".hidden", "a folder"]);
}

#[tokio::test]
async fn from_a_damaged_file_the_intact_lines_are_rescued_and_all_of_it_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    let lines: String = (0..100).map(|number| format!("{{\"id\":{number}}}\n")).collect();
    let name = spool.name(at(NOW));
    spool.save(&name, &Batch::compress(&[lines.clone().into()]).unwrap(), at(NOW)).unwrap();
    let path = folder.path().join(&name);
    let mut cut = fs::read(&path).unwrap();
    cut.truncate(cut.len() * 2 / 3);
    fs::write(&path, &cut).unwrap();
    let (store, target) = store();
    let step = spool.process_one(&target, at(NOW)).await;
    let Outcome::Quarantined { rescued, reason, .. } = step.outcome else { panic!("{step:?}") };
    assert!((10..100).contains(&rescued), "{rescued}");
    assert!(reason.contains("gzip"), "{reason}");
    let objects = objects(&store).await;
    assert_eq!(objects[&format!("RAW_DLQ/{name}")], cut);
    let intact = text(&objects[&format!("RAW/{name}")]);
    assert!(lines.starts_with(&intact) && intact.lines().count() as u64 == rescued);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_an_interrupted_process_left_is_removed_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let keep = ["1700000001_a_000001.jsonl.gz", "1700000001_a_000001.jsonl.gz.meta.json"];
    let fresh = format!(".{NOW}_a_000003.jsonl.gz.tmp");
    for name in keep {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    fs::write(folder.path().join("1700000001_a_000002.jsonl.gz.meta.json"), "{}").unwrap();
    fs::write(folder.path().join(".1600000000_a_000002.jsonl.gz.tmp"), "x").unwrap();
    fs::write(folder.path().join(&fresh), "x").unwrap();
    let spool = open(folder.path(), options());
    assert_eq!(names(folder.path()), [fresh.as_str(), keep[0], keep[1]]);
    assert_eq!(spool.stats().files, 1);
}

/// A store that is away: a file is where its folder was.
struct Away {
    folder: tempfile::TempDir,
    target: Target,
}

impl Away {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        fs::write(&store, "in the way").unwrap();
        let address = Url::from_file_path(&store).unwrap();
        let target = Target::open(address.as_str(), "RAW", "RAW_DLQ", &Patience::default()).unwrap();
        Self { folder, target }
    }

    fn come_back(&self) {
        fs::remove_file(self.folder.path().join("store")).unwrap();
    }
}

fn aged(max_age: u64) -> SpoolOptions {
    SpoolOptions { max_age: Duration::from_secs(max_age), ..options() }
}

/// They were deleted at the first look, before anybody had asked the store: 510 events, 47 s after it was back.
#[tokio::test]
async fn files_that_are_too_old_are_uploaded_by_a_store_that_answers() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), aged(60));
    for second in 0..3 {
        spool.save(&spool.name(at(NOW - 1_000 + second)), &batch("old"), at(NOW)).unwrap();
    }
    let (store, target) = store();
    for _ in 0..4 {
        let step = spool.process_one(&target, at(NOW)).await;
        assert_eq!(step.expired, [], "{step:?}");
    }
    assert_eq!((objects(&store).await.len(), spool.stats().files), (3, 0));
}

#[tokio::test]
async fn files_that_are_too_old_go_when_the_store_is_away_and_are_reported_with_their_events() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), aged(60));
    let old = spool.name(at(NOW - 61));
    let young = spool.name(at(NOW - 59));
    let two = Batch::compress(&["{}\n{}\n".into()]).unwrap();
    spool.save(&old, &two, at(NOW)).unwrap();
    spool.save(&young, &two, at(NOW)).unwrap();
    let away = Away::new();
    let first = spool.process_one(&away.target, at(NOW)).await;
    assert_eq!(first.expired, [], "one failure may be an accident");
    let second = spool.process_one(&away.target, at(NOW)).await;
    assert_eq!(second.expired.len(), 1);
    assert_eq!((second.expired[0].file.as_str(), second.expired[0].events), (old.as_str(), 2));
    assert_eq!(spool.expire(at(NOW + 2)).len(), 1, "and for whoever has asked otherwise");
    assert_eq!(spool.stats().files, 0);
}

#[tokio::test]
async fn after_an_outage_a_file_has_its_chance_before_its_age_counts() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), aged(60));
    for second in 0..5 {
        spool.save(&spool.name(at(NOW + second)), &batch("x"), at(NOW)).unwrap();
    }
    let away = Away::new();
    for _ in 0..7 {
        assert!(matches!(spool.process_one(&away.target, at(NOW + 10)).await.outcome, Outcome::Kept { .. }));
    }
    away.come_back();
    // All of them are too old by now.
    for _ in 0..5 {
        let step = spool.process_one(&away.target, at(NOW + 1_000)).await;
        assert_eq!(step.expired, [], "{step:?}");
        assert!(matches!(step.outcome, Outcome::Uploaded { .. }), "{step:?}");
    }
}

#[tokio::test]
async fn a_file_that_a_store_refuses_which_answers_goes_when_it_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{NOW}_{}_000001.jsonl.gz", "x".repeat(228));
    let path = folder.path().join(&long);
    fs::write(&path, batch("x").data).unwrap();
    // Nobody writes to it any more.
    fs::File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let store = tempfile::tempdir().unwrap();
    let address = format!("file://{}", store.path().display());
    let target = Target::open(&address, "RAW", "RAW_DLQ", &Patience::default()).unwrap();
    let spool = open(folder.path(), aged(1_000));
    spool.save(&spool.name(at(NOW + 1)), &batch("good"), at(NOW)).unwrap();
    let mut expired = Vec::new();
    for later in [0, 0, 0, 0, 999, 1_001] {
        expired.push(spool.process_one(&target, at(NOW + later)).await.expired.len());
    }
    assert_eq!(expired, [0, 0, 0, 0, 0, 1]);
}

/// `EvictOldest` deleted files of a store that answered, and had only been slow.
#[tokio::test]
async fn for_a_store_that_answers_only_what_it_refused_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let size = |batch: &Batch| (batch.data.len() + serde_json::to_vec(&batch.meta).unwrap().len()) as u64;
    let spool = open(folder.path(), SpoolOptions { max_size: 2 * size(&batch("0")) + 5, ..options() });
    for number in 0..2 {
        spool.save(&spool.name(at(NOW + number)), &batch(&number.to_string()), at(NOW)).unwrap();
    }
    let name = spool.name(at(NOW + 2));
    assert!(!spool.is_short_of_room());
    let save = || spool.save_evicting(&name, &batch("2"), Evict::Refused, at(NOW));
    assert!(save().unwrap_err().is_full() && spool.is_short_of_room());
    let (_, target) = store();
    spool.process_one(&target, at(NOW)).await;
    assert!(!spool.is_short_of_room(), "there is room again");
    assert_eq!(save().unwrap(), []);
}

/// A pipe among the files stopped recovery for ever, and a link had what it pointed to uploaded.
#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_left_alone_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), batch("secret").data).unwrap();
    let name = |second: i64| format!("{}_x_000001.jsonl.gz", NOW - second);
    let fifo = std::process::Command::new("mkfifo").arg(folder.path().join(name(3))).status().unwrap();
    assert!(fifo.success());
    std::os::unix::fs::symlink(secret.path(), folder.path().join(name(2))).unwrap();
    fs::create_dir(folder.path().join(name(1))).unwrap();
    let spool = open(folder.path(), options());
    spool.save(&spool.name(at(NOW)), &batch("good"), at(NOW)).unwrap();
    let (store, target) = store();
    for later in [0, 60, 120] {
        spool.process_one(&target, at(NOW + later)).await;
    }
    assert_eq!(objects(&store).await.len(), 1);
    let mut found = spool.findings();
    found.sort_by_key(|finding| format!("{finding:?}"));
    let expected = [(3, "a pipe, a socket or a device"), (2, "a symbolic link"), (1, "a folder")];
    assert_eq!(found, expected.map(|(second, what)| Finding::NoFile { name: name(second), what }));
    assert_eq!(spool.findings(), [], "told once");
    // One that takes the place of a file that is known already.
    let known = spool.name(at(NOW + 1));
    spool.save(&known, &batch("known"), at(NOW)).unwrap();
    fs::remove_file(folder.path().join(&known)).unwrap();
    std::os::unix::fs::symlink(secret.path(), folder.path().join(&known)).unwrap();
    let outcome = spool.process_one(&target, at(NOW + 121)).await.outcome;
    assert!(
        matches!(&outcome, Outcome::Unreadable { error, .. } if error.to_string().contains("a symbolic link"))
    );
}

/// Every batch was lost until the next restart.
#[tokio::test]
async fn a_folder_that_somebody_deletes_is_made_again_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("spool");
    let spool = open(&dir, options());
    spool.save(&spool.name(at(NOW)), &batch("gone"), at(NOW)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    spool.save(&spool.name(at(NOW)), &batch("kept"), at(NOW)).unwrap();
    assert_eq!(spool.findings(), [Finding::FolderGone { files: 1 }]);
    assert_eq!(spool.stats().files, 1);
    let (store, target) = store();
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Uploaded { .. }));
    assert_eq!(objects(&store).await.len(), 1);
    fs::remove_dir_all(&dir).unwrap();
    spool.process_one(&target, at(NOW + 60)).await;
    assert_eq!(spool.findings(), [Finding::FolderGone { files: 0 }], "noticed while nothing is saved");
    assert!(dir.is_dir());
}

#[test]
fn over_its_size_the_oldest_go_first_or_the_batch_is_refused() {
    let size = {
        let batch = batch("0");
        (batch.data.len() + serde_json::to_vec(&batch.meta).unwrap().len()) as u64
    };
    for on_full in [OnFull::EvictOldest, OnFull::Refuse] {
        let folder = tempfile::tempdir().unwrap();
        let options = SpoolOptions { max_size: 3 * size + 5, on_full, ..options() };
        let spool = open(folder.path(), options);
        let saved: Vec<_> = (0..4)
            .map(|number| spool.save(&spool.name(at(NOW)), &batch(&number.to_string()), at(NOW)))
            .collect();
        assert!(saved[..3].iter().all(|saved| saved.as_ref().is_ok_and(Vec::is_empty)));
        match on_full {
            OnFull::EvictOldest => assert_eq!(saved[3].as_ref().unwrap()[0].events, 1),
            OnFull::Refuse => assert!(saved[3].as_ref().unwrap_err().is_full()),
        }
        assert_eq!(spool.is_full_for(size), on_full == OnFull::Refuse);
        assert_eq!(spool.stats().files, 3);
        let huge = Batch { data: vec![0; 4 * size as usize].into(), meta: batch("x").meta };
        let error = spool.save(&spool.name(at(NOW)), &huge, at(NOW)).unwrap_err();
        assert!(error.is_full() && error.to_string().contains("bytes more do not fit"), "{error}");
        assert_eq!(spool.stats().files, 3, "nothing is deleted for what will not fit anyway");
    }
}

/// Files went to make room for a batch that then was not kept, and nobody was told.
#[test]
fn what_was_evicted_for_a_batch_that_was_not_kept_is_told_with_the_next() {
    let disk = ModelDisk::default();
    let size = batch("0").data.len() as u64;
    let options = SpoolOptions { max_size: 3 * size, ..options() };
    let spool = Spool::open_on(Arc::new(disk.clone()), Path::new("/spool"), options, at(NOW)).unwrap();
    let save = |text: &str| spool.save(&spool.name(at(NOW)), &batch(text), at(NOW));
    assert_eq!(save("first").unwrap(), []);
    disk.arm(Some(Fault::FullAt(1)));
    assert!(save("second").unwrap_err().is_full());
    assert_eq!(spool.stats().files, 0, "the first had to go");
    disk.arm(None);
    let told = save("third").unwrap();
    assert_eq!(told.iter().map(|lost| lost.events).collect::<Vec<_>>(), [1]);
}

/// A sync of the folder that failed left the batch there: it was dropped and counted, and uploaded all the same.
#[test]
fn a_batch_that_was_not_saved_is_not_there() {
    for operation in 1..20 {
        let disk = ModelDisk::default();
        let dir = Path::new("/spool");
        let spool = Spool::open_on(Arc::new(disk.clone()), dir, options(), at(NOW)).unwrap();
        disk.arm(Some(Fault::FailsAt(operation, ErrorKind::Other)));
        let saved = spool.save(&spool.name(at(NOW)), &batch("x"), at(NOW));
        disk.arm(None);
        let left = disk.names(dir).unwrap().count();
        assert!(saved.is_ok() || left == 0, "operation {operation}: {left} files");
    }
}

/// Meta files were not measured at a start: the same folder was smaller than before.
#[test]
fn a_restart_finds_the_folder_as_large_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    let name = spool.name(at(NOW));
    spool.save(&name, &batch("x"), at(NOW)).unwrap();
    let again = open(folder.path(), options());
    assert_eq!(again.stats(), spool.stats());
    assert_eq!(again.waiting(&name).unwrap().bytes, Some(again.stats().bytes));
}

#[tokio::test]
async fn a_file_that_the_disk_does_not_give_does_not_stand_in_the_way() {
    let disk = ModelDisk::default();
    let spool =
        Arc::new(Spool::open_on(Arc::new(disk.clone()), Path::new("/spool"), options(), at(NOW)).unwrap());
    for second in 0..2 {
        let name = spool.name(at(NOW - 10 + second));
        spool.save(&name, &batch("x"), at(NOW)).unwrap();
    }
    let (_, target) = store();
    disk.arm(Some(Fault::FailsAt(1, ErrorKind::Other)));
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Unreadable { .. }));
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Uploaded { .. }));
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Empty));
    assert!(matches!(spool.process_one(&target, at(NOW + 301)).await.outcome, Outcome::Uploaded { .. }));
}

/// All of it was read into memory: a dump that somebody put into the folder ended the process, again and again.
#[tokio::test]
async fn a_file_that_is_far_too_large_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("1700000001_x_000001.jsonl.gz");
    fs::File::create(&dump).unwrap().set_len((1 << 30) + 1).unwrap();
    let spool = open(folder.path(), SpoolOptions { max_size: u64::MAX, ..options() });
    spool.save(&spool.name(at(NOW)), &batch("good"), at(NOW)).unwrap();
    let (_, target) = store();
    let Outcome::Unreadable { error, .. } = spool.process_one(&target, at(NOW)).await.outcome else {
        panic!("it was read")
    };
    assert!(error.to_string().contains("upload it by hand"), "{error}");
    assert!(spool.read("1700000001_x_000001.jsonl.gz").is_err());
    assert!(matches!(spool.process_one(&target, at(NOW)).await.outcome, Outcome::Uploaded { .. }));
    assert!(dump.exists());
}

/// Half of a file was uploaded and deleted under its writer: the rest was gone.
#[tokio::test]
async fn a_file_that_is_still_being_written_is_left_alone_until_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (batch("first").data, batch("second").data);
    let whole = [&first[..], &second[..]].concat();
    // Cut within a gzip stream, and between two, where it looks whole.
    for (number, written) in [5, first.len() + 5, first.len()].into_iter().enumerate() {
        let now = Timestamp::now();
        let spool = Arc::new(
            Spool::open(folder.path(), SpoolOptions { max_age: Duration::MAX, ..options() }, now).unwrap(),
        );
        let path = folder.path().join(format!("{}_x_{number:06}.jsonl.gz", now.as_second() - 10));
        let name = path.file_name().unwrap().to_str().unwrap();
        fs::write(&path, &whole[..written]).unwrap();
        let later = now + Duration::from_secs(11);
        let (store, target) = store();
        assert!(matches!(spool.process_one(&target, later).await.outcome, Outcome::Empty), "{written}");
        let by_hand = spool.process(name, &target, later).await;
        assert!(matches!(by_hand, Some(Outcome::Unfinished { .. })), "{by_hand:?}");
        assert!(objects(&store).await.is_empty());
        fs::write(&path, &whole).unwrap();
        let later = later + Duration::from_secs(61);
        let outcome = spool.process_one(&target, later).await.outcome;
        assert!(matches!(outcome, Outcome::Uploaded { events: 2, .. }), "{outcome:?}");
        assert!(names(folder.path()).is_empty());
    }
}

/// A batch that was saved on a full disk waited for a minute, as if somebody were still writing it.
#[tokio::test]
async fn a_batch_of_ours_without_its_meta_file_goes_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let now = Timestamp::now();
    let spool = Arc::new(Spool::open(folder.path(), options(), now).unwrap());
    let name = spool.name(now);
    spool.save(&name, &batch("x"), now).unwrap();
    fs::write(folder.path().join(format!("{name}.meta.json")), "").unwrap();
    let (_, target) = store();
    let outcome = spool.process_one(&target, now).await.outcome;
    assert!(matches!(outcome, Outcome::Uploaded { events: 1, .. }), "{outcome:?}");
}

/// A redrive while recovery was at the same file: its events were taken out of the books twice.
#[tokio::test(start_paused = true)]
async fn of_several_who_upload_a_file_at_once_one_is_told_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    // Time stands still until both have read the file, and wait for the store.
    let slow = ThrottleConfig { wait_put_per_call: Duration::from_secs(1), ..ThrottleConfig::default() };
    let store = Arc::new(ThrottledStore::new(InMemory::new(), slow));
    let target = Target::over(store, "", "RAW", "RAW_DLQ").unwrap();
    let name = spool.name(at(NOW));
    spool.save(&name, &batch("x"), at(NOW)).unwrap();
    let (recovery, redrive) =
        tokio::join!(spool.process_one(&target, at(NOW)), spool.process(&name, &target, at(NOW)));
    let outcomes = [recovery.outcome, redrive.unwrap()];
    let told = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    assert_eq!(told(|outcome| matches!(outcome, Outcome::Uploaded { events: 1, .. })), 1, "{outcomes:?}");
    assert_eq!(told(|outcome| matches!(outcome, Outcome::Gone { .. })), 1, "{outcomes:?}");
    assert!(!spool.set_aside(&name).unwrap(), "nor is there anything to set aside");
}

/// A store of folders has no room for a name of 255 letters, whatever is in the file: it says so as if it
/// were in trouble itself.
#[tokio::test]
async fn a_file_that_fails_alone_is_put_off_and_the_store_is_not_blamed() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("1700000000_{}_000001.jsonl.gz", "x".repeat(228));
    fs::write(folder.path().join(&long), batch("long").data).unwrap();
    let spool = open(folder.path(), options());
    for second in 1..=2 {
        spool.save(&spool.name(at(NOW + second)), &batch("good"), at(NOW)).unwrap();
    }
    let store = tempfile::tempdir().unwrap();
    let address = format!("file://{}", store.path().display());
    let target = Target::open(&address, "RAW", "RAW_DLQ", &Patience::default()).unwrap();
    let mut culprits = Vec::new();
    for later in [0, 0, 0, 0, 0, 301] {
        culprits.push(match spool.process_one(&target, at(NOW + later)).await.outcome {
            Outcome::Kept { file, culprit, .. } if file == long => Some(culprit),
            Outcome::Uploaded { .. } | Outcome::Empty => None,
            other => panic!("{other:?}"),
        });
    }
    let (unclear, alone) = (Some(Culprit::Unclear), Some(Culprit::File));
    assert_eq!(culprits, [unclear, None, alone, None, None, alone]);
    assert_eq!(names(&store.path().join("RAW")).len(), 2);
}

/// Its events were taken out of the books again and again, every five minutes.
#[tokio::test]
async fn a_file_counts_as_uploaded_when_it_is_gone_from_the_disk() {
    for operation in 1..20 {
        let disk = ModelDisk::default();
        let dir = Path::new("/spool");
        let spool = Arc::new(Spool::open_on(Arc::new(disk.clone()), dir, options(), at(NOW)).unwrap());
        spool.save(&spool.name(at(NOW)), &batch("x"), at(NOW)).unwrap();
        let (_, target) = store();
        disk.arm(Some(Fault::FailsAt(operation, ErrorKind::PermissionDenied)));
        let mut uploads = 0;
        for later in [0, 301, 602] {
            let outcome = spool.process_one(&target, at(NOW + later)).await.outcome;
            uploads += usize::from(matches!(outcome, Outcome::Uploaded { .. } | Outcome::Quarantined { .. }));
        }
        assert_eq!((uploads, spool.stats().files), (1, 0), "operation {operation}");
    }
}

/// Two processes share a folder: both counted the same file, as uploaded or as lost.
#[tokio::test]
async fn what_another_process_has_taken_away_is_not_counted_again() {
    let folder = tempfile::tempdir().unwrap();
    let size = batch("x").data.len() as u64;
    let ours = open(folder.path(), SpoolOptions { max_size: 3 * size, ..options() });
    let names: Vec<String> = (0..2).map(|_| ours.name(at(NOW))).collect();
    ours.save(&names[0], &batch("x"), at(NOW)).unwrap();
    let others = open(folder.path(), SpoolOptions::new("i-other"));
    let (_, target) = store();
    assert!(matches!(others.process_one(&target, at(NOW)).await.outcome, Outcome::Uploaded { .. }));
    assert_eq!(ours.stats().files, 1, "nobody has told this one");
    assert_eq!(ours.save(&names[1], &batch("y"), at(NOW)).unwrap(), [], "it made room, and nothing was lost");
    fs::remove_file(folder.path().join(&names[1])).unwrap();
    assert!(!ours.set_aside(&names[1]).unwrap(), "nor is anything set aside that is not there");
}

/// The folder is read beside the steps: a queue that is never empty must not hide what others put there.
#[tokio::test]
async fn what_others_put_here_is_found_and_measured_while_files_wait() {
    let folder = tempfile::tempdir().unwrap();
    let put = |second: i64, instance: &str| {
        let name = format!("{second}_{instance}_000001.jsonl.gz");
        fs::write(folder.path().join(&name), batch("foreign").data).unwrap();
        name
    };
    for second in 0..40 {
        put(NOW + 100 + second, "i-before");
    }
    let spool = open(folder.path(), SpoolOptions { scan: 10, ..options() });
    let measured = spool.stats().bytes;
    let target = Target::over(Arc::new(InMemory::new()), "", "RAW", "RAW_DLQ").unwrap();
    let older = put(NOW, "i-other");
    // Long after the look at the start, so that another one is due.
    let later = at(NOW + 1_000);
    let (mut uploaded, mut whole) = (Vec::new(), false);
    while spool.stats().files > 1 {
        let Outcome::Uploaded { file, .. } = spool.process_one(&target, later).await.outcome else {
            panic!("a file waits, and is taken");
        };
        uploaded.push(file);
        whole |= spool.list(None, 100).iter().all(|waiting| waiting.bytes.is_some());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(measured > 0 && whole, "all sizes are known before the last file is gone");
    let found = uploaded.iter().position(|file| *file == older).expect("found while others wait");
    assert!(found > 0, "it was not there at the start");
}

/// A disk that is not mounted when the process starts is a store that is away, not a reason to stay down.
#[tokio::test]
async fn a_folder_that_cannot_be_made_yet_is_a_store_that_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    spool.save(&spool.name(at(NOW)), &batch("good"), at(NOW)).unwrap();
    let mount = tempfile::tempdir().unwrap();
    let store = mount.path().join("a disk");
    fs::write(&store, "in the way").unwrap();
    let address = Url::from_file_path(store.join("events")).unwrap();
    let target = Target::open(address.as_str(), "RAW", "RAW_DLQ", &Patience::default()).unwrap();
    let kept = spool.process_one(&target, at(NOW)).await.outcome;
    assert!(matches!(kept, Outcome::Kept { .. }), "{kept:?}");

    fs::remove_file(&store).unwrap();
    let sent = spool.process_one(&target, at(NOW + 301)).await.outcome;
    assert!(matches!(sent, Outcome::Uploaded { events: 1, .. }), "{sent:?}");
    let object = &names(&store.join("events").join("RAW"))[0];
    let again = Target::open(address.as_str(), "RAW", "RAW_DLQ", &Patience::default()).unwrap();
    again.put_raw(object, Bytes::from_static(b"by its usual name")).await.unwrap();
    assert_eq!(names(&store.join("events").join("RAW")).len(), 1);
}

#[test]
fn the_console_can_list_and_read_what_waits_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    for second in [3, 1, 2] {
        spool.save(&spool.name(at(second)), &batch(&second.to_string()), at(NOW)).unwrap();
    }
    let first = spool.list(None, 2);
    assert_eq!(first.iter().map(|file| file.since.as_second()).collect::<Vec<_>>(), [1, 2]);
    let rest = spool.list(Some(&first[1].file), 2);
    assert_eq!(rest.len(), 1);
    assert_eq!(text(&spool.read(&rest[0].file).unwrap().unwrap().data), "{\"event\":\"3\"}\n");
    let elsewhere = tempfile::NamedTempFile::new_in(folder.path().parent().unwrap()).unwrap();
    let path = format!("../{}", elsewhere.path().file_name().unwrap().to_str().unwrap());
    assert_eq!(spool.read(&path).unwrap(), None);
}

/// Resolving a file deleted its events for good.
#[test]
fn what_is_set_aside_is_kept_and_no_longer_waits() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), options());
    let name = spool.name(at(1));
    spool.save(&name, &batch("one"), at(NOW)).unwrap();
    let path = folder.path().join(&name);
    let bytes = std::fs::read(&path).unwrap();
    assert!(spool.set_aside(&name).unwrap());
    let aside = folder.path().join(".resolved");
    assert_eq!((spool.stats().files, std::fs::read(aside.join(&name)).unwrap()), (0, bytes.clone()));
    assert!(aside.join(format!("{name}.meta.json")).exists() && !path.exists());
    assert_eq!(open(folder.path(), options()).stats().files, 0, "nor after a restart");
    std::fs::write(&path, "put back by hand").unwrap();
    let again = open(folder.path(), options());
    assert!(again.set_aside(&name).unwrap());
    assert_eq!(std::fs::read(aside.join(&name)).unwrap(), bytes, "the first is not replaced");
    assert!(aside.join(format!("{name}.again")).exists());
}

/// The power fails at each operation of a save: either it answered and the batch is there, whole, or the
/// caller has it still, and nothing of it is mistaken for a batch.
#[test]
fn wherever_a_save_is_interrupted_a_batch_is_there_whole_or_not_at_all() {
    for kind in [None, Some(ErrorKind::Other), Some(ErrorKind::StorageFull)] {
        for operation in 1..12 {
            for seed in 0..40 {
                let disk = ModelDisk::default();
                let dir = Path::new("/spool");
                let open = || Spool::open_on(Arc::new(disk.clone()), dir, options(), at(NOW)).unwrap();
                let spool = open();
                let first = spool.name(at(NOW));
                spool.save(&first, &batch("first"), at(NOW)).unwrap();
                disk.arm(Some(
                    kind.map_or(Fault::KilledAt(operation), |kind| Fault::FailsAt(operation, kind)),
                ));
                let second = spool.name(at(NOW));
                let saved = spool.save(&second, &batch("second"), at(NOW));
                disk.lose_power(seed);
                let spool = open();
                let waiting: Vec<_> = spool.list(None, 10).into_iter().map(|file| file.file).collect();
                assert_eq!(waiting[0], first);
                assert!(saved.is_err() || waiting.contains(&second), "operation {operation}, seed {seed}");
                for (name, text) in [(&first, "first"), (&second, "second")] {
                    if let Some(found) = spool.read(name).unwrap() {
                        assert_eq!(found.data, batch(text).data, "operation {operation}, seed {seed}");
                    }
                }
            }
        }
    }
}

/// Killed at each operation of a recovery step: afterwards the batch is in the store, or on disk, or both,
/// and going on ends with one object.
#[tokio::test]
async fn wherever_recovery_is_interrupted_nothing_is_lost_and_one_object_remains() {
    for operation in 1..12 {
        for seed in 0..20 {
            let disk = ModelDisk::default();
            let dir = Path::new("/spool");
            let open = || Arc::new(Spool::open_on(Arc::new(disk.clone()), dir, options(), at(NOW)).unwrap());
            let spool = open();
            let name = spool.name(at(NOW));
            spool.save(&name, &batch("x"), at(NOW)).unwrap();
            let (store, target) = store();
            disk.arm(Some(Fault::KilledAt(operation)));
            spool.process_one(&target, at(NOW)).await;
            disk.lose_power(seed);
            let spool = open();
            let on_disk = spool.list(None, 10).len();
            assert_eq!(on_disk.max(objects(&store).await.len()), 1);
            spool.process_one(&target, at(NOW)).await;
            assert_eq!(objects(&store).await.into_keys().collect::<Vec<_>>(), [format!("RAW/{name}")]);
            assert_eq!(spool.stats().files, 0);
            assert!(
                disk.names(dir).unwrap().all(|name| !name.unwrap().name.to_string_lossy().ends_with(".gz"))
            );
        }
    }
}
