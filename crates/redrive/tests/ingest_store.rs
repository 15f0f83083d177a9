//! Ingest with a store that hangs, is slow, refuses, or is configured in its own table: the real binary, and a real
//! server that speaks S3.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;
mod survival;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redrive_testkit::{PATIENCE, eventually};
use serde_json::Value;
use support::folder_with;
use survival::Process;
use survival::ingest::{free_address, get, metric, send, wait_until_up};
use survival::s3::{Fault, S3};

const HOUR: Duration = Duration::from_secs(3_600);
/// Of an upload, where the store hangs.
const TIMEOUT: Duration = Duration::from_secs(3);

fn configuration(address: SocketAddr, more: &str) -> String {
    format!(
        "[server]\nlisten = \"{address}\"\n[ingest.events]\nstore = \"s3://bucket\"\n\
         batch = {{ max-events = 100, max-delay = \"20ms\" }}\n\
         recovery = {{ interval = \"10ms\" }}\n{more}"
    )
}

fn ready(address: SocketAddr) -> String {
    get(address, "/api/v1/ready").unwrap_or_default()
}

/// The store hung for as long as it liked in each of four slots, one batch after the other, and senders waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_hangs_batches_go_to_disk_and_one_request_asks() {
    let s3 = S3::start(|| Fault::Slow(HOUR)).await;
    let address = free_address();
    let folder = folder_with(&configuration(address, "upload = { retries = 0, timeout = \"3s\" }\n"));
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    assert_eq!(send(address, "events", "{}\n"), Some(202));
    let known = || async { ready(address).contains("object-store-unavailable") };
    eventually(PATIENCE, "the outage is known", known).await;
    assert_eq!(metric(address, "redrive_handler_down{pipeline=\"events\",handler=\"store\"}"), Some(1));
    assert_eq!(metric(address, "redrive_events_lost_total{pipeline=\"events\",reason=\"evicted\"}"), Some(0));
    let most = AtomicUsize::new(0);
    for saved in 2..=60 {
        assert_eq!(send(address, "events", "{}\n"), Some(202));
        let on_disk = || async {
            most.fetch_max(s3.waiting(TIMEOUT), Ordering::Relaxed);
            // One of them may be what asks.
            metric(address, "dlq_events_enqueued_total{").is_some_and(|events| events + 1 >= saved)
        };
        eventually(PATIENCE, "it is on disk", on_disk).await;
    }
    let most = most.into_inner();
    assert!(most <= 1, "{most} requests had no answer at a time");
    let letters = || async {
        metric(address, "redrive_dead_letters{pipeline=\"events\",status=\"open\"}")
            .is_some_and(|open| open > 0)
    };
    eventually(PATIENCE, "each file is a letter", letters).await;
    s3.choose(|| Fault::None);
    let drained =
        || async { metric(address, "redrive_dead_letters{pipeline=\"events\",status=\"open\"}") == Some(0) };
    eventually(PATIENCE, "drained", drained).await;
    assert_eq!(metric(address, "redrive_handler_down{pipeline=\"events\",handler=\"store\"}"), Some(0));
    drop(server);
}

/// It was ready, and nobody was told that senders would be refused and that a stop would lose events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_whose_batches_go_nowhere_is_not_ready_and_counts_whom_it_refuses() {
    let s3 = S3::start(|| Fault::Answer(503, "SlowDown")).await;
    let address = free_address();
    let more = "upload = { retries = 0, timeout = \"2s\" }\nqueue = \"64KiB\"\n\
                spool = { max-size = \"1KiB\", on-full = \"reject\" }\n";
    let folder = folder_with(&configuration(address, more));
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let nowhere = || async {
        send(address, "events", "{}\n");
        ready(address).contains("disk-unusable")
    };
    eventually(PATIENCE, "it is not ready", nowhere).await;
    let refused = || async {
        send(address, "events", "{}\n");
        metric(address, "redrive_refused_total{pipeline=\"events\",reason=\"queue-full\"}")
            .is_some_and(|count| count > 0)
    };
    eventually(PATIENCE, "senders are refused", refused).await;
    assert_eq!(send(address, "events", "no event\n"), Some(400));
    assert_eq!(
        metric(address, "redrive_refused_total{pipeline=\"events\",reason=\"body-invalid\"}"),
        Some(1)
    );
    assert!(server.log().contains("requests are refused"), "{}", server.log());
    s3.choose(|| Fault::None);
    eventually(PATIENCE, "it is ready", || async { !ready(address).contains("disk-unusable") }).await;
    drop(server);
}

