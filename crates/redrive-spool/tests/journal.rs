//! The journal on a real disk, and on one that fails as told.

#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use redrive_spool::journal::{Damage, Damaged, Position, Record, Span};
use redrive_spool::model::{Fault, ModelDisk};
use redrive_spool::{Error, Journal, JournalOptions};

/// The first file of a journal.
const FIRST: &str = "00000000000000000001.journal";
const SMALL: JournalOptions = JournalOptions { segment_size: 300, max_size: 4_000, max_record: 1_000 };

fn all(journal: &Journal) -> Vec<Record> {
    journal.reader().read(usize::MAX, usize::MAX).unwrap()
}

fn texts(journal: &Journal) -> Vec<String> {
    all(journal).iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

fn records(texts: &[&str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
}

#[test]
fn what_is_appended_is_there_after_a_restart_and_what_is_acknowledged_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let span = journal.append_blocking(records(&["a", "b", "c"])).unwrap();
    assert_eq!((span.first, span.last), (Position(1), Position(3)));
    journal.acknowledge(Position(2).into());
    drop(journal);
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    assert_eq!(texts(&journal), ["a", "c"]);
    assert_eq!(journal.recovery().records, 2);
    assert_eq!(journal.append_blocking(records(&["d"])).unwrap().first, Position(4));
}

/// An idle persister burnt a core: the number in the name of a segment counts as used, and nobody ever sees
/// a record of that number.
#[tokio::test]
async fn a_reader_that_has_read_everything_waits() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path(), SMALL).unwrap();
    open().append(records(&["a"])).await.unwrap();
    // The next start writes the acknowledgement into a segment of its own, without a record.
    let journal = open();
    journal.acknowledge(all(&journal)[0].position.into());
    drop(journal);
    let journal = open();
    let mut reader = journal.reader();
    assert!(reader.next(10, 1_000).await.unwrap().is_empty());
    assert!(reader.wait().now_or_never().is_none(), "there is nothing to read");
    journal.append(records(&["b"])).await.unwrap();
    reader.wait().await;
    assert_eq!(reader.next(10, 1_000).await.unwrap().len(), 1);
}

/// What is delivered after a process that is killed now.
fn left_behind(dir: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    texts(&Journal::open(folder.path(), SMALL).unwrap())
}

/// It was written down with the next append only: after a quiet night and a kill everything of the evening
/// was delivered once more.
#[test]
fn an_acknowledgement_is_written_down_after_a_moment_though_nothing_else_happens() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    for text in ["first", "second"] {
        let span = journal.append_blocking(records(&[text])).unwrap();
        // The writer has nothing to do.
        std::thread::sleep(Duration::from_millis(300));
        journal.acknowledge(span);
        let written_down = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            left_behind(folder.path()).is_empty()
        });
        assert!(written_down, "{text}");
    }
}

#[test]
fn segments_go_when_all_of_them_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    for number in 0..40 {
        journal.append_blocking(records(&[&format!("record {number}")])).unwrap();
    }
    assert!(journal.stats().segments > 4);
    journal.acknowledge(Span { first: Position(1), last: Position(39) });
    drop(journal);
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    assert_eq!(texts(&journal), ["record 39"]);
    assert!(journal.stats().segments <= 2, "{:?}", journal.stats());
}

/// A batch whose first part went with its segment must not come back with its second part.
#[test]
fn a_crash_after_a_segment_went_remembers_all_of_what_was_acknowledged_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let text = "x".repeat(200);
    let mut spans = Vec::new();
    while journal.stats().segments < 3 {
        spans.push(journal.append_blocking(records(&[&text])).unwrap());
    }
    journal.acknowledge_all(&spans);
    while journal.stats().segments > 1 {
        std::thread::yield_now();
    }
    assert!(left_behind(folder.path()).is_empty());
}

