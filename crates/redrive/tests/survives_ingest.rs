//! Ingest: the server is killed again and again, its object store fails in every way, its disk is full:
//! every event that it has accepted is in the store in the end, once, as it was sent.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redrive_testkit::{PATIENCE, eventually};
use support::folder_with;
use survival::Process;
use survival::ingest::{free_address, get, lines, metric, send, wait_until_up};
use survival::s3::{Fault, S3};

const KILLS: usize = 50;
const SENDERS: usize = 3;
const EVENTS_PER_BODY: usize = 20;
/// How many are accepted at least before a server that is up is killed.
const EVENTS_PER_KILL: usize = 60;

fn configuration(address: SocketAddr, more: &str) -> String {
    format!(
        "[server]\nlisten = \"{address}\"\n[ingest.events]\nstore = \"s3://bucket\"\n\
         batch = {{ max-events = 100, max-delay = \"20ms\" }}\n\
         upload = {{ retries = 1, timeout = \"2s\" }}\nrecovery = {{ interval = \"10ms\", files = 20 }}\n{more}"
    )
}

/// Half of the time it fails, each time in another way.
fn half_the_time() -> impl Fn() -> Fault + Send + Sync + 'static {
    let turn = AtomicU64::new(0);
    move || match turn.fetch_add(1, Ordering::Relaxed) % 10 {
        1 => Fault::Answer(500, "InternalError"),
        3 => Fault::Answer(503, "SlowDown"),
        5 => Fault::Reset,
        7 => Fault::ResetAfterStore,
        9 => Fault::Answer(403, "AccessDenied"),
        _ => Fault::None,
    }
}

/// Threads that send until they are told to stop, and know what was accepted.
struct Senders {
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<BTreeSet<String>>>,
}