/// Under load nothing was recovered, and in the first quiet moment everything was too old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_to_a_slow_store_under_load_and_none_expires() {
    let s3 = S3::start(|| Fault::Answer(503, "SlowDown")).await;
    let address = free_address();
    let more = "upload = { retries = 0, timeout = \"30s\" }\nspool = { max-age = \"2s\" }\n";
    let folder = folder_with(&configuration(address, more));
    // Files that are far too old, of an earlier life.
    let spool = folder.path().join("redrive-data/spool/events");
    std::fs::create_dir_all(&spool).unwrap();
    s3.choose(|| Fault::Slow(Duration::from_millis(300)));
    for number in 0..6 {
        let batch = redrive::spool::Batch::compress(&["{}\n{}\n".into()]).unwrap();
        let path = spool.join(format!("1700000000_i-before_{number:06}.jsonl.gz"));
        std::fs::write(&path, &batch.data).unwrap();
        let meta = serde_json::to_vec(&batch.meta).unwrap();
        std::fs::write(spool.join(format!("1700000000_i-before_{number:06}.jsonl.gz.meta.json")), meta)
            .unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let load = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            send(address, "events", "{}\n");
        }
    });
    let gone = || async {
        let uploaded = metric(address, "dlq_events_reuploaded_total{");
        let expired = metric(address, "dlq_files_expired_total{");
        uploaded.zip(expired).is_some_and(|(events, files)| events / 2 + files == 6)
    };
    eventually(PATIENCE, "the files are gone", gone).await;
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    assert_eq!(metric(address, "dlq_files_expired_total{"), Some(0));
    assert_eq!(metric(address, "dlq_events_reuploaded_total{"), Some(12));
    drop(server);
}

/// Accepted 200, delivered 100, open 100, with an empty spool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_and_an_outage_the_books_add_up() {
    let s3 = S3::start(|| Fault::Slow(HOUR)).await;
    let address = free_address();
    let folder = folder_with(&configuration(address, "upload = { retries = 0, timeout = \"30s\" }\n"));
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    assert_eq!(send(address, "events", &"{}\n".repeat(100)), Some(202));
    eventually(PATIENCE, "the batch has its name, and is on its way", || async { s3.waiting(HOUR) > 0 })
        .await;
    server.kill();
    s3.choose(|| Fault::Answer(503, "SlowDown"));
    let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
    wait_until_up(&mut server, address);
    let saved = || async { metric(address, "dlq_events_enqueued_total{") == Some(100) };
    eventually(PATIENCE, "it is replayed, and on disk", saved).await;
    s3.choose(|| Fault::None);
    let of = |books: &Value, name: &str| {
        find(books, "events").and_then(|books| find(books, name)).and_then(Value::as_i64)
    };
    let balanced = || async {
        let books: Value = serde_json::from_str(&get(address, "/api/v1/books")?).ok()?;
        let [accepted, delivered, open] = ["accepted", "delivered", "open"].map(|name| of(&books, name));
        // When the file is gone, it is one or the other.
        (open == Some(0) || accepted != Some(100)).then_some((accepted, delivered, open))
    };
    eventually(PATIENCE, "the file is gone", || async { balanced().await.is_some() }).await;
    assert_eq!(balanced().await, Some((Some(100), Some(100), Some(0))));
    drop(server);
}