#[test]
fn a_full_journal_refuses_and_deletes_nothing_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let record = "x".repeat(200);
    let mut kept = 0;
    let error = loop {
        match journal.append_blocking(records(&[&record])) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert!(error.to_string().contains("is full: "), "{error}");
    assert_eq!(all(&journal).len(), kept);
    assert!(journal.stats().bytes <= SMALL.max_size);
    journal.acknowledge(Span { first: Position(1), last: Position(kept as u64 / 2) });
    // The writer tidies before it takes what is handed in later.
    journal.append_blocking(records(&[&record])).unwrap();
    assert_eq!(all(&journal).len(), kept - kept / 2 + 1);
}

#[test]
fn a_record_that_is_too_large_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let error = journal.append_blocking(records(&["fine", &"x".repeat(1_001)])).unwrap_err();
    assert_eq!(error.to_string(), "record 1 has 1001 bytes, at most 1000 can be stored");
    assert!(all(&journal).is_empty());
}

#[test]
fn two_processes_cannot_have_the_same_journal() {
    let folder = tempfile::tempdir().unwrap();
    let _held = Journal::open(folder.path(), SMALL).unwrap();
    let error = Journal::open(folder.path(), SMALL).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was_and_waits_for_more() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let mut reader = journal.reader();
    journal.append(records(&["a", "b", "c"])).await.unwrap();
    let first = reader.next(2, usize::MAX).await.unwrap();
    let second = reader.next(2, usize::MAX).await.unwrap();
    assert_eq!((first.len(), second.len()), (2, 1));
    assert!(reader.next(2, usize::MAX).await.unwrap().is_empty());
    let waiting = tokio::spawn(async move {
        reader.wait().await;
        reader.next(2, usize::MAX).await.unwrap()
    });
    journal.append(records(&["d"])).await.unwrap();
    assert_eq!(waiting.await.unwrap()[0].payload, "d");
    let mut again = journal.reader();
    again.next(9, 9).await.unwrap();
    again.rewind();
    assert_eq!(again.next(9, usize::MAX).await.unwrap().len(), 4);
}

#[test]
fn records_larger_than_what_is_read_at_a_time_are_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    let sizes = [10, 5 << 20, 1 << 20, 3, 700_000, 700_000, 0, 9 << 20, 8 << 20, 1];
    let payloads: Vec<Bytes> =
        sizes.iter().zip(1_u8..).map(|(size, fill)| vec![fill; *size].into()).collect();
    for payload in &payloads {
        journal.append_blocking(vec![payload.clone()]).unwrap();
    }
    let read: Vec<Bytes> = all(&journal).into_iter().map(|record| record.payload).collect();
    assert_eq!(read, payloads);
    drop(journal);
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    let read: Vec<Bytes> = all(&journal).into_iter().map(|record| record.payload).collect();
    assert!(read == payloads);
}

/// While one group is being synced, everybody else who asks is in the next.
#[tokio::test]
async fn whoever_asks_at_the_same_time_shares_a_sync() {
    let disk = ModelDisk::default();
    let journal =
        Journal::open_on(Arc::new(disk.clone()), Path::new("/j"), JournalOptions::default()).unwrap();
    let held = disk.hold_syncs();
    let append = || Box::pin(journal.append(records(&["event"])));
    let mut first = append();
    assert!((&mut first).now_or_never().is_none());
    held.wait_for_one();
    let mut others: Vec<_> = (0..99).map(|_| append()).collect();
    for other in &mut others {
        assert!(other.now_or_never().is_none());
    }
    disk.arm(None);
    drop(held);
    let mut numbers = vec![first.await.unwrap().first.0];
    for other in others {
        numbers.push(other.await.unwrap().first.0);
    }
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    assert!(disk.operations() < 20, "{} operations", disk.operations());
}