impl Senders {
    fn start(address: SocketAddr) -> Self {
        let (stop, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = |sender| {
            let (stop, accepted) = (Arc::clone(&stop), Arc::clone(&accepted));
            std::thread::spawn(move || send_until(sender, address, &stop, &accepted))
        };
        let threads = (0..SENDERS).map(thread).collect();
        Self { stop, accepted, threads }
    }

    fn stop(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn send_until(
    sender: usize,
    address: SocketAddr,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> BTreeSet<String> {
    let mut accepted = BTreeSet::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let events: Vec<String> = (number..number + EVENTS_PER_BODY)
            .map(|number| format!("{{\"sender\":{sender},\"number\":{number},\"text\":\"as it was sent\"}}"))
            .collect();
        number += EVENTS_PER_BODY;
        match send(address, "events", &(events.join("\n") + "\n")) {
            Some(202) => {
                count.fetch_add(events.len(), Ordering::Relaxed);
                accepted.extend(events);
            }
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_event_is_stored_once_when_the_server_is_killed_fifty_times() {
    let s3 = S3::start(half_the_time()).await;
    let address = free_address();
    let folder = folder_with(&configuration(address, ""));
    let senders = Senders::start(address);
    for kill in 0..KILLS {
        let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
        // Now in the middle of its start, now after a while.
        if kill % 5 > 0 {
            wait_until_up(&mut server, address);
            let enough = senders.accepted.load(Ordering::Relaxed) + EVENTS_PER_KILL;
            let are_accepted = || async { senders.accepted.load(Ordering::Relaxed) >= enough };
            eventually(PATIENCE, "events are accepted", are_accepted).await;
        }
        tokio::time::sleep(Duration::from_millis((kill as u64 * 37) % 90)).await;
        server.kill();
    }
    let accepted = senders.stop();
    s3.choose(|| Fault::None);
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let all_there = || async {
        let stored = lines(&s3.objects("RAW"));
        accepted.iter().all(|event| stored.contains_key(event))
    };
    eventually(PATIENCE, "everything that was accepted is stored", all_there).await;
    assert!(accepted.len() > 1_000, "only {} events were accepted", accepted.len());
    let twice = lines(&s3.objects("RAW")).into_values().filter(|times| *times > 1).count();
    assert_eq!(twice, 0, "of {} events", accepted.len());
    assert!(s3.objects("RAW_DLQ").is_empty());
}

/// 500, 503, 403, slow, reset, reset after the object was stored: one object in the end, nothing lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_store_does_there_is_one_object_in_the_end() {
    let faults = [
        Fault::Answer(500, "InternalError"),
        Fault::Answer(503, "SlowDown"),
        Fault::Answer(403, "AccessDenied"),
        Fault::Answer(400, "InvalidArgument"),
        Fault::Reset,
        Fault::ResetAfterStore,
        Fault::Slow(Duration::from_millis(1_500)),
    ];
    for durability in ["journal", "memory"] {
        for fault in faults {
            // Long enough that all tries of the live upload meet it.
            let left = AtomicU64::new(3);
            let count = move |left: &AtomicU64| {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            };
            let s3 = S3::start(move || if count(&left) { fault } else { Fault::None }).await;
            let address = free_address();
            let durability = format!("durability = \"{durability}\"\n");
            let folder = folder_with(
                &configuration(address, &durability).replace("timeout = \"2s\"", "timeout = \"1s\""),
            );
            let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
            wait_until_up(&mut server, address);
            assert_eq!(send(address, "events", "{\"a\":1}\n{\"b\":2}\n"), Some(202));
            if fault == Fault::Answer(400, "InvalidArgument") {
                // Refused for good: it is kept, on disk, for a person to look at.
                let kept = || async { metric(address, "dlq_files_current") == Some(1) };
                eventually(PATIENCE, "the file is kept", kept).await;
                assert!(get(address, "/api/v1/ready").unwrap().contains("1 files wait on disk"));
                assert!(server.log().contains("file refused"), "{}", server.log());
                continue;
            }
            let stored = || async { metric(address, "s3_events_stored_total") == Some(2) };
            eventually(PATIENCE, &format!("{fault:?}: the events are stored"), stored).await;
            let objects = s3.objects("RAW");
            assert_eq!(objects.len(), 1, "{fault:?}");
            assert_eq!(lines(&objects).len(), 2);
            assert!(metric(address, "s3_put_errors_total").unwrap() > 0, "{fault:?}");
        }
    }
}

/// The store is away for long, the spool is full: with `reject` senders get 503 and nothing is deleted;
/// afterwards everything drains by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_spool_refuses_senders_deletes_nothing_and_drains_by_itself() {
    let s3 = S3::start(|| Fault::Answer(503, "SlowDown")).await;
    let address = free_address();
    let more = "queue = \"64KiB\"\nspool = { max-size = \"20KiB\", on-full = \"reject\" }\n";
    let folder = folder_with(&configuration(address, more));
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let mut accepted = BTreeSet::new();
    let mut refused = 0;
    for number in 0..3_000 {
        let event = format!("{{\"number\":{number},\"text\":\"{:x}\"}}", u128::MAX / (number + 1));
        match send(address, "events", &format!("{event}\n")) {
            Some(202) => drop(accepted.insert(event)),
            Some(503) => refused += 1,
            other => panic!("{other:?}"),
        }
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 20, "nobody was refused");
    assert!(metric(address, "dlq_size_bytes").unwrap() <= 20 * 1024);
    assert_eq!(metric(address, "dlq_files_expired_total"), Some(0));
    assert_eq!(metric(address, "dlq_events_dropped_total"), Some(0));
    s3.choose(|| Fault::None);
    let drained = || async { accepted.iter().all(|event| lines(&s3.objects("RAW")).contains_key(event)) };
    eventually(PATIENCE, "everything is stored", drained).await;
    assert_eq!(send(address, "events", "{}\n"), Some(202));
}

/// A small filesystem of its own; taken away with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The disk itself is full: senders get 503, nothing is deleted or dropped, and it goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_senders_and_loses_nothing() {
    let s3 = S3::start(|| Fault::Answer(503, "SlowDown")).await;
    let address = free_address();
    let folder = support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        return redrive_testkit::skip(file!(), "only root may mount a small filesystem");
    };
    let place = disk.0.display();
    let more = format!("journal = {{ dir = \"{place}/journal\" }}\nspool = {{ dir = \"{place}/spool\" }}\n");
    std::fs::write(folder.path().join("redrive.toml"), configuration(address, &more)).unwrap();
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let mut accepted = BTreeSet::new();
    let mut refused = 0;
    for number in 0..5_000_u128 {
        // No two alike, and nothing that gzip could make much smaller.
        let noise: String = (0..40)
            .map(|part| format!("{:x}", (u128::MAX / 3).wrapping_mul(number * 40 + part + 7)))
            .collect();
        let event = format!("{{\"number\":{number},\"noise\":\"{noise}\"}}");
        match send(address, "events", &format!("{event}\n")) {
            Some(202) => drop(accepted.insert(event)),
            Some(503) => refused += 1,
            other => panic!("{other:?}"),
        }
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 20, "nobody was refused, {} were accepted", accepted.len());
    assert_eq!(metric(address, "dlq_files_expired_total"), Some(0));
    assert_eq!(metric(address, "dlq_events_dropped_total"), Some(0));
    s3.choose(|| Fault::None);
    let drained = || async {
        let stored = lines(&s3.objects("RAW"));
        accepted.iter().all(|event| stored.contains_key(event))
    };
    eventually(PATIENCE, "everything is stored", drained).await;
    let goes_on = || async { send(address, "events", "{}\n") == Some(202) };
    eventually(PATIENCE, "it goes on", goes_on).await;
    drop(server);
    drop(disk);
}