/// The value of this name, or what has it as its own name, anywhere below.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) if fields.values().any(|field| field == name) => Some(value),
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|field| find(field, name)))
        }
        Value::Array(items) => items.iter().find_map(|item| find(item, name)),
        _ => None,
    }
}

/// Endpoint, bucket and key were in the log, in mails and in chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_says_what_the_store_said_and_not_where_it_is() {
    for (fault, said) in [
        (Fault::Answer(403, "SignatureDoesNotMatch"), "403 Forbidden: SignatureDoesNotMatch"),
        (Fault::Reset, "the connection to the store broke"),
    ] {
        let s3 = S3::start(move || fault).await;
        let address = free_address();
        let folder = folder_with(&configuration(address, "upload = { retries = 1, timeout = \"2s\" }\n"));
        let mut server = Process::serve_with(folder.path(), "server", &s3.variables());
        wait_until_up(&mut server, address);
        assert_eq!(send(address, "events", "{}\n"), Some(202));
        eventually(PATIENCE, "it is on disk", || async { metric(address, "dlq_files_current{") == Some(1) })
            .await;
        let logged = || async { server.log().contains("the store does not take batches") };
        eventually(PATIENCE, "it is in the log", logged).await;
        let shown = server.log() + &ready(address);
        assert!(shown.contains(said), "{shown}");
        for hidden in [s3.address.to_string(), format!(":{}", s3.address.port()), "/bucket".to_owned()] {
            assert!(!shown.contains(&hidden), "{hidden}: {shown}");
        }
    }
}

fn table(s3: &S3, folder: &std::path::Path, secret: &str) -> String {
    std::fs::write(folder.join("secret"), format!("{secret}\n")).unwrap();
    format!(
        "raw-prefix = \"RAW/dt={{date}}/hour={{hour}}\"\n[ingest.events.store]\nurl = \"s3://bucket/data\"\n\
         endpoint = \"http://{}\"\nregion = \"eu-north-1\"\npath-style = true\naccess-key-id = \"env:STORE_KEY\"\n\
         secret-access-key = \"file:{}\"\n",
        s3.address,
        folder.join("secret").display()
    )
}

/// Everything that is needed is in the file, for this pipeline alone; objects have partitions by time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_configured_in_its_own_table_and_objects_have_partitions() {
    let s3 = S3::start(|| Fault::None).await;
    let address = free_address();
    let folder = support::folder();
    let head =
        format!("[server]\nlisten = \"{address}\"\n[ingest.events]\nbatch = {{ max-delay = \"20ms\" }}\n");
    let key = [("STORE_KEY", "key".to_owned()), ("NO_PROXY", "127.0.0.1".to_owned())];
    let write = |secret: &str| {
        let text = head.clone() + &table(&s3, folder.path(), secret);
        std::fs::write(folder.path().join("redrive.toml"), text).unwrap();
    };
    let check =
        || support::redrive(folder.path()).args(["check", "--connect"]).envs(key.clone()).output().unwrap();
    write("wrong");
    let wrong = check();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("cannot write"), "{said}");
    assert!(!said.contains(&s3.address.to_string()), "{said}");
    write("secret");
    let right = check();
    assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
    assert!(String::from_utf8_lossy(&right.stdout).contains("an object was written, read and deleted"));
    assert_eq!(s3.names(), Vec::<String>::new(), "a probe leaves nothing behind");

    let mut server = Process::serve_with(folder.path(), "server", &key);
    wait_until_up(&mut server, address);
    assert_eq!(send(address, "events", "{}\n"), Some(202));
    let stored = || async { metric(address, "s3_events_stored_total{") == Some(1) };
    eventually(PATIENCE, "it is stored", stored).await;
    let names = s3.names();
    let (folders, name) = names[0].rsplit_once('/').unwrap();
    let unix: i64 = name.split('_').next().unwrap().parse().unwrap();
    let cut = jiff::Timestamp::from_second(unix).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
    assert_eq!(folders, cut.strftime("data/RAW/dt=%Y-%m-%d/hour=%H").to_string(), "{names:?}");
    drop(server);
}