/// No acknowledgement, the exact error, and the file is left alone: the next goes to another one.
#[test]
fn a_failed_sync_is_an_error_and_the_file_is_not_synced_again() {
    let disk = ModelDisk::default();
    let open = || Journal::open_on(Arc::new(disk.clone()), Path::new("/j"), JournalOptions::default());
    let journal = open().unwrap();
    journal.append_blocking(records(&["before"])).unwrap();
    disk.arm(Some(Fault::FailsAt(2, ErrorKind::Other)));
    let error = journal.append_blocking(records(&["fails"])).unwrap_err();
    assert_eq!(error.to_string(), "cannot sync /j/00000000000000000001.journal: other error");
    assert_eq!(texts(&journal), ["before"]);
    journal.append_blocking(records(&["after"])).unwrap();
    assert_eq!(texts(&journal), ["before", "after"]);
    assert_eq!(journal.stats().segments, 2);
    drop(journal);
    disk.lose_power(7);
    assert_eq!(texts(&open().unwrap()), ["before", "after"]);
}

#[test]
fn a_full_disk_is_an_error_that_says_so_and_ends_when_there_is_room() {
    let disk = ModelDisk::default();
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/j"), SMALL).unwrap();
    journal.append_blocking(records(&["before"])).unwrap();
    disk.arm(Some(Fault::FullAt(1)));
    for _ in 0..3 {
        let error = journal.append_blocking(records(&["no room"])).unwrap_err();
        assert!(error.is_full(), "{error}");
    }
    disk.arm(None);
    journal.append_blocking(records(&["after"])).unwrap();
    assert_eq!(texts(&journal), ["before", "after"]);
}

/// All of it is in one file, which is kept for its numbers; but then nothing could ever be written again.
#[test]
fn on_a_full_disk_the_last_file_goes_when_all_of_it_is_acknowledged() {
    let disk = ModelDisk::default();
    let open = || Journal::open_on(Arc::new(disk.clone()), Path::new("/j"), JournalOptions::default());
    let journal = open().unwrap();
    let span = journal.append_blocking(records(&["a", "b"])).unwrap();
    disk.arm(Some(Fault::FullAt(1)));
    assert!(journal.append_blocking(records(&["no room"])).unwrap_err().is_full());
    assert_eq!(journal.stats().segments, 1);
    journal.acknowledge(span);
    assert!(journal.append_blocking(records(&["no room"])).unwrap_err().is_full());
    // Answered before it tidies up: the next one waits for that.
    assert!(journal.append_blocking(records(&["no room"])).unwrap_err().is_full());
    assert_eq!(journal.stats().segments, 0);
    disk.arm(None);
    assert!(journal.append_blocking(records(&["c"])).unwrap().first > span.last);
    drop(journal);
    assert_eq!(texts(&open().unwrap()), ["c"]);
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/journal").join(FIRST)
}

/// The format is pinned: `REDRIVE_BLESS=1` writes the file anew, when it is meant to change.
#[test]
fn the_format_on_disk_is_the_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    journal.append_blocking(records(&["first", "", "third"])).unwrap();
    journal.acknowledge(Position(1).into());
    journal.acknowledge(Position(3).into());
    journal.append_blocking(records(&["{\"id\":4}"])).unwrap();
    drop(journal);
    let written = fs::read(folder.path().join(FIRST)).unwrap();
    if std::env::var_os("REDRIVE_BLESS").is_some() {
        fs::write(golden(), &written).unwrap();
    }
    assert_eq!(written, fs::read(golden()).unwrap());
}

#[test]
fn the_golden_file_is_read_as_it_was_written() {
    let journal = open_with(&fs::read(golden()).unwrap());
    assert_eq!(texts(&journal.0), ["", "{\"id\":4}"]);
    assert!(journal.0.recovery().damaged.is_empty());
}

fn open_with(bytes: &[u8]) -> (Journal, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FIRST), bytes).unwrap();
    (Journal::open(folder.path(), JournalOptions::default()).unwrap(), folder)
}

fn three() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    for record in ["one", "two", "three"] {
        journal.append_blocking(records(&[record])).unwrap();
    }
    drop(journal);
    fs::read(folder.path().join(FIRST)).unwrap()
}

#[test]
fn whichever_byte_is_flipped_only_its_own_record_is_missed_and_it_is_kept() {
    let bytes = three();
    for index in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[index] ^= 0x40;
        let (journal, _folder) = open_with(&flipped);
        let left = texts(&journal);
        assert!(left.len() >= 2, "byte {index}: {left:?}");
        assert!(left.iter().all(|text| ["one", "two", "three"].contains(&text.as_str())), "{left:?}");
        let damaged = &journal.recovery().damaged;
        let missing = damaged.iter().map(Damaged::records).sum::<u64>() as usize;
        assert!(missing == 3 - left.len() || damaged[0].kind == Damage::Unfinished, "byte {index}");
        assert_eq!(damaged.len(), 1 + missing, "byte {index}");
        let kept = fs::read(damaged[0].kept.as_ref().unwrap()).unwrap();
        assert!(flipped.windows(kept.len()).any(|window| window == kept), "byte {index}");
        journal.append_blocking(records(&["more"])).unwrap();
        assert_eq!(texts(&journal).len(), left.len() + 1);
    }
}

/// What is on disk after these writes, and where each of them begins; the journal had no proper end.
fn written(writes: &[&[&str]]) -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    let (mut bytes, mut begins) = (Vec::new(), Vec::new());
    for write in writes {
        begins.push(bytes.len());
        journal.append_blocking(records(write)).unwrap();
        bytes = fs::read(folder.path().join(FIRST)).unwrap();
    }
    (bytes, begins)
}

fn kinds(journal: &Journal) -> Vec<Damage> {
    journal.recovery().damaged.iter().map(|found| found.kind).collect()
}

/// Pages of one write reach the disk in any order: the power can fail when its end is there and its middle is not.
#[test]
fn a_write_that_the_power_cut_in_the_middle_is_no_damage_and_its_whole_records_are_delivered() {
    let (mut bytes, begins) = written(&[&["answered"], &["torn", "torn too", "whole"]]);
    bytes[begins[1]..begins[1] + 20].fill(0);
    let (journal, folder) = open_with(&bytes);
    assert_eq!(texts(&journal), ["answered", "torn too", "whole"]);
    assert_eq!(kinds(&journal), [Damage::Unfinished]);
    journal.append_blocking(records(&["later"])).unwrap();
    drop(journal);
    // It is in an older segment now.
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    assert_eq!(texts(&journal), ["answered", "torn too", "whole", "later"]);
    assert!(!journal.recovery().damaged.iter().any(Damaged::is_damage));
}

/// One stretch that is bad may be the end of one write and the beginning of the next.
#[test]
fn what_was_answered_for_before_an_interrupted_write_is_told_as_gone() {
    let (mut bytes, begins) = written(&[&["answered", "gone"], &["torn", "whole"]]);
    bytes[begins[1] - 4..begins[1] + 4].fill(0);
    let (journal, _folder) = open_with(&bytes);
    assert_eq!(texts(&journal), ["answered", "whole"]);
    assert_eq!(kinds(&journal), [Damage::Unfinished, Damage::Missing(Position(2).into())]);
}

#[test]
fn after_a_proper_end_damage_to_the_last_records_is_told_with_what_is_gone() {
    let bytes = three();
    let mut damaged = bytes.clone();
    let place = bytes.windows(5).position(|window| window == b"three").unwrap();
    damaged[place] ^= 1;
    let (journal, _folder) = open_with(&damaged);
    assert_eq!(texts(&journal), ["one", "two"]);
    assert_eq!(kinds(&journal), [Damage::Damaged, Damage::Missing(Position(3).into())]);
}

#[test]
fn damage_before_another_write_is_told_with_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path(), JournalOptions::default()).unwrap();
    let journal = open();
    journal.append_blocking(records(&["answered"])).unwrap();
    let file = folder.path().join(FIRST);
    let damaged_from = fs::read(&file).unwrap().len();
    journal.append_blocking(records(&["gone", "whole"])).unwrap();
    journal.append_blocking(records(&["later"])).unwrap();
    drop(journal);
    let mut bytes = fs::read(&file).unwrap();
    bytes[damaged_from..damaged_from + 4].fill(0);
    fs::write(&file, &bytes).unwrap();

    let journal = open();
    assert_eq!(texts(&journal), ["answered", "whole", "later"]);
    assert_eq!(kinds(&journal), [Damage::Damaged, Damage::Missing(Position(2).into())]);
}

#[test]
fn wherever_it_is_cut_what_is_whole_is_delivered_and_the_rest_is_kept() {
    let bytes = three();
    for length in 0..bytes.len() {
        let (journal, folder) = open_with(&bytes[..length]);
        let left = texts(&journal);
        assert_eq!(left, ["one", "two", "three"][..left.len()], "cut at {length}");
        let kept: u64 = journal.recovery().damaged.iter().map(|damaged| damaged.bytes).sum();
        let whole = fs::metadata(folder.path().join(FIRST)).map_or(0, |file| file.len());
        assert_eq!(kept + whole, length as u64);
        journal.append_blocking(records(&["more"])).unwrap();
        drop(journal);
        let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
        assert_eq!(texts(&journal).len(), left.len() + 1);
        assert!(journal.recovery().damaged.is_empty(), "what was cut is not found again");
    }
}

/// A reader asked for the rest of such a file again and again, and never came back.
#[test]
fn a_file_that_somebody_cuts_while_it_is_read_ends_where_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let text = "x".repeat(200);
    while journal.stats().segments < 3 {
        journal.append_blocking(records(&[&text])).unwrap();
    }
    let whole = all(&journal).len();
    let first = fs::File::options().write(true).open(folder.path().join(FIRST)).unwrap();
    for length in [60, 0] {
        first.set_len(length).unwrap();
        let (read, has_read) = std::sync::mpsc::channel();
        let mut reader = journal.reader();
        std::thread::spawn(move || read.send(reader.read(usize::MAX, usize::MAX).unwrap().len()));
        let left = has_read.recv_timeout(Duration::from_secs(10)).expect("it comes to an end");
        assert!((1..whole).contains(&left), "{left} of {whole}");
    }
}

/// A file by this name panicked at the start, or had everything taken for acknowledged.
#[test]
fn files_whose_names_have_numbers_that_no_journal_gives_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["00000000000000000000.journal", "18446744073709551615.journal"] {
        fs::write(folder.path().join(name), three()).unwrap();
    }
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    assert_eq!(journal.append_blocking(records(&["mine"])).unwrap().first, Position(1));
    assert_eq!(texts(&journal), ["mine"]);
}

/// A payload may look like frames.
#[test]
fn a_damaged_record_that_holds_a_journal_is_one_damaged_record() {
    let inner = three();
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    for record in ["before".into(), inner.into(), "after".into()] {
        journal.append_blocking(vec![record]).unwrap();
    }
    drop(journal);
    let path = folder.path().join(FIRST);
    let mut bytes = fs::read(&path).unwrap();
    let place = bytes.windows(3).position(|window| window == b"one").unwrap();
    bytes[place] ^= 1;
    fs::write(&path, bytes).unwrap();
    let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
    assert_eq!(texts(&journal), ["before", "after"]);
    assert_eq!(kinds(&journal), [Damage::Damaged, Damage::Missing(Position(2).into())]);
}

/// Nobody was told, and what had been answered for was gone.
#[test]
fn a_segment_that_was_emptied_or_zeroed_is_reported() {
    let bytes = three();
    for damaged in [vec![], vec![0; 10], vec![0; bytes.len()]] {
        let (journal, folder) = open_with(&damaged);
        assert!(texts(&journal).is_empty());
        let found = &journal.recovery().damaged;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind, found[0].bytes), (Damage::Damaged, damaged.len() as u64));
        assert!(found[0].to_string().contains("zeros, or a file of it is empty"), "{}", found[0]);
        drop(journal);
        let journal = Journal::open(folder.path(), JournalOptions::default()).unwrap();
        assert!(journal.recovery().damaged.is_empty(), "once");
    }
    let mut zeroed = bytes.clone();
    zeroed[100..].fill(0);
    let (journal, _folder) = open_with(&zeroed);
    assert_eq!(journal.recovery().damaged[0].kind, Damage::Unfinished);
}

#[test]
fn records_that_are_gone_from_between_others_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    for number in 1..=20 {
        journal.append_blocking(records(&[&format!("{number:0100}")])).unwrap();
    }
    journal.acknowledge(Position(7).into());
    drop(journal);
    let mut segments: Vec<PathBuf> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "journal"));
    segments.sort();
    let gone: Vec<u64> = segments[2..5].iter().map(|path| first_of(path)).collect();
    fs::write(&segments[2], "").unwrap();
    fs::remove_file(&segments[3]).unwrap();
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let missing: Vec<Damage> = journal.recovery().damaged.iter().map(|damaged| damaged.kind).collect();
    let span = |first, last| Damage::Missing(Span { first: Position(first), last: Position(last) });
    assert!((gone[0] + 1..gone[2] - 1).contains(&7), "what was acknowledged is not missed: {gone:?}");
    assert_eq!(missing, [Damage::Damaged, span(gone[0], 6), span(8, gone[2] - 1)]);
    drop(journal);
    assert!(Journal::open(folder.path(), SMALL).unwrap().recovery().damaged.is_empty(), "once");
}

fn first_of(segment: &Path) -> u64 {
    segment.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

/// A journal with records 1 to 5, of which the first two are acknowledged, closed properly or not.
fn five_records(folder: &Path, closed: bool) -> PathBuf {
    let journal = Journal::open(folder, SMALL).unwrap();
    for number in 1..=5 {
        journal.append_blocking(vec![format!("record {number}").into()]).unwrap();
    }
    journal.acknowledge(Span { first: Position(1), last: Position(2) });
    let file = folder.join("00000000000000000001.journal");
    if !closed {
        // As a killed process leaves it: without its end.
        let killed = fs::read(&file).unwrap();
        drop(journal);
        fs::write(&file, killed).unwrap();
    }
    file
}

fn missing(folder: &Path) -> Vec<(u64, u64)> {
    let journal = Journal::open(folder, SMALL).unwrap();
    let missing = journal.recovery().damaged.iter().filter_map(|found| match found.kind {
        Damage::Missing(Span { first, last }) => Some((first.0, last.0)),
        _ => None,
    });
    missing.collect()
}

/// Nothing was said: the journal was as if it had never been used.
#[test]
fn a_journal_whose_only_segment_is_gone_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = five_records(folder.path(), true);
    fs::remove_file(file).unwrap();
    assert_eq!(missing(folder.path()), [(3, 5)], "the first two were acknowledged");
    assert_eq!(missing(folder.path()), [], "once");
    let journal = Journal::open(folder.path(), SMALL).unwrap();
    let span = journal.append_blocking(vec!["next".into()]).unwrap();
    assert!(span.first > Position(5), "no number is given twice");
}

/// Where a write ended it looked as if there had been no more of them; within one, like a crash.
#[test]
fn a_journal_that_was_cut_says_which_records_are_gone() {
    for closed in [true, false] {
        let whole = {
            let folder = tempfile::tempdir().unwrap();
            fs::read(five_records(folder.path(), closed)).unwrap()
        };
        let mut told = Vec::new();
        for length in 1..whole.len() {
            let folder = tempfile::tempdir().unwrap();
            let file = five_records(folder.path(), closed);
            fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length as u64).unwrap();
            let gone = missing(folder.path());
            let left = Journal::open(folder.path(), SMALL).unwrap().reader().read(10, 1_000).unwrap();
            let lost: u64 = gone.iter().map(|(first, last)| last - first + 1).sum();
            let has = left.iter().filter(|record| record.position > Position(2)).count() as u64;
            assert_eq!(lost + has, 3, "closed {closed}, {length} bytes left: {gone:?}");
            told.extend(gone);
        }
        assert!(told.contains(&(5, 5)) && told.contains(&(3, 5)), "{told:?}");
    }
}

#[test]
fn a_journal_that_nobody_has_touched_misses_nothing() {
    for closed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        five_records(folder.path(), closed);
        assert_eq!(missing(folder.path()), []);
        fs::remove_file(folder.path().join("mark")).unwrap();
        assert_eq!(missing(folder.path()), [], "nor is one of an earlier version, which has no mark");
    }
}
